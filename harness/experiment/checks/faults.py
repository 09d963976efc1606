"""Refuses faults and lock-step phases that don't fit their cluster, their lanes or their load.

A check gets the cluster, a phase and one of the phase's faults. It yields refusals: the path of a key of the fault, and
why its value is refused.
"""

from collections.abc import Callable

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.faults import target as targets
from kafka_chaos.faults.clients.members import ClientPause
from kafka_chaos.faults.clock.clocks import MovedClock
from kafka_chaos.faults.coordination.leader_transfer import LeaderTransfer
from kafka_chaos.faults.coordination.reassignment import PartitionGrowth, Reassignment
from kafka_chaos.faults.fault import DOWN, FROZEN, Fault, concerns, fits, parameters
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.storage.remote_store import RemoteStoreFault
from kafka_chaos.harness.clients.kinds import IN_PROCESS, has_kafka_config_names
from kafka_chaos.harness.cluster.configuration.layout import ONLY_ON_ENGINES_MACHINE
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_ID_BASE, SHARE_STATE_PARTITIONS
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.known_configs import brokers_configs, number_in
from kafka_chaos.harness.experiment.lane_specs import MOST_CREATED_PARTITIONS
from kafka_chaos.harness.experiment.model_faults import CONTROLLER_ROLES
from kafka_chaos.harness.experiment.specs import ExperimentError, PhaseSpec, Refusals, raise_first
from kafka_chaos.reference_model import LockstepStep
from kafka_chaos.reference_model.clients.rules import checks_epochs

_CAUSES = {  # by step that heals, the step whose fault it heals
    LockstepStep.HEAL_REPLICATION: LockstepStep.CUT_REPLICATION,
    LockstepStep.THAW: LockstepStep.PAUSE_LEADER,
    LockstepStep.RESTART: LockstepStep.KILL_LEADER,
}


def check_entries(number: int, phase: PhaseSpec) -> None:
    """Raise an `ExperimentError` for an entry that is no fault: the error of `phase.faults` would name no place."""
    for entry in phase.schedule:
        place = ("phases", number, "schedule", entry.entry_index)
        try:
            _ = entry.built_fault  # built only to be checked
        except targets.TargetError as error:
            raise ExperimentError((*place, "target"), str(error)) from error
        except ValueError as error:
            key, _, rest = str(error).partition(": ")
            raise ExperimentError((*place, key), rest) from error


def check_faults(cluster: ClusterSpec, number: int, phase: PhaseSpec) -> None:
    """Refuse faults that don't fit their phase; raises `ExperimentError`. `number`: the phase's index."""
    if phase.steps is not None and (phase.schedule or phase.outside_faults):
        raise ExperimentError(("phases", number, "steps"), "expected either steps or schedule, and no outside_faults")
    for entry in phase.schedule:
        place: tuple[str | int, ...] = ("phases", number, "schedule", entry.entry_index)
        fault = entry.built_fault
        is_first_phase = number == 0
        for check in _CHECKS if is_first_phase else (*_CHECKS, _check_late_power_loss):
            raise_first(place, check(cluster, phase, fault))
        if fault.at >= phase.workload.duration:
            message = f"{fault.at:g} s is past the load of {phase.workload.duration:g} s"
            raise ExperimentError((*place, "at"), message)
    if phase.steps is not None:
        raise_first(("phases", number, "steps"), _check_lockstep(cluster, phase))


