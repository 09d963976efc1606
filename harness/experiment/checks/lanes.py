"""Refuses names that are used twice, and lanes and faults that the experiment's cluster or other lanes do not allow.

`check` raises the first refusal as an `ExperimentError`, before anything starts. Each function that checks a lane
yields its refusals: the path of the refused key below the lane, and a message.
"""

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from kafka_chaos.contract.command.errors import LaneError, UsageFailure
from kafka_chaos.contract.lane.configuration import classifications, dotted
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.groups import CLASSIC, CONSUMER, Group
from kafka_chaos.contract.lane.lanes import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    Lane,
    has_compaction,
    has_delivery_limit_per_group,
)
from kafka_chaos.contract.lane.metadata import may_elect_uncleanly, release
from kafka_chaos.contract.lane.share import USUAL_LIMIT
from kafka_chaos.faults.fault import concerns
from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, ROLES, parse_client
from kafka_chaos.harness.cluster.configuration.keys import DEFAULTS, check_keys
from kafka_chaos.harness.cluster.configuration.server_properties import (
    GROUP_SESSION_TIMEOUT,
    SHARE_DELIVERY_LIMIT,
    SHARE_SHORTEST_LOCK,
)
from kafka_chaos.harness.cluster.security import PLAINTEXT
from kafka_chaos.harness.experiment import lane_specs
from kafka_chaos.harness.experiment.checks.faults import check_entries, check_faults
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.known_configs import (
    SHORTEST_RETENTION_MS,
    UNCLEAN,
    brokers_configs,
    number_in,
    refused_broker_keys,
    refused_keys,
)
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError, PhaseSpec, Refusals, raise_first
from kafka_chaos.harness.signals import new_client

_LARGEST_BATCH = 1_048_588
"""`message.max.bytes` by default; clients make batches of at most a million bytes."""
_LONG_ANSWER_MS = 1_000
_OF_KAFKA = "consumer_offsets|transaction_state|share_group_state|cluster_metadata|remote_log_metadata"
_NO_TOPIC = re.compile(rf".*:.*|\.\.?|__({_OF_KAFKA})")
_LONGEST_TRANSACTION_MS = 900_000
_SHORTEST_SESSION = "group.min.session.timeout.ms"


def _check_lane(cluster: ClusterSpec, phase: PhaseSpec, lane: lane_specs.LaneSpec) -> Refusals:
    """Refusals of a lane's keys that conflict with the cluster, with other keys, or with other lanes."""
    brokers, oldest = cluster.brokers, cluster.as_layout().oldest
    if _NO_TOPIC.fullmatch(lane.topic_name):
        expected = "expected a topic name without a colon, and none of Kafka's own"
        yield ("topic",), f"no topic can be called {lane.topic_name!r}: {expected}"
    if lane.idempotence and not oldest.has_idempotence:
        yield ("idempotence",), f"Kafka {oldest.number} has no idempotent producers: they came with 0.11"
    try:
        yield from _check_with_brokers(cluster, phase, lane, lane.as_lane((), cluster.as_layout()))
    except LaneError as error:
        yield (*error.key.split("."),), f"{error.shown}: expected {error.expected}"
    except UsageFailure as failure:
        yield (), str(failure)
    if lane.replication_factor > brokers:
        message = f"expected at most {brokers}, the number of brokers, got {lane.replication_factor}"
        yield ("replication_factor",), message
    if lane.leader is not None and not 1 <= lane.leader <= brokers:
        yield ("leader",), f"{lane.leader} is not a broker: expected 1 to {brokers}"
    try:
        check_keys("topic", lane.topic_configs, owned=lane_specs.OWNED_TOPIC_KEYS, kafka_version=oldest.number)
    except UsageFailure as failure:
        yield ("topic_configs",), str(failure)
    if lane.tiered and not cluster.tiered_storage:
        yield ("tiered",), "the cluster has no remote store: expected tiered_storage: true in cluster"
    is_compacted = has_compaction(lane.cleanup_policy)
    if lane.tiered and is_compacted:
        yield ("tiered",), "Kafka does not tier compacted topics (KIP-405): expected cleanup_policy: delete"
    if is_compacted and (lane.client != IN_PROCESS or lane.loop is not None):
        reason = f"compaction needs record keys, which only {IN_PROCESS} without a version sends, and no loop"
        yield ("cleanup_policy",), f"{reason}: expected null or delete"
    if lane.tombstones and not is_compacted:
        yield ("tombstones",), "expected 0, or a cleanup_policy with compact"
    yield from _check_client(cluster, lane)
    yield from _check_client_keys(lane)
    sources = [other.lane for other in phase.lanes if other.loop is None]
    if lane.loop is not None and lane.loop.source not in sources:
        expected = f"expected a lane of this phase without a loop ({', '.join(sources) or 'there is none'})"
        yield ("loop", "source"), f"{lane.loop.source!r}: {expected}"
    if lane.lives and (lane.transactional is not None or lane.loop is not None):
        message = "expected no lives with transactional or loop, which decide who writes and who reads"
        yield ("lives",), message
    for number, life in enumerate(lane.lives):
        if phase.steps is None and life.at >= phase.workload.duration:
            yield ("lives", number, "at"), f"{life.at:g} s is past the load of {phase.workload.duration:g} s"
    if lane.created_at is not None:
        yield from _check_created_late(phase, lane, lane.created_at)
    yield from _check_session(cluster, lane)
    yield from _check_share(cluster, lane)


