"""Refuses lock-step phases without known steps, or without one leader."""

from __future__ import annotations

from kafka_chaos.faults.target import Target, TargetError
from kafka_chaos.harness.experiment.checks.targets import check_target
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.specs import ExperimentError, LockstepSpec, PhaseSpec
from kafka_chaos.reference_model import LockstepStep


def check_lockstep(
    cluster: ClusterSpec, place: tuple[str | int, ...], phase: PhaseSpec, lockstep: LockstepSpec
) -> None:
    """Refuse a lock-step phase; raises `ExperimentError`."""
    for index, step in enumerate(lockstep.steps):
        if step not in set(LockstepStep):
            raise ExperimentError(
                (*place, "steps", index), f"{step!r} is not a step: expected one of {', '.join(LockstepStep)}"
            )
    try:
        target = Target.parse(lockstep.target)
    except TargetError as error:
        raise ExperimentError((*place, "target"), str(error)) from error
    if target.role != "leader":
        raise ExperimentError((*place, "target"), f"{lockstep.target}: a lock-step phase acts on leader(LANE)")
    check_target(cluster, (*place, "target"), target, phase)
    leaders = {lane.leader for lane in phase.lanes}
    if len(leaders) != 1 or None in leaders:
        raise ExperimentError(place, "all lanes of a lock-step phase need the same leader")
