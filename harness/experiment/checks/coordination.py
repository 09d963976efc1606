"""Refuses reassignments for which there is no room, and of lanes that the model can't know with one replica more; and
topics that grow past what their lanes can use."""

from __future__ import annotations

from kafka_chaos.faults.coordination.partition_growth import PartitionGrowth
from kafka_chaos.faults.coordination.reassignment import Reassignment
from kafka_chaos.faults.fault import Fault, concerns
from kafka_chaos.harness.clients.kinds import IN_PROCESS
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.lane_specs import MOST_PARTITIONS
from kafka_chaos.harness.experiment.specs import ExperimentError, PhaseSpec


def check_reassignment(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Raise `ExperimentError` where a lane's replicas can't move, or where they are all that its promise rests on.

    While a replica moves, a partition has one more. That changes no answer of the model unless a record that was
    acknowledged is in every replica: then it is not in the new one.
    """
    if not isinstance(fault, Reassignment):
        return
    hit = fault.target.brokers_hit(cluster.brokers)
    for lane in (lane for lane in phase.lanes if concerns(fault, lane.lane)):
        replicas, name = lane.replication_factor, f"lane {lane.lane}"
        if replicas > cluster.brokers - hit:
            others = f"the {cluster.brokers} brokers but for {hit} that are hit"
            message = f"the {replicas} replicas of {name} have no place on {others}: expected {replicas + hit} brokers"
            raise ExperimentError((*place, "fault"), f"{fault.kind}: {message}, or another lane")
        if replicas == 1:
            message = f"{name} has one replica, and two while it moves: a record may be in one alone"
            raise ExperimentError((*place, "fault"), f"{fault.kind}: {message}; expected replication_factor 2 or more")
        if lane.unclean_leader_election and lane.min_insync_replicas == replicas:
            message = f"an unclean election may choose a replica of {name} that has just begun, although all have to be"
            expected = "expected min_insync_replicas below replication_factor, or no unclean_leader_election"
            raise ExperimentError((*place, "fault"), f"{fault.kind}: {message} in sync; {expected}")


def check_growth(place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Raise `ExperimentError` where nobody would write to a lane's new partitions, or there would be too many."""
    if not isinstance(fault, PartitionGrowth):
        return
    for lane in (lane for lane in phase.grown().lanes if concerns(fault, lane.lane)):
        if lane.loop is not None:
            message = f"the loop of lane {lane.lane} writes to the partitions that its topic begins with"
            raise ExperimentError((*place, "fault"), f"{fault.kind}: {message}; expected another lane")
        if lane.client != IN_PROCESS:
            message = (
                f"{lane.client}, the client of lane {lane.lane}, writes to the partitions that its topic begins with"
            )
            raise ExperimentError((*place, "fault"), f"{fault.kind}: {message}; expected another lane")
        if lane.partitions > MOST_PARTITIONS:
            message = f"lane {lane.lane} would have {lane.partitions} partitions: expected {MOST_PARTITIONS} at most"
            raise ExperimentError((*place, "add"), message)