def _check_with_brokers(cluster: ClusterSpec, phase: PhaseSpec, lane: lane_specs.LaneSpec, known: Lane) -> Refusals:
    """Refusals of values with which brokers would not do what the prediction for the lane, `known`, expects."""
    topic, brokers = lane.all_topic_configs, brokers_configs(cluster.as_layout())
    retention = [number_in(topic, "retention.ms", number_in(configs, "log.retention.ms", -1)) for configs in brokers]
    run_ms = 1000 * (phase.workload.duration + phase.workload.settle_timeout)
    too_short = [ms for ms in retention if SHORTEST_RETENTION_MS <= ms <= run_ms]
    if known.cleanup_policy is None and too_short:
        message = f"retention.ms is {too_short[0]}, so that records may be removed while the run goes on"
        yield ("cleanup_policy",), f"{message}: the lane needs cleanup_policy: delete, or a longer time"
    largest = min(number_in(configs, "message.max.bytes", _LARGEST_BATCH) for configs in brokers)
    largest = number_in(topic, "max.message.bytes", largest)
    if lane.acks == "0" and largest < _LARGEST_BATCH:
        message = "with acks: 0, nobody is told that brokers refuse a batch for its size"
        yield ("acks",), f"{message}: expected max.message.bytes of at least {_LARGEST_BATCH}"
    if phase.workload.record_size > largest:
        yield (), f"its brokers take no record of {phase.workload.record_size} bytes: expected more max.message.bytes"
    follow = {may_elect_uncleanly(one.number, known.mode) for one in cluster.as_layout().versions}
    if lane.unclean_leader_election and len(follow) > 1:
        message = "controllers follow it from Kafka 3.9 on, and which one is active nobody can say"
        yield ("unclean_leader_election",), f"{message}: expected brokers of 3.9 and later, or older ones"
    if lane.acks == "1" or (lane.acks == "all" and lane.replication_factor == 1 and not lane.idempotence):
        for key in ("request.timeout.ms", "socket.timeout.ms"):
            if number_in(lane.producer_configs, key, _LONG_ANSWER_MS) < _LONG_ANSWER_MS:
                message = "the model's leaders answer in time: a record that is sent again may be there twice"
                yield ("producer_configs", key), f"{message}: expected at least {_LONG_ANSWER_MS}"
    for key, topic_name in (("consumer_offsets", CONSUMER_OFFSETS), ("transaction_state", TRANSACTION_STATE)):
        internal = getattr(known, key)
        if internal is None:
            continue
        replicas = internal.replication_factor or lane.replication_factor
        if replicas > cluster.brokers or internal.min_insync_replicas > replicas:
            needs = f"{topic_name} would have {replicas} replicas, and need {internal.min_insync_replicas} in sync"
            yield (), f"{needs}: expected broker_configs that {cluster.brokers} brokers can serve"
    longest = min(number_in(configs, "transaction.max.timeout.ms", _LONGEST_TRANSACTION_MS) for configs in brokers)
    if lane.transactional is not None and lane.transactional.timeout_ms > longest:
        yield ("transactional", "timeout_ms"), f"expected at most {longest}, the brokers' transaction.max.timeout.ms"


