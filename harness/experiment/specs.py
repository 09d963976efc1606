"""An experiment as one checked value: a cluster, lanes, a workload and faults.

A run of several phases uses one cluster. Each phase has its own lanes, its own load and its own `schedule` (timed
faults) or `lockstep` (faults whose steps wait for conditions). It begins when the former phase has settled, with all
replicas in sync. Every refusal names the place in the file; `file.py` adds the line.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from kafka_chaos.contract.errors import UsageFailure, quoted
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.faults.fault import Fault, crashes_members
from kafka_chaos.faults.target import MEMBER, OF_CLIENTS
from kafka_chaos.harness.cluster.layout import ClusterLayout
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.fault_spec import FaultSpec, one_by_one
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.experiment.model_faults import all_model_faults
from kafka_chaos.harness.experiment.values import Name, Seconds, Spec
from kafka_chaos.reference_model import LockstepStep

_OF_A_PHASE = ("lanes", "workload", "schedule", "lockstep", "outside_faults")


class ExperimentError(UsageFailure):
    """A refusal; `place` is the path of keys and indices to the wrong value."""

    def __init__(self, place: tuple[str | int, ...], message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(f"{dotted(place)}: {message}")


def dotted(place: tuple[str | int, ...]) -> str:
    """A place as messages show it: phases[0].lanes[2].acks."""
    text = "".join(
        f".{step}" if re.fullmatch(r"[\w.-]{1,80}", str(step)) and isinstance(step, str) else f"[{quoted(step)}]"
        for step in place
    )
    return text.lstrip(".") or "experiment"


class LockstepSpec(Spec):
    """The key `lockstep`: faults at one target, in which each step waits for its own condition."""

    target: str = Field(description="`leader(LANE)`, the broker that the steps act on")
    steps: tuple[str, ...] = Field(min_length=1, strict=False, description="the steps, in order (listed below)")
    step_seconds: Seconds = Field(default=1.0, description="seconds of load between the cut and the kill")


class PhaseSpec(Spec):
    """An entry of `phases`; it has a `schedule` or a `lockstep`, or neither (load without faults)."""

    phase: Name = Field(description="the phase's name")
    lanes: tuple[LaneSpec, ...] = Field(min_length=1, strict=False, description="topics with their producers")
    workload: WorkloadSpec = Field(default=WorkloadSpec(), description="the load on each lane")
    schedule: Annotated[tuple[FaultSpec, ...], AfterValidator(one_by_one)] = Field(
        default=(), strict=False, description="timed faults, or the key `generate`"
    )
    lockstep: LockstepSpec | None = Field(default=None, description="faults whose steps wait for conditions")
    outside_faults: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="fault kinds that others may inject during the phase: the prediction allows for them",
    )

    def faults(self) -> tuple[Fault, ...]:
        """The timed faults in the order of their start."""
        return tuple(sorted((entry.build() for entry in self.schedule), key=lambda fault: fault.at))

    def lockstep_steps(self) -> tuple[LockstepStep, ...] | None:
        """The steps of a lock-step phase as the model knows them."""
        return tuple(LockstepStep(step) for step in self.lockstep.steps) if self.lockstep else None

    def lane_faults(self, cluster: ClusterLayout, replicas: int) -> tuple[str, ...]:
        """The faults of a lane in this phase, in such a cluster: `faults` in lanes.json.

        A fault may hit as many of a partition's replicas as it hits brokers.
        """
        if self.lockstep is not None:
            return ("partition", "kill", *self.outside_faults)
        hit = (Counter(kinds) for kinds in all_model_faults(self.faults(), cluster))
        kinds = (kind for counted in hit for kind, count in counted.items() for _ in range(min(count, replicas)))
        return (*kinds, *self.outside_faults)

    def members_hit(self, fault: Fault) -> int:
        """How many members of a group or a loop a fault may hit; 0 where its target is a server."""
        if fault.target.role not in OF_CLIENTS:
            return 0
        if fault.target.role == MEMBER:
            return 1
        lane = next(lane for lane in self.lanes if lane.lane == fault.target.lane)
        group = lane.group or (None if lane.loop is None else lane.loop.group)
        return 0 if group is None else group.members + group.joins

    def member_crashes(self, lane: LaneSpec) -> int:
        """How many members of the lane's group, or of its loop, the timed faults may end."""
        ending = [fault for fault in self.faults() if fault.target.lane == lane.lane and crashes_members(fault)]
        return sum(self.members_hit(fault) for fault in ending)


class Experiment(Spec):
    """A whole experiment."""

    name: Name = Field(description="the experiment's name, part of the name of its run directories")
    description: str = Field(default="", description="what the experiment is for, shown in the report")
    seed: int = Field(
        default_factory=lambda: random.SystemRandom().randrange(2**31),
        description="decides every random choice; `--seed` overrides it",
    )
    cluster: ClusterSpec = Field(
        default=ClusterSpec(), description="brokers, with ZooKeeper or controllers, shared by all phases"
    )
    phases: tuple[PhaseSpec, ...] = Field(
        min_length=1, strict=False, description="the phases in order, each with lanes, load and faults"
    )
    recorded: dict[str, Any] = Field(
        default_factory=dict,
        exclude=True,
        description="written by a run (run id, versions, start); ignored when the file is run again",
    )

    @model_validator(mode="before")
    @classmethod
    def _single_phase(cls, value: Any) -> Any:
        """An experiment without `phases` has one phase, whose keys are at the top."""
        if isinstance(value, dict) and "phases" not in value:
            inner = {key: value[key] for key in _OF_A_PHASE if key in value}
            outer = {key: entry for key, entry in value.items() if key not in inner}
            return {**outer, "phases": [{"phase": "main", **inner}]}
        return value

    def lanes(self) -> Iterator[tuple[PhaseSpec, LaneSpec, Lane]]:
        """All lanes with their phase, and as the model knows them."""
        for phase in self.phases:
            for lane in phase.lanes:
                yield phase, lane, self.as_lane(phase, lane)

    def as_lane(self, phase: PhaseSpec, lane: LaneSpec) -> Lane:
        """A lane of a phase as the model knows it, with all its faults."""
        cluster = self.cluster.spec()
        faults = phase.lane_faults(cluster, lane.replication_factor)
        return lane.as_lane(faults, cluster, crashes=phase.member_crashes(lane))
