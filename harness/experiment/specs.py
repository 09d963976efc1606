"""An experiment as one checked value: a cluster, lanes, a workload and faults.

A run of several phases uses one cluster. Each phase has its own lanes, its own load and its own `schedule` (timed
faults) or `steps` (in a lock-step phase: faults whose steps wait for conditions). A phase begins once the phase before
has settled, with all replicas in sync. Every refusal names the place in the file; `file.py` adds the line.
"""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from kafka_chaos.contract.command.errors import UsageFailure, quoted
from kafka_chaos.contract.lane.fault_kinds import faults_of_steps
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.faults.coordination.reassignment import PartitionGrowth
from kafka_chaos.faults.fault import Fault, concerns
from kafka_chaos.faults.target import MEMBER
from kafka_chaos.harness.cluster.configuration.layout import USUAL_DISK_MIB, ClusterLayout
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.defect_spec import DefectSpec
from kafka_chaos.harness.experiment.fault_spec import FaultSpec, single_fault_entries
from kafka_chaos.harness.experiment.known_configs import leader_rebalance_stops
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.experiment.model_faults import lane_faults_of
from kafka_chaos.harness.experiment.values import Name, Seconds, Spec
from kafka_chaos.reference_model import LockstepStep

_PHASE_KEYS = ("lanes", "workload", "schedule", "steps", "outside_faults")
_SHARED_KEYS = ("lanes", "workload")
HISTORY_BYTES = 200
"""Bytes of a record's rows in `produced/`, `consumed/`, `log/` and `findings/`; compressed they take less."""
_DISK_FACTOR = 2
"""A broker's disk has this many times the planned load: indexes take room, and one broker may have all topics."""