def _check_created_late(phase: PhaseSpec, lane: lane_specs.LaneSpec, at: float) -> Refusals:
    """Refusals of `created_at` if something needs the topic earlier, or a fault is over before the topic exists."""
    loops = {other.lane: other.loop.source for other in phase.lanes if other.loop is not None}
    if phase.steps is not None or at >= phase.workload.duration:
        yield ("created_at",), f"expected no steps, and less than {phase.workload.duration:g} s, the load's duration"
    if lane.lane in loops or lane.lane in loops.values():
        yield ("created_at",), "expected none for the output or the source of a loop"
    if lane.dead_letter_topic is not None:
        yield ("created_at",), "expected none with dead letters, whose topic is there before the load"
    for fault in (fault for fault in phase.faults if fault.at < at):
        if fault.target.lane == lane.lane or (fault.spares_other_lanes and concerns(fault, lane.lane)):
            yield ("created_at",), f"{fault.kind} on {fault.target.text} concerns the topic, and begins before {at:g} s"
        elif fault.at + fault.duration <= at:
            # The prediction would count the fault, although it never hits the topic.
            message = f"{fault.kind} ends before the topic is created at {at:g} s: expected an earlier time"
            yield ("created_at",), message


def _check_session(cluster: ClusterSpec, lane: lane_specs.LaneSpec) -> Refusals:
    """Refusals of a session time-out that brokers refuse, or that differs from theirs, if they decide it (KIP-848)."""
    session = int(cluster.broker_configs.get(GROUP_SESSION_TIMEOUT, DEFAULTS["kraft"][GROUP_SESSION_TIMEOUT]))
    shortest = number_in(cluster.broker_configs, _SHORTEST_SESSION, int(DEFAULTS["brokers"][_SHORTEST_SESSION]))
    for path, group in _groups_of(lane):
        if group.protocol == CLASSIC and group.session_timeout_ms < shortest:
            yield (*path, "session_timeout_ms"), f"expected at least {shortest}, the brokers' {_SHORTEST_SESSION}"
        if group.protocol == CONSUMER and group.session_timeout_ms != session:
            message = f"brokers with KIP-848 decide by {GROUP_SESSION_TIMEOUT}: expected {session}, or set it"
            yield (*path, "session_timeout_ms"), f"{message} in cluster.broker_configs"


def _groups_of(lane: lane_specs.LaneSpec) -> Iterator[tuple[tuple[str, ...], Group]]:
    """The group of the lane and the group of its loop, each with the path of its key."""
    if lane.group is not None:
        yield ("group",), lane.group
    if lane.loop is not None:
        yield ("loop", "group"), lane.loop.group


def _check_share(cluster: ClusterSpec, lane: lane_specs.LaneSpec) -> Refusals:
    """Refusals of a share group's keys that differ from the brokers', where brokers decide."""
    if lane.share is None:
        return
    configs = {**DEFAULTS["kraft"], **cluster.broker_configs}
    if not has_delivery_limit_per_group(lane.as_lane((), cluster.as_layout())):
        limit = int(str(configs.get(SHARE_DELIVERY_LIMIT, USUAL_LIMIT)))
        if lane.share.delivery_limit != limit:
            message = f"before Kafka 4.4, brokers decide by {SHARE_DELIVERY_LIMIT}: expected {limit}, or set it"
            yield ("share", "delivery_limit"), f"{message} in cluster.broker_configs"
    if str(configs.get(UNCLEAN)).lower() == "true":
        message = f"{UNCLEAN} in cluster.broker_configs may lose the state of share groups"
        yield ("share",), f"{message}: leave it out, and set the lane's unclean_leader_election"
    least = int(str(configs[SHARE_SHORTEST_LOCK]))
    if lane.share.lock_ms < least:
        yield ("share", "lock_ms"), f"expected at least {least}, the brokers' {SHARE_SHORTEST_LOCK}"


