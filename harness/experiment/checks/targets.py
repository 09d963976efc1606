"""Refuses targets that are not there, or that have nothing that a fault could hit."""

from __future__ import annotations

from kafka_chaos.faults.target import GROUP_COORDINATOR, OF_CLIENTS, TRANSACTION_COORDINATOR, Target, TargetError
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.specs import ExperimentError, PhaseSpec


def check_target(cluster: ClusterSpec, place: tuple[str | int, ...], target: Target, phase: PhaseSpec) -> None:
    """Refuse a target; raises `ExperimentError`."""
    lanes = {lane.lane for lane in phase.lanes}
    try:
        target.check(
            brokers=cluster.brokers, zookeepers=cluster.zookeepers, controllers=cluster.controllers, lanes=lanes
        )
    except TargetError as error:
        raise ExperimentError(place, str(error)) from error
    lane = next((lane for lane in phase.lanes if lane.lane == target.lane), None)
    if target.role == GROUP_COORDINATOR and lane is not None and lane.group is None and lane.loop is None:
        raise ExperimentError(place, f"{target.text}: the lane {lane.lane} has no group and no loop")
    if target.role in OF_CLIENTS and lane is not None and lane.group is None and lane.loop is None:
        message = "its producer and its consumer are threads of the harness; only members of a group or of a loop are "
        raise ExperimentError(place, f"{target.text}: {message}processes of their own")
    if target.role == TRANSACTION_COORDINATOR and lane is not None and lane.transactional is None:
        raise ExperimentError(place, f"{target.text}: the lane {lane.lane} has no transactions")
