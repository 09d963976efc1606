"""Checks across the keys of an experiment: names used twice, brokers that do not exist, faults that come too late.

Every refusal is an `ExperimentError` with its place, before anything starts.
"""

from __future__ import annotations

from difflib import get_close_matches

from kafka_chaos.contract.errors import LaneError, UsageFailure
from kafka_chaos.contract.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.groups import CONSUMER
from kafka_chaos.faults.clients.client_pause import ClientPause
from kafka_chaos.faults.fault import Fault, fits, parameters
from kafka_chaos.faults.links.on_frames import avoids_links, needs_links
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.storage.disks import needs_disk
from kafka_chaos.faults.target import GROUP_COORDINATOR, OF_CLIENTS, TRANSACTION_COORDINATOR, Target, TargetError
from kafka_chaos.harness.cluster.configuration.keys import check_keys
from kafka_chaos.harness.cluster.configuration.server_properties import (
    CONTROLLER_IDS,
    GROUP_SESSION_TIMEOUT,
    KRAFT_DEFAULTS,
)
from kafka_chaos.harness.cluster.links.frames import API_KEYS
from kafka_chaos.harness.experiment.clock_checks import check_clock
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.coordination_checks import check_growth, check_reassignment
from kafka_chaos.harness.experiment.lane_specs import OWNED_CLIENT_KEYS, OWNED_TOPIC_KEYS, LaneSpec
from kafka_chaos.harness.experiment.model_faults import OF_CONTROLLERS
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError, LockstepSpec, PhaseSpec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.reference_model import LockstepStep


def check(experiment: Experiment) -> None:
    """Refuse conflicts between keys; raises `ExperimentError` with the place."""
    try:
        experiment.cluster.spec()
    except UsageFailure as failure:
        raise ExperimentError(("cluster",), str(failure)) from failure
    names: set[str] = set()
    topics: set[str] = set()
    phase_names: set[str] = set()
    for number, phase in enumerate(experiment.phases):
        if phase.phase in phase_names:
            raise ExperimentError(("phases", number, "phase"), f"{phase.phase!r} names two phases")
        phase_names.add(phase.phase)
        for index, kind in enumerate(phase.outside_faults):
            if kind not in FAULT_KINDS:
                place = ("phases", number, "outside_faults", index)
                raise ExperimentError(place, f"{kind!r} is not a fault kind: expected one of {', '.join(FAULT_KINDS)}")
        _check_lanes(experiment.cluster, number, phase, names, topics)
        _check_faults(experiment.cluster, number, phase)


def _check_lanes(cluster: ClusterSpec, number: int, phase: PhaseSpec, names: set[str], topics: set[str]) -> None:
    brokers, oldest = cluster.brokers, cluster.spec().oldest
    for index, lane in enumerate(phase.lanes):
        place: tuple[str | int, ...] = ("phases", number, "lanes", index)
        if lane.lane in names:
            raise ExperimentError((*place, "lane"), f"{lane.lane!r} names two lanes")
        names.add(lane.lane)
        if lane.topic_name in topics:
            raise ExperimentError((*place, "topic"), f"{lane.topic_name!r} is the topic of two lanes")
        topics.add(lane.topic_name)
        if lane.idempotence and not oldest.has_idempotence:
            message = f"Kafka {oldest.number} has no idempotent producers: they came with 0.11"
            raise ExperimentError((*place, "idempotence"), message)
        try:
            lane.as_lane((), cluster.spec())
        except LaneError as error:
            raise ExperimentError(
                (*place, *error.key.split(".")), f"{error.shown}: expected {error.expected}"
            ) from error
        if lane.replication_factor > brokers:
            raise ExperimentError(
                (*place, "replication_factor"),
                f"expected at most {brokers}, the number of brokers, got {lane.replication_factor}",
            )
        if lane.leader is not None and not 1 <= lane.leader <= brokers:
            raise ExperimentError((*place, "leader"), f"{lane.leader} is not a broker: expected 1 to {brokers}")
        try:
            check_keys("topic", lane.topic_configs, owned=OWNED_TOPIC_KEYS, kafka_version=oldest.number)
        except UsageFailure as failure:
            raise ExperimentError((*place, "topic_configs"), str(failure)) from failure
        _check_client_keys((*place, "producer_configs"), lane)
        _check_source(place, lane, phase)
        _check_session(cluster, place, lane)


def _check_session(cluster: ClusterSpec, place: tuple[str | int, ...], lane: LaneSpec) -> None:
    """Refuse a session time-out that brokers would not have where they decide it (KIP-848)."""
    session = int(cluster.broker_configs.get(GROUP_SESSION_TIMEOUT, KRAFT_DEFAULTS[GROUP_SESSION_TIMEOUT]))
    loop = None if lane.loop is None else lane.loop.group
    for key, group in (("group",), lane.group), (("loop", "group"), loop):
        if group is not None and group.protocol == CONSUMER and group.session_timeout_ms != session:
            message = f"with the protocol consumer brokers decide: expected {session}, or set {GROUP_SESSION_TIMEOUT}"
            raise ExperimentError((*place, *key, "session_timeout_ms"), f"{message} in cluster.broker_configs")


def _check_source(place: tuple[str | int, ...], lane: LaneSpec, phase: PhaseSpec) -> None:
    if lane.loop is None:
        return
    sources = [other.lane for other in phase.lanes if other.loop is None]
    if lane.loop.source not in sources:
        expected = f"expected a lane of this phase without a loop ({', '.join(sources) or 'there is none'})"
        raise ExperimentError((*place, "loop", "source"), f"{lane.loop.source!r}: {expected}")


