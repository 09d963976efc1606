"""Refuses cuts of nothing, peers that are not there, and what a link can't do."""

from __future__ import annotations

from kafka_chaos.faults.fault import Fault, parameters
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_IDS
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.model_faults import OF_CONTROLLERS
from kafka_chaos.harness.experiment.specs import ExperimentError, PhaseSpec


def check_peers(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    """Refuse peers that are not there."""
    peers = parameters(fault).get("peers")
    known = [*range(1, cluster.brokers + 1), *(CONTROLLER_IDS + n for n in range(1, cluster.controllers + 1))]
    for number in peers if isinstance(peers, tuple) else ():
        if number not in known:
            expected = ", ".join(map(str, known))
            raise ExperimentError((*place, "peers"), f"{number} is not the id of a node: expected {expected}")
    if peers == "controllers" and not cluster.controllers:
        raise ExperimentError((*place, "peers"), "the cluster has no controllers that are no brokers")


def check_cut(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    """Refuse a partition that cuts nothing: peers that are the targets, or a listener that nobody connects to."""
    if not isinstance(fault, Partition):
        return
    peers = fault.peers
    of_controllers = bool(cluster.controllers) and fault.target.role in OF_CONTROLLERS
    hit = fault.target.controllers_hit(cluster.controllers)
    if of_controllers and peers in (None, "controllers") and hit == cluster.controllers:
        message = f"{fault.target.text}: there are no other controllers to be cut off from: expected `peers: brokers`"
        raise ExperimentError((*place, "target"), message)
    to_controllers = _are_controllers(peers) if peers is not None else of_controllers
    listens = {"in": of_controllers, "out": to_controllers, "both": of_controllers or to_controllers}
    if fault.port == "control" and cluster.controllers and not listens[fault.direction]:
        message = "brokers have no such listener where controllers are no brokers: expected replication"
        raise ExperimentError((*place, "port"), message)
    if fault.port == "replication" and (of_controllers or to_controllers):
        raise ExperimentError((*place, "port"), "controllers have no such listener: expected control")


def _are_controllers(peers: tuple[int, ...] | str) -> bool:
    return peers == "controllers" if isinstance(peers, str) else any(number > CONTROLLER_IDS for number in peers)


def check_control_port(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    """Refuse a cut of the control plane's listener where brokers have none."""
    oldest = cluster.spec().oldest
    if fault.kind == "partition" and parameters(fault).get("port") == "control" and not oldest.has_control_plane:
        message = f"Kafka {oldest.number} has no such listener (before 2.2): expected replication"
        raise ExperimentError((*place, "port"), message)


def check_links(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Refuse what a link can't do, and what can't be done past one."""
    from kafka_chaos.harness.cluster.links.frames import no_api

    keys = parameters(fault)
    if not fault.needs_links:
        by_link = cluster.links or _has_fault_of_links(phase)
        if by_link and fault.avoids_links:
            message = f"{fault.kind}: connections of clients end at links, which break them themselves: expected cut"
            raise ExperimentError((*place, "fault"), message)
        if by_link and fault.kind == "partition" and keys.get("port") and keys.get("direction") != "out":
            message = f"{keys['port']}: connections to the target's listeners pass its link: expected direction out"
            raise ExperimentError((*place, "port"), message)
        return
    if fault.target.role == "zookeeper":
        message = f"{fault.target.text}: ZooKeeper does not speak Kafka's protocol, which {fault.kind} acts on"
        raise ExperimentError((*place, "target"), message)
    if cluster.security != "plaintext":
        message = f"{fault.kind} reads requests, and {cluster.security} encrypts them: expected plaintext"
        raise ExperimentError((*place, "fault"), message)
    api = keys.get("api")
    if api is not None and (refusal := no_api(api)) is not None:
        raise ExperimentError((*place, "api"), refusal)


def _has_fault_of_links(phase: PhaseSpec) -> bool:
    """Whether a fault of the phase acts at a link. An unknown kind does not: its own entry is refused."""
    kinds = [fault_kinds().get(entry.fault) for entry in phase.schedule]
    return any(kind is not None and kind.needs_links for kind in kinds)