def _check_controlled_shutdown(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse the fault `stop` where brokers could not shut down: in KRaft mode, they need an active controller."""
    voters = 0 if cluster.controllers else cluster.as_layout().voters
    others = [other for other in phase.faults if other is not fault and other.holds in (DOWN, FROZEN)]
    down = [fault, *(other for other in others if other.at <= fault.at < other.at + other.duration)]
    stopped = min(voters, sum(one.target.brokers_hit(cluster.brokers) for one in down))
    # The last broker to stop still takes part in the quorum while it shuts down.
    if fault.kind == "stop" and 2 * (voters - stopped + 1) <= voters:
        reason = "since brokers that are controllers leave no majority of controllers behind"
        message = f"the last of them could not shut down, {reason}; set cluster.controllers to 3, or kill them"
        yield ("target",), f"{fault.target.text}: {message}"


def _check_kind_and_target(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse kinds that a cluster of this mode or version can't have, or that can't hit this kind of target."""
    target = fault.target
    if reason := fault.refusal(cluster.as_layout()):
        yield ("fault",), f"{fault.kind}: {reason}"
    if cluster.as_layout().advertise is not None and (fault.needs_disk or fault.needs_links or fault.needs_clock):
        yield (
            ("fault",),
            f"{fault.kind} can't be done where advertise names another machine: {ONLY_ON_ENGINES_MACHINE}",
        )
    if not fits(type(fault), target):
        clients = ", ".join(f"{role}(LANE)" for role in targets.CLIENT_ROLES)
        expected = f"one of {clients}" if target.role not in targets.CLIENT_ROLES else "a server: it hits no clients"
        yield ("target",), f"{target.text}: {fault.kind} expects {expected}"
    if target.role not in ("zookeeper", "controllers", *(("controller",) if cluster.controllers else ())):
        return  # the target is brokers or clients: what follows is about other servers
    if fault.needs_disk and target.role == "zookeeper":
        yield ("target",), f"{target.text}: {fault.kind} breaks disks, and ZooKeeper has none of its own"
    if fault.only_brokers:
        yield ("target",), f"{target.text}: {fault.kind} hits brokers, and no other server"


def _check_lane_key(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    lane, lanes = parameters(fault).get("lane"), [spec.lane for spec in phase.lanes]
    if lane is not None and lane not in lanes:
        yield ("lane",), f"there is no lane {lane}; the lanes are {', '.join(sorted(lanes))}"


def _check_frozen_producer(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse to freeze a producer without idempotence.

    Once thawed, the producer takes requests for lost although their answers wait in its sockets, and sends them again.
    The model has no slow producers, and so no such duplicates.
    """
    frozen = fault.target.lane if fault.kind == ClientPause.kind else None
    lane = next((lane for lane in phase.lanes if lane.lane == frozen), None)
    is_producer = fault.target.role.removesuffix("s") == targets.PRODUCER
    if lane is not None and (is_producer or lane.loop is not None) and not lane.idempotence:
        message = f"{fault.target.text}: a producer that is thawed may send again what was written"
        yield ("target",), f"{message}: expected a lane with idempotence"


def _check_late_power_loss(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse a loss of power after the first phase. It also takes records that earlier phases left unflushed, but the
    lanes of these phases are judged by the faults of their own phase."""
    if "power-loss" in fault.model_faults(cluster.brokers):
        message = "takes records of the phases before, too, which expect no loss of power: put it into the first phase"
        yield ("fault",), f"{fault.kind} {message}"


def _check_clock(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse to move a clock so far that brokers would delete records, or abort transactions that are in time."""
    if not isinstance(fault, MovedClock):
        return
    key = "percent" if fault.kind == "clock-drift" else "seconds"
    for lane in phase.lanes:
        of_brokers = [number_in(configs, "log.retention.ms", -1) for configs in brokers_configs(cluster.as_layout())]
        past = f"{fault.max_offset_seconds:g} s is past"
        for retention in sorted({number_in(lane.topic_configs, "retention.ms", ms) for ms in of_brokers}):
            if 0 <= retention <= fault.max_offset_seconds * 1000:
                yield (key,), f"{past} the retention.ms of lane {lane.lane}, {retention}: brokers would delete records"
        if lane.transactional is not None and lane.transactional.timeout_ms <= fault.max_offset_seconds * 1000:
            timeout = f"the timeout_ms of lane {lane.lane}, {lane.transactional.timeout_ms}"
            yield (key,), f"{past} {timeout}: its coordinator would abort transactions that are in time"


def _check_reassignment(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse to move replicas if no other broker can take them, or if acknowledged records have to be in all replicas.

    While a replica moves, the partition has an additional replica. That matters to the model only if an acknowledged
    record would be in every replica: it may be missing in the additional one.
    """
    if not isinstance(fault, Reassignment):
        return
    hit = fault.target.brokers_hit(cluster.brokers)
    for lane in (lane for lane in phase.lanes if concerns(fault, lane.lane)):
        replicas, name = lane.replication_factor, f"lane {lane.lane}"
        if replicas > cluster.brokers - hit:
            left = f"the {cluster.brokers - hit} brokers that are not hit"
            message = f"the {replicas} replicas of {name} have no place on {left}: expected {replicas + hit} brokers"
            yield ("fault",), f"{fault.kind}: {message}, or another lane"
        if replicas == 1:
            message = f"{name} has one replica, and two while it moves: a record may be in only one"
            yield ("fault",), f"{fault.kind}: {message}; expected replication_factor 2 or more"
        if lane.unclean_leader_election and lane.min_insync_replicas == replicas:
            message = f"an unclean election may choose a replica of {name} that was just added"
            expected = "expected min_insync_replicas below replication_factor, or no unclean_leader_election"
            yield ("fault",), f"{fault.kind}: {message}, although all have to be in sync; {expected}"


def _check_what_it_needs(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse to move leaders where no other broker can lead, and faults of a remote store that holds nothing."""
    concerned, all_of = [lane for lane in phase.lanes if concerns(fault, lane.lane)], cluster.brokers
    is_alone = fault.target.brokers_hit(all_of) == all_of or all(lane.replication_factor == 1 for lane in concerned)
    if isinstance(fault, LeaderTransfer) and is_alone:
        yield ("target",), f"{fault.target.text}: nobody else could lead; expected fewer brokers, and other replicas"
    if isinstance(fault, RemoteStoreFault) and not any(lane.tiered for lane in concerned):
        yield ("fault",), f"{fault.kind}: nothing is in the remote store; expected a lane with tiered: true"


def _check_growth(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse to add partitions to which no producer would write, or too many of them."""
    if not isinstance(fault, PartitionGrowth):
        return
    ignores_new = "writes only to the partitions that its topic begins with; expected another lane"
    for lane in (lane for lane in phase.with_added_partitions().lanes if concerns(fault, lane.lane)):
        if lane.loop is not None:
            yield ("fault",), f"{fault.kind}: the loop of lane {lane.lane} {ignores_new}"
        if lane.client != IN_PROCESS:
            yield ("fault",), f"{fault.kind}: {lane.client}, the client of lane {lane.lane}, {ignores_new}"
        if lane.partitions > MOST_CREATED_PARTITIONS:
            would_have = f"lane {lane.lane} would have {lane.partitions} partitions"
            yield ("add",), f"{would_have}: expected {MOST_CREATED_PARTITIONS} at most"


def _check_lockstep(cluster: ClusterSpec, phase: PhaseSpec) -> Refusals:
    """Refuse unknown steps, targets that are no leader, and lanes with different leaders."""
    assert phase.steps is not None
    for index, step in enumerate(phase.steps.steps):
        if step not in set(LockstepStep):
            yield ("steps", index), f"{step!r} is not a step: expected one of {', '.join(LockstepStep)}"
        elif (cause := _CAUSES.get(LockstepStep(step))) is not None and cause not in phase.steps.steps[:index]:
            yield ("steps", index), f"{step} comes before {cause}, the step that it heals"
        elif step == LockstepStep.CUT_REPLICATION and cluster.links:
            yield ("steps", index), f"{step} filters what passes the links here: expected no cluster.links"
    try:
        target = targets.Target.parse(phase.steps.target)
    except targets.TargetError as error:
        yield ("target",), str(error)
        return
    if target.role != "leader":
        yield ("target",), f"{phase.steps.target}: a lock-step phase acts on leader(LANE)"
    yield from _check_target(cluster, phase, Partition(target=target))  # any fault: only its target is checked
    leaders = {lane.leader for lane in phase.lanes}
    if len(leaders) != 1 or None in leaders:
        yield (), "all lanes of a lock-step phase need the same leader"


def _check_target(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse a target that does not exist, and a role of a group, transaction or client that its lane lacks."""
    target, lanes = fault.target, {lane.lane: lane for lane in phase.lanes}
    try:
        target.check(
            brokers=cluster.brokers, zookeepers=cluster.zookeepers, controllers=cluster.controllers, lanes=lanes
        )
    except targets.TargetError as error:
        yield ("target",), str(error)
    lane, role = lanes.get(target.lane or ""), target.role.removesuffix("s")
    if lane is None:
        return
    partitions = next(grown.partitions for grown in phase.with_added_partitions().lanes if grown.lane == lane.lane)
    if target.partition >= partitions:
        yield ("target",), f"{target.text}: the lane {lane.lane} has {counted(partitions, 'partition')}, counted from 0"
    if role == "follower" and lane.replication_factor == 1:
        yield ("target",), f"{target.text}: {lane.lane} has no followers: expected replication_factor 2 or more"
    has_members = lane.group is not None or lane.loop is not None or lane.share is not None
    if role in (targets.GROUP_COORDINATOR, targets.MEMBER) and not has_members:
        yield ("target",), f"{target.text}: the lane {lane.lane} has no group and no loop, nor a share group"
    if role in (targets.PRODUCER, targets.CONSUMER) and (lane.client == IN_PROCESS or lane.loop is not None):
        message = f"expected a lane with a `client` whose {role} is a process of its own, such as librdkafka 2.16.0"
        yield ("target",), f"{target.text}: {message}"
    if role == targets.TRANSACTION_COORDINATOR and lane.transactional is None:
        yield ("target",), f"{target.text}: the lane {lane.lane} has no transactions"
    if role == targets.SHARE_COORDINATOR:
        if lane.share is None:
            yield ("target",), f"{target.text}: the lane {lane.lane} has no share group"
        if str(cluster.broker_configs.get(SHARE_STATE_PARTITIONS, 1)) != "1":
            yield ("target",), f"{target.text}: expected {SHARE_STATE_PARTITIONS}: 1, which is the default"


def _check_partition(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse a partition from nodes that do not exist, from none but its targets, or at a listener that they lack."""
    if not isinstance(fault, Partition):
        return
    target = fault.target
    brokers = range(1, cluster.brokers + 1)
    controllers = range(CONTROLLER_ID_BASE + 1, CONTROLLER_ID_BASE + cluster.controllers + 1)
    hits_controllers = bool(cluster.controllers) and target.role in CONTROLLER_ROLES
    own_kind, hit = brokers, target.brokers_hit(cluster.brokers)
    if hits_controllers:
        own_kind, hit = controllers, target.controllers_hit(cluster.controllers)
    named = {None: own_kind, "brokers": brokers, "controllers": controllers}
    peers = fault.peers if isinstance(fault.peers, tuple) else named[fault.peers]
    for number in peers:
        if number not in (*brokers, *controllers):
            expected = ", ".join(map(str, (*brokers, *controllers)))
            yield ("peers",), f"{number} is not the id of a node: expected {expected}"
    # Nodes that are targets for certain: a role such as `leader` names one of its kind, nobody knows which.
    hit_ids = own_kind if hit == len(own_kind) else [own_kind[0] - 1 + number for number in target.numbers]
    if not set(peers) - set(hit_ids):
        yield ("target",), f"{target.text}: there are no others to be cut off from: expected other peers or targets"
    controller_peer = any(number > CONTROLLER_ID_BASE for number in peers)
    cuts_controllers = {"in": hits_controllers, "out": controller_peer, "both": hits_controllers or controller_peer}
    if fault.port == "control" and cluster.controllers and not cuts_controllers[fault.direction]:
        yield ("port",), "brokers have no such listener where controllers are no brokers: expected replication"
    if fault.port == "replication" and (hits_controllers or controller_peer):
        yield ("port",), "controllers have no such listener: expected control"
    if fault.port == "control" and not (oldest := cluster.as_layout().oldest).has_control_plane:
        yield ("port",), f"Kafka {oldest.number} has no such listener (before 2.2): expected replication"


def _check_links(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse what links can't do, and where clients' connections end at links, other faults that break connections."""
    from kafka_chaos.faults.links.relay.frames import why_no_api

    keys = parameters(fault)
    if not fault.needs_links:
        # An unknown kind counts as one without links: another check refuses its entry.
        kinds = [fault_kinds().get(entry.fault) for entry in phase.schedule]
        uses_links = cluster.links or any(kind is not None and kind.needs_links for kind in kinds)
        if uses_links and fault.avoids_links:
            message = f"{fault.kind}: clients' connections end at links, so only links can break them: expected cut"
            yield ("fault",), message
        if uses_links and fault.kind == "partition" and keys.get("port") and keys.get("direction") != "out":
            message = f"{keys['port']}: connections to the target's listeners pass its link: expected direction out"
            yield ("port",), message
        return
    if fault.target.role == "zookeeper":
        message = f"{fault.target.text}: ZooKeeper does not speak Kafka's protocol, which {fault.kind} acts on"
        yield ("target",), message
    if cluster.security != "plaintext":
        yield ("fault",), f"{fault.kind} reads requests, and {cluster.security} encrypts them: expected plaintext"
    api = keys.get("api")
    if api is not None and (refusal := why_no_api(api)) is not None:
        yield ("api",), refusal
    role, _, number = str(keys.get("sender") or "").partition(":")
    are_controllers = role == "controllers" or (role == "controller" and number)
    count, noun = (cluster.controllers, "dedicated controller") if are_controllers else (cluster.brokers, "broker")
    if not 1 <= int(number or 1) <= count:
        yield ("sender",), f"{keys['sender']}: the cluster has {counted(count, noun)}"


def _check_clients(cluster: ClusterSpec, phase: PhaseSpec, fault: Fault) -> Refusals:
    """Refuse faults that the client of a lane would understand differently from what the model expects."""
    keys = parameters(fault)
    for lane in phase.lanes:
        retries = [str(lane.producer_configs.get(key)) for key in ("retries", "message.send.max.retries")]
        if fault.kind in ("answer", "repeat") and keys["api"] == "Produce" and "0" in retries:
            # The producer counts the record as not written, as the error says, but the record or its copy is written.
            yield ("fault",), f"the producer of {lane.lane} believes an error, since it never retries: expected cut"
        if fault.kind == "repeat" and keys["side"] == "response" and str(lane.client).split()[0] != IN_PROCESS:
            yield ("side",), f"the client of {lane.lane} may hang after a second response: expected librdkafka"
        if fault.kind == "stale" and not (has_kafka_config_names(lane.client) and checks_epochs(lane.as_lane(()))):
            client = f"the client of {lane.lane} may go back to a leader that was replaced"
            yield ("fault",), f"{client}: expected librdkafka 2.1, Java 2.3 or later"
        # A request that is cut reaches the broker, whose response is lost.
        loses = fault.kind == "cut" or (fault.kind in ("answer", "drop") and keys["side"] == "response")
        if lane.share is not None and loses and keys["nth"] is None and keys["api"] in (None, "ShareFetch"):
            lost = "every ShareFetch response that is lost costs its records a delivery"
            yield ("fault",), f"{lost}, up to the limit of lane {lane.lane}: expected nth, or another api"


_CHECKS: tuple[Callable[[ClusterSpec, PhaseSpec, Fault], Refusals], ...] = (
    *(_check_target, _check_kind_and_target, _check_lane_key, _check_frozen_producer, _check_controlled_shutdown),
    *(_check_partition, _check_links, _check_clients, _check_clock, _check_reassignment, _check_growth),
    _check_what_it_needs,
)