def _check_client_keys(place: tuple[str | int, ...], lane: LaneSpec) -> None:
    from confluent_kafka import KafkaException, Producer

    for key in lane.producer_configs:
        if key in OWNED_CLIENT_KEYS:
            raise ExperimentError((*place, key), "set it with the lane's own key, or leave it out: the harness sets it")
    if lane.producer_configs:
        try:
            new_client(Producer, {**lane.producer_configs, "log_level": 0}).close()
        except (KafkaException, ValueError, TypeError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise ExperimentError(place, f"the client refuses it: {reason}") from error


def _check_faults(cluster: ClusterSpec, number: int, phase: PhaseSpec) -> None:
    if phase.lockstep is not None and phase.schedule:
        raise ExperimentError(("phases", number, "lockstep"), "expected either lockstep or schedule, not both")
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
        _check_peers(cluster, place, fault)
        _check_cut(cluster, place, fault)
        _check_control_port(cluster, place, fault)
        _check_links(cluster, place, fault, phase)
        check_clock(cluster, place, fault, phase)
        check_reassignment(cluster, place, fault, phase)
        check_growth(place, fault, phase)
        _check_power(cluster, place, fault, number)
        if entry.at >= phase.workload.duration:
            raise ExperimentError((*place, "at"), f"{entry.at:g} s is past the load of {phase.workload.duration:g} s")
    if phase.lockstep is not None:
        _check_lockstep(cluster, ("phases", number, "lockstep"), phase, phase.lockstep)


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


def _check_peers(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    """Refuse peers that are not there."""
    peers = parameters(fault).get("peers")
    known = [*range(1, cluster.brokers + 1), *(CONTROLLER_IDS + n for n in range(1, cluster.controllers + 1))]
    for number in peers if isinstance(peers, tuple) else ():
        if number not in known:
            expected = ", ".join(map(str, known))
            raise ExperimentError((*place, "peers"), f"{number} is not the id of a node: expected {expected}")
    if peers == "controllers" and not cluster.controllers:
        raise ExperimentError((*place, "peers"), "the cluster has no controllers that are no brokers")


def _check_cut(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
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


def _check_control_port(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    oldest = cluster.spec().oldest
    if fault.kind == "partition" and parameters(fault).get("port") == "control" and not oldest.has_control_plane:
        message = f"Kafka {oldest.number} has no such listener (before 2.2): expected replication"
        raise ExperimentError((*place, "port"), message)


def _check_kind(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault) -> None:
    """Refuse what a kind can't do: in a cluster of this mode or version, or to servers that are no brokers."""
    refusal = getattr(fault, "refusal", None)
    if refusal is not None and (reason := refusal(cluster.spec())):
        raise ExperimentError((*place, "fault"), f"{fault.kind}: {reason}")
    if not fits(type(fault), fault.target):
        on_server = fault.target.role not in OF_CLIENTS
        expected = "member(LANE) or members(LANE)" if on_server else "a server: it hits no clients"
        raise ExperimentError((*place, "target"), f"{fault.target.text}: {fault.kind} expects {expected}")
    others = ("zookeeper", "controllers", *(("controller",) if cluster.controllers else ()))
    if fault.target.role not in others:
        return
    if needs_disk(type(fault)) and fault.target.role == "zookeeper":
        message = f"{fault.target.text}: ZooKeeper has no disk of its own, which {fault.kind} breaks"
        raise ExperimentError((*place, "target"), message)
    if getattr(fault, "only_brokers", False):
        raise ExperimentError(
            (*place, "target"), f"{fault.target.text}: {fault.kind} hits brokers, and no other server"
        )


def _check_lane_key(place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    lane, lanes = parameters(fault).get("lane"), [one.lane for one in phase.lanes]
    if lane is not None and lane not in lanes:
        message = f"there is no lane {lane}; the lanes are {', '.join(sorted(lanes))}"
        raise ExperimentError((*place, "lane"), message)


def _check_frozen_producer(place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Refuse to freeze the producer of a loop that repeats what it was not answered: the model knows no slow producers.

    Thawed, it takes requests for lost whose answers wait in its sockets.
    """
    frozen = fault.target.lane if fault.kind == ClientPause.kind else None
    lane = next((lane for lane in phase.lanes if lane.lane == frozen), None)
    if lane is not None and lane.group is None and not lane.idempotence:
        message = f"{fault.target.text}: a producer that is thawed may send again what was written: expected a lane "
        raise ExperimentError(place, f"{message}with idempotence")


def _check_links(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault, phase: PhaseSpec) -> None:
    """Refuse what a link can't do, and what can't be done past one."""
    keys = parameters(fault)
    if not needs_links(type(fault)):
        by_link = cluster.links or any(needs_links(fault_kinds()[entry.fault]) for entry in phase.schedule)
        if by_link and avoids_links(type(fault)):
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
    if api is not None and api not in API_KEYS:
        near = ", ".join(get_close_matches(api, API_KEYS)) or "Kafka's names, such as Produce"
        raise ExperimentError((*place, "api"), f"{api!r} is no request of Kafka: expected {near}")


def _check_power(cluster: ClusterSpec, place: tuple[str | int, ...], fault: Fault, phase: int) -> None:
    """Refuse a loss of power that takes what earlier phases left unflushed: their lanes are judged at the run's end, by
    the faults of their own phase."""
    if phase and "power-loss" in fault.model_faults(cluster.brokers):
        message = "takes records of the phases before, too, which expect no loss of power: put it into the first phase"
        raise ExperimentError((*place, "fault"), f"{fault.kind} {message}")


def _check_lockstep(
    cluster: ClusterSpec, place: tuple[str | int, ...], phase: PhaseSpec, lockstep: LockstepSpec
) -> None:
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
