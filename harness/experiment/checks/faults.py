"""Refuses faults and lock-step phases that their cluster or their lanes can't have, and faults after the load; cuts of
nothing, peers that are not there, and what a link can't do."""

from __future__ import annotations

from kafka_chaos.faults.clients.members import ClientPause
from kafka_chaos.faults.clock.clocks import MovedClock
from kafka_chaos.faults.coordination.reassignment import PartitionGrowth, Reassignment
from kafka_chaos.faults.fault import Fault, concerns, fits, parameters
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.target import (
    CONSUMER,
    GROUP_COORDINATOR,
    MEMBER,
    OF_CLIENTS,
    PRODUCER,
    TRANSACTION_COORDINATOR,
    Target,
    TargetError,
)
from kafka_chaos.harness.clients.kinds import IN_PROCESS
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_IDS
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.lane_specs import MOST_PARTITIONS
from kafka_chaos.harness.experiment.model_faults import OF_CONTROLLERS
from kafka_chaos.harness.experiment.specs import ExperimentError, LockstepSpec, PhaseSpec
from kafka_chaos.reference_model import LockstepStep


def check_faults(cluster: ClusterSpec, number: int, phase: PhaseSpec) -> None:
    """Refuse what the faults of a phase can't be; raises `ExperimentError`."""
    if phase.steps is not None and phase.schedule:
        raise ExperimentError(("phases", number, "steps"), "expected either steps or schedule, not both")
    for index, entry in enumerate(phase.schedule):
        place: tuple[str | int, ...] = ("phases", number, "schedule", entry.entry(index))
        try:
            fault = entry.build()
        except TargetError as error:
            raise ExperimentError((*place, "target"), str(error)) from error
        except ValueError as error:
            key, _, rest = str(error).partition(": ")
            raise ExperimentError((*place, key), rest) from error
        _check_target(cluster, (*place, "target"), fault.target, phase)
        _check_kind(cluster, place, fault)
        _check_lane_key(place, fault, phase)
        _check_frozen_producer((*place, "target"), fault, phase)
        _check_kraft(cluster, place, fault)
        check_peers(cluster, place, fault)
        check_cut(cluster, place, fault)
        check_control_port(cluster, place, fault)
        check_links(cluster, place, fault, phase)
        check_clock(cluster, place, fault, phase)
        check_reassignment(cluster, place, fault, phase)
        check_growth(place, fault, phase)
        _check_power(cluster, place, fault, number)
        if entry.at >= phase.workload.duration:
            raise ExperimentError((*place, "at"), f"{entry.at:g} s is past the load of {phase.workload.duration:g} s")
    if phase.steps is not None:
        check_lockstep(cluster, ("phases", number, "steps"), phase, phase.steps)