def _check_client(cluster: ClusterSpec, lane: lane_specs.LaneSpec) -> Refusals:
    """Refusals of keys that the lane's client, a process of its own, does not support."""
    client = parse_client(lane.client)
    if client is None:
        return
    kind = client.kind
    version = [int(number) for number in client.version.split(".") if number]
    releases = [release(number) for number in (cluster.kafka_version, *cluster.broker_versions.values())]
    if max(releases) >= (4, 0) and kind.served_by_4_since is not None and version < kind.served_by_4_since:
        least = f"{kind.name} {'.'.join(map(str, kind.served_by_4_since))}"
        yield ("client",), f"expected {least} or later for brokers of 4.0 and later (KIP-896), got {client}"
    if min(releases) < (2, 1) and kind.needs_2_1_since is not None and version >= kind.needs_2_1_since:
        yield ("client",), f"{client} needs brokers of 2.1 or later (KIP-896): expected an earlier {kind.name}"
    for key, role in ROLES.items():
        # A client that can be a loop has the loop's transactions, and need not support `transactional` lanes.
        needed = getattr(lane, key) is not None and (key != "transactional" or lane.loop is None)
        if needed and role not in kind.roles:
            capable = ", ".join(other.name for other in KINDS.values() if role in other.roles)
            yield (key,), f"kafka-chaos can't run {client} as a {role}: expected {IN_PROCESS} or a version of {capable}"
    for key, supported in kind.group_settings.items() if lane.group is not None else ():
        if (value := getattr(lane.group, key)) not in supported:
            yield ("group", key), f"expected {' or '.join(supported)} for members of {client}, got {value}"
    for path, group in _groups_of(lane):
        since = kind.assigned_by_brokers_since
        if group.protocol == CONSUMER and (since is None or version < since):
            hint = "" if since is None else f": {kind.name} has the protocol since {since[0]}.{since[1]} (KIP-848)"
            yield (*path, "protocol"), f"expected classic for members of {client}, got consumer{hint}"
    if lane.transactional is not None and lane.transactional.reads:
        yield ("transactional", "reads"), f"expected false with {client}: only {IN_PROCESS} without a version does this"
    if lane.idempotence and lane.max_in_flight not in kind.idempotent_in_flight:
        numbers = kind.idempotent_in_flight
        expected = numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        yield ("max_in_flight",), f"expected {expected} with idempotence in {client}, got {lane.max_in_flight}"
    if cluster.security != PLAINTEXT and kind.translate_keys is None:
        message = f"kafka-chaos can't secure connections of {client}: expected librdkafka, java or your own client"
        yield ("client",), message
    # Some clients write the names of configs with dots, and others with underscores.
    wrong_separator = "." if kind.separator == "_" else "_"
    for role in ("producer", "consumer"):
        name = f"{role}_configs"
        if getattr(lane, name) and not kind.has_configs:
            yield (name,), f"{client} takes no configs from the lane: leave them out"
        for key in getattr(lane, name):
            # Some of librdkafka's own names have underscores.
            if wrong_separator in key and (wrong_separator == "." or not any(classifications(role, key))):
                yield (name, key), f"{client} calls it {key.replace(wrong_separator, kind.separator)}"


def _check_client_keys(lane: lane_specs.LaneSpec) -> Refusals:
    from confluent_kafka import Consumer, Producer

    for name, owned in (
        ("producer_configs", lane_specs.OWNED_CLIENT_KEYS),
        ("consumer_configs", lane_specs.OWNED_CONSUMER_KEYS),
    ):
        for key in getattr(lane, name):
            if dotted(key) in owned:
                yield (name, key), "set it with the lane's own key, or leave it out: the harness sets it"
    has_members = lane.group is not None or lane.loop is not None
    for key in lane.consumer_configs:
        if dotted(key) in lane_specs.MEMBER_CONFIGS and not has_members:
            message = "expected a group or a loop: a lane's other consumers begin at the start and commit nothing"
            yield ("consumer_configs", key), message
    client = parse_client(lane.client)
    is_librdkafka = client is None or client.kind.name == IN_PROCESS
    if lane.consumer_configs and is_librdkafka:
        group = lane.group or (lane.loop and lane.loop.group)
        # With the protocol consumer (KIP-848), the client refuses configs that only classic members decide.
        protocol = {"group.protocol": group.protocol} if group and group.protocol != CLASSIC else {}
        configs = {**lane.consumer_configs, **protocol, "group.id": lane.lane}
        yield from _check_librdkafka(Consumer, "consumer_configs", configs)
    if lane.producer_configs and is_librdkafka:
        timeout_ms = lane.transactional.timeout_ms if lane.transactional else lane_specs.DELIVERY_TIMEOUT_MS
        defaults = {"message.timeout.ms": timeout_ms, "linger.ms": lane_specs.LINGER_MS}
        configs = {**defaults, **lane.producer_configs, "enable.idempotence": lane.idempotence}
        if lane.transactional is not None:
            configs |= {"transactional.id": lane.lane, "transaction.timeout.ms": timeout_ms}
            if lane.client == IN_PROCESS:
                # Whatever the lane sets, its records time out before their transaction (workload.settings).
                configs["message.timeout.ms"] = timeout_ms
                configs.pop("delivery.timeout.ms", None)
        yield from _check_librdkafka(Producer, "producer_configs", configs)