class ExperimentError(UsageFailure):
    """A refusal; `place` is the path of keys and indices to the wrong value."""

    def __init__(self, place: tuple[str | int, ...], message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(f"{dotted(place)}: {message}")


Refusals = Iterator[tuple[tuple[str | int, ...], str]]
"""The refusals of a check: for each, the path of the refused key below the place that was checked, and the reason."""


def raise_first(place: tuple[str | int, ...], refusals: Refusals) -> None:
    """Raise the first refusal, if there is any, as an `ExperimentError` at this place."""
    for keys, message in refusals:
        raise ExperimentError((*place, *keys), message)


def dotted(place: tuple[str | int, ...]) -> str:
    """A place as messages show it: phases[0].lanes[2].acks."""
    text = "".join(
        f".{step}" if re.fullmatch(r"[\w.-]{1,80}", str(step)) and isinstance(step, str) else f"[{quoted(step)}]"
        for step in place
    )
    return text.lstrip(".") or "experiment"


class LockstepSpec(Spec):
    """The key `steps`: faults at one target, in which each step waits for its own condition."""

    target: str = Field(description="`leader(LANE)`, the broker that the steps act on")
    steps: tuple[str, ...] = Field(min_length=1, strict=False, description="the steps, in order (listed below)")
    step_seconds: Seconds = Field(default=1.0, description="seconds of load that `append` waits for at least")


class PhaseSpec(Spec):
    """An entry of `phases`: it has a `schedule`, or `steps`, or neither (load without faults)."""

    phase: Name = Field(description="the phase's name")
    lanes: tuple[LaneSpec, ...] = Field(min_length=1, strict=False, description="topics with their producers")
    workload: WorkloadSpec = Field(default=WorkloadSpec(), description="the load on each lane")
    schedule: Annotated[tuple[FaultSpec, ...], AfterValidator(single_fault_entries)] = Field(
        default=(), strict=False, description="timed faults, or the key `generate`"
    )
    steps: LockstepSpec | None = Field(default=None, description="faults whose steps wait for conditions")
    outside_faults: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="fault kinds that others may inject during the phase: the prediction allows for them",
    )

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """The timed faults in the order of their start; raises `ValueError` for an entry that is not a fault."""
        return tuple(sorted((entry.built_fault for entry in self.schedule), key=lambda fault: fault.at))

    def with_added_partitions(self) -> Self:
        """A copy of the phase whose lanes also have the partitions that faults add."""
        growths = [fault for fault in self.faults if isinstance(fault, PartitionGrowth)]
        added = {lane.lane: sum(growth.add for growth in growths if concerns(growth, lane.lane)) for lane in self.lanes}
        lanes = tuple(lane.with_added_partitions(added[lane.lane]) for lane in self.lanes)
        return self.model_copy(update={"lanes": lanes})

    def lockstep_steps(self) -> tuple[LockstepStep, ...] | None:
        """The steps of a lock-step phase as the model knows them."""
        return tuple(LockstepStep(step) for step in self.steps.steps) if self.steps else None

    def lane_faults(self, cluster: ClusterLayout, lane: LaneSpec) -> tuple[str, ...]:
        """The model's faults for a lane in this phase: the lane's `faults` in lanes.json."""
        faults = (*self._injected_faults(cluster, lane), *self.outside_faults)
        return (*faults, *leader_rebalance_stops(cluster, len(faults)))

    def uninjected_faults(self, cluster: ClusterLayout) -> tuple[str, ...]:
        """The kinds of the faults that others, or brokers themselves, may cause: the most that any lane may see."""
        most_faults = max(len(self._injected_faults(cluster, lane)) for lane in self.lanes) + len(self.outside_faults)
        return (*self.outside_faults, *leader_rebalance_stops(cluster, most_faults))

    def _injected_faults(self, cluster: ClusterLayout, lane: LaneSpec) -> tuple[str, ...]:
        """The faults that the run itself injects, as the model counts them for a lane."""
        if self.steps is not None:
            return faults_of_steps(self.steps.steps)
        return lane_faults_of(self.faults, lane.lane, lane.replication_factor, cluster)

    def members_hit(self, fault: Fault) -> int:
        """How many members of a group, loop or share group a fault may hit; 0 if its target is not a member."""
        if fault.target.role.removesuffix("s") != MEMBER:
            return 0
        if fault.target.role == MEMBER:
            return 1
        lane = next(lane for lane in self.lanes if lane.lane == fault.target.lane)
        group = lane.group or (None if lane.loop is None else lane.loop.group)
        group_or_share = group or lane.share
        return 0 if group_or_share is None else group_or_share.members + group_or_share.joins

    def member_crashes(self, lane: LaneSpec) -> int:
        """How many members of the lane's group, loop or share group the timed faults may end."""
        # A member of a share group that was paused drops the records that it holds, as if it had ended.
        ends = [fault for fault in self.faults if fault.crashes_members or lane.share is not None]
        return sum(self.members_hit(fault) for fault in ends if fault.target.lane == lane.lane)


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
    defect: DefectSpec | None = Field(
        default=None, exclude=True, description="the known defect that the experiment shows, for `kafka-chaos known`"
    )
    recorded: dict[str, Any] = Field(
        default_factory=dict,
        exclude=True,
        description="written by a run (run id, versions, start); ignored when the file is run again",
    )

    @property
    def planned_bytes(self) -> int:
        """The estimated bytes that the planned load writes: every replica of each record, and the history."""
        total = 0.0
        for phase in self.phases:
            records = phase.workload.rate * phase.workload.duration
            for lane in phase.lanes:
                total += records * (phase.workload.record_size * lane.replication_factor + HISTORY_BYTES)
        return round(total)

    @property
    def layout(self) -> ClusterLayout:
        """The cluster that the experiment needs: `cluster`, with the disks, links and clocks that its faults break."""
        kinds = {type(fault) for phase in self.phases for fault in phase.faults}
        layout = self.cluster.as_layout()
        if any(kind.needs_links for kind in kinds):
            layout = replace(layout, links=True)
        if any(kind.needs_clock for kind in kinds):
            layout = replace(layout, clocks=True)
        if any(kind.needs_disk for kind in kinds):
            planned_mib = _DISK_FACTOR * self.planned_bytes >> 20
            layout = replace(layout, disk_mib=max(USUAL_DISK_MIB, planned_mib))
        return layout

    @cached_property
    def lanes(self) -> tuple[tuple[PhaseSpec, LaneSpec, Lane], ...]:
        """For each lane, with all partitions that faults add: its phase, its keys, and the model's lane."""
        pairs = ((phase, spec) for phase in self.phases for spec in phase.with_added_partitions().lanes)
        return tuple((phase, spec, self.as_lane(phase, spec)) for phase, spec in pairs)

    @property
    def lane_specs(self) -> list[LaneSpec]:
        """The lanes of all phases, with all partitions that faults add."""
        return [spec for _, spec, _ in self.lanes]

    def as_lane(self, phase: PhaseSpec, lane: LaneSpec) -> Lane:
        """A lane of a phase as the model knows it, with all its faults."""
        cluster = self.cluster.as_layout()
        return lane.as_lane(phase.lane_faults(cluster, lane), cluster, crashes=phase.member_crashes(lane))


def with_phases(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an experiment with every key of a phase in its phase.

    Without `phases`, the keys at the top belong to the only phase, `main`. With `phases`, the top's `lanes` and
    `workload` belong to each phase without its own. In such a phase, the lane LANE is called PHASE-LANE.
    """
    if "phases" not in values:
        inner = {key: values[key] for key in _PHASE_KEYS if key in values}
        return {**{key: values[key] for key in values if key not in inner}, "phases": [{"phase": "main", **inner}]}
    phases = values["phases"]
    if not isinstance(phases, list):
        return dict(values)
    missing = {key for phase in phases if isinstance(phase, Mapping) for key in _SHARED_KEYS if key not in phase}
    shared = {key: values[key] for key in _SHARED_KEYS if key in values and key in missing}
    outer = {key: values[key] for key in values if key not in shared}
    return {**outer, "phases": [_with_shared(phase, shared) for phase in phases]}


def _with_shared(phase: Any, shared: Mapping[str, Any]) -> Any:
    """The keys of a phase with the shared keys that it lacks. Invalid phases and lanes are refused later."""
    if not isinstance(phase, Mapping):
        return phase
    lanes, name = shared.get("lanes"), phase.get("phase")
    if isinstance(lanes, list):
        lanes_of_phase = [
            {**lane, "lane": f"{name}-{lane['lane']}"}
            if isinstance(lane, Mapping) and isinstance(lane.get("lane"), str)
            else lane
            for lane in lanes
        ]
        shared = {**shared, "lanes": lanes_of_phase}
    return {**shared, **phase}