def _check_kraft(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    """Refuse what can't be done in KRaft mode.

    A broker shuts down in a controlled way only while there is an active controller to lead it.
    """
    voters = 0 if cluster.controllers else cluster.spec().voters
    stopped = min(voters, fault.target.brokers_hit(cluster.brokers))
    if fault.kind == "stop" and 2 * (voters - stopped + 1) <= voters:
        raise ExperimentError(
            (*place, "target"),
            f"{fault.target.text}: the last of them could not shut down, since brokers that are controllers leave no "
            "majority of controllers behind; set cluster.controllers to 3, or kill them",
        )


def _check_kind(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    """Refuse what a kind can't do: in a cluster of this mode or version, or to servers that are no brokers."""
    if reason := fault.refusal(cluster.spec()):
        raise ExperimentError((*place, "fault"), f"{fault.kind}: {reason}")
    if not fits(type(fault), fault.target):
        on_server = fault.target.role not in OF_CLIENTS
        clients = ", ".join(f"{role}(LANE)" for role in OF_CLIENTS)
        expected = f"one of {clients}" if on_server else "a server: it hits no clients"
        raise ExperimentError((*place, "target"), f"{fault.target.text}: {fault.kind} expects {expected}")
    others = ("zookeeper", "controllers", *(("controller",) if cluster.controllers else ()))
    if fault.target.role not in others:
        return
    if fault.needs_disk and fault.target.role == "zookeeper":
        message = f"{fault.target.text}: ZooKeeper has no disk of its own, which {fault.kind} breaks"
        raise ExperimentError((*place, "target"), message)
    if fault.only_brokers:
        raise ExperimentError(
            (*place, "target"), f"{fault.target.text}: {fault.kind} hits brokers, and no other server"
        )


def _check_lane_key(place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    lane, lanes = parameters(fault).get("lane"), [one.lane for one in phase.lanes]
    if lane is not None and lane not in lanes:
        message = f"there is no lane {lane}; the lanes are {', '.join(sorted(lanes))}"
        raise ExperimentError((*place, "lane"), message)


def _check_frozen_producer(place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Refuse to freeze a producer that repeats what it was not answered: the model knows no slow producers.

    Thawed, it takes requests for lost whose answers wait in its sockets.
    """
    frozen = fault.target.lane if fault.kind == ClientPause.kind else None
    lane = next((lane for lane in phase.lanes if lane.lane == frozen), None)
    is_producer = fault.target.role.removesuffix("s") == PRODUCER or (lane is not None and lane.loop is not None)
    if lane is not None and is_producer and not lane.idempotence:
        message = f"{fault.target.text}: a producer that is thawed may send again what was written: expected a lane "
        raise ExperimentError(place, f"{message}with idempotence")


def _check_power(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault, phase: int) -> None:
    """Refuse a loss of power that takes what earlier phases left unflushed: their lanes are judged at the run's end, by
    the faults of their own phase."""
    if phase and "power-loss" in fault.model_faults(cluster.brokers):
        message = "takes records of the phases before, too, which expect no loss of power: put it into the first phase"
        raise ExperimentError((*place, "fault"), f"{fault.kind} {message}")


def check_clock(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Raise `ExperimentError` where a clock would be further off than records or transactions of a lane last."""
    if not isinstance(fault, MovedClock):
        return
    key = "percent" if fault.kind == "clock-drift" else "seconds"
    for lane in phase.lanes:
        kept = int(lane.topic_configs.get("retention.ms", cluster.broker_configs.get("log.retention.ms", -1)))
        if 0 <= kept <= fault.furthest * 1000:
            message = f"{fault.furthest:g} s is past the retention.ms of lane {lane.lane}, {kept}: brokers would delete"
            raise ExperimentError((*place, key), message)
        if lane.transactional is not None and lane.transactional.timeout_ms <= fault.furthest * 1000:
            timeout = f"the timeout_ms of lane {lane.lane}, {lane.transactional.timeout_ms}"
            message = f"{fault.furthest:g} s is past {timeout}: its coordinator would abort transactions that go on"
            raise ExperimentError((*place, key), message)


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
    _check_target(cluster, (*place, "target"), target, phase)
    leaders = {lane.leader for lane in phase.lanes}
    if len(leaders) != 1 or None in leaders:
        raise ExperimentError(place, "all lanes of a lock-step phase need the same leader")


def _check_target(cluster: ClusterSpec, place: tuple[str | int, ...], target: Target, phase: PhaseSpec) -> None:
    """Refuse a target that is not there, or that has nothing that a fault could hit."""
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
    role = target.role.removesuffix("s")
    if role == MEMBER and lane is not None and lane.group is None and lane.loop is None:
        raise ExperimentError(place, f"{target.text}: the lane {lane.lane} has no group and no loop")
    if role in (PRODUCER, CONSUMER) and lane is not None and (lane.client == IN_PROCESS or lane.loop is not None):
        message = f"expected a lane with a `client` whose {role} is a process of its own, such as librdkafka 2.16.0"
        raise ExperimentError(place, f"{target.text}: {message}")
    if target.role == TRANSACTION_COORDINATOR and lane is not None and lane.transactional is None:
        raise ExperimentError(place, f"{target.text}: the lane {lane.lane} has no transactions")


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