def _check_librdkafka(client_class: Any, name: str, configs: Mapping[str, object]) -> Refusals:
    """Refuse configs with which librdkafka does not start; the message has librdkafka's reason."""
    from confluent_kafka import KafkaException

    try:
        new_client(client_class, {**configs, "log_level": 0}).close()
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        yield (name,), f"librdkafka refuses these configs: {reason}"


def _check_configs(cluster: ClusterSpec, number: int, phase: PhaseSpec) -> Refusals:
    """Refusals of configs with which predictions for a lane of the phase would be wrong. `number`: the phase's index.

    This check comes last, since the model takes only lanes whose other keys are valid.
    """
    layout = cluster.as_layout()
    for index, lane in enumerate(phase.lanes):
        contract_lane = lane.as_lane(phase.lane_faults(layout, lane), layout)
        for kind in ("topic", "producer", "consumer"):
            name = f"{kind}_configs"
            for key, message in refused_keys(kind, getattr(lane, name), contract_lane, with_recovery=True):
                yield ("phases", number, "lanes", index, name, key), message
        for key, message in refused_broker_keys(layout, contract_lane):
            yield ("cluster", "broker_configs" if key in cluster.broker_configs else "configs_of"), message


def check(experiment: Experiment) -> None:
    """Refuse conflicts between keys; raises `ExperimentError` with the place."""
    cluster = experiment.cluster
    try:
        layout = cluster.as_layout()
    except UsageFailure as failure:
        raise ExperimentError(("cluster",), str(failure)) from failure
    for lane in (lane for phase in experiment.phases for lane in phase.lanes):
        lane.set_cluster(layout)
    names, topics, phases = set[str](), set[str](), set[str]()
    for number, phase in enumerate(experiment.phases):
        if phase.phase in phases:
            raise ExperimentError(("phases", number, "phase"), f"{phase.phase!r} names two phases")
        phases.add(phase.phase)
        check_entries(number, phase)
        for index, kind in enumerate(phase.outside_faults):
            if kind not in FAULT_KINDS:
                place = ("phases", number, "outside_faults", index)
                raise ExperimentError(place, f"{kind!r} is not a fault kind: expected one of {', '.join(FAULT_KINDS)}")
            if kind == "power-loss" and number > 0:
                place = ("phases", number, "outside_faults", index)
                raise ExperimentError(
                    place, "records of earlier phases may be lost, too: expected it in the first phase"
                )
        for index, lane in enumerate(phase.lanes):
            at_lane = ("phases", number, "lanes", index)
            if lane.lane in names:
                raise ExperimentError((*at_lane, "lane"), f"{lane.lane!r} names two lanes")
            names.add(lane.lane)
            for topic in lane.topics:
                # Kafka takes `.` and `_` for the same, in names of metrics.
                if topic.replace(".", "_") in topics:
                    raise ExperimentError((*at_lane, "topic"), f"{topic!r} is the topic of two lanes")
                topics.add(topic.replace(".", "_"))
            raise_first(at_lane, _check_lane(cluster, phase, lane))
        check_faults(cluster, number, phase)
        raise_first((), _check_configs(cluster, number, phase))
    raise_first(("defect",), _check_defect(experiment, names))


def _check_defect(experiment: Experiment, names: Set[str]) -> Refusals:
    """Refusals of a known defect's lanes if they do not exist, or if no lane is left as the control."""
    lanes = () if experiment.defect is None else experiment.defect.lanes
    for index, lane in enumerate(lanes):
        if lane not in names:
            yield ("lanes", index), f"{lane!r} is not a lane: expected some of {', '.join(sorted(names))}"
    if lanes and names <= set(lanes):
        yield ("lanes",), "expected at least one lane that is not listed, as the control"
