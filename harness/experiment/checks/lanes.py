"""Checks an experiment: names used twice, and lanes and faults that its cluster, or the other lanes, do not allow.

Every refusal is an `ExperimentError` with its place, before anything starts.
"""

from __future__ import annotations

from kafka_chaos.contract.command.errors import LaneError, UsageFailure
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.groups import CONSUMER
from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, LOOP, MEMBER, TRANSACTIONAL, chosen
from kafka_chaos.harness.cluster.configuration.server_properties import DEFAULTS, GROUP_SESSION_TIMEOUT, check_keys
from kafka_chaos.harness.cluster.security import PLAINTEXT
from kafka_chaos.harness.experiment.checks.faults import check_faults
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.known_configs import refused, refused_of
from kafka_chaos.harness.experiment.lane_specs import OWNED_CLIENT_KEYS, OWNED_TOPIC_KEYS, LaneSpec
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError, PhaseSpec
from kafka_chaos.harness.signals import new_client


def check_lanes(cluster: ClusterSpec, number: int, phase: PhaseSpec, names: set[str], topics: set[str]) -> None:
    """Refuse lanes of a phase; raises `ExperimentError`. Adds to the names and topics, which no other lane may have."""
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
        except UsageFailure as failure:
            raise ExperimentError(place, str(failure)) from failure
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
        _check_client(cluster, place, lane)
        _check_client_keys((*place, "producer_configs"), lane)
        _check_source(place, lane, phase)
        _check_lives((*place, "lives"), lane, phase)
        _check_session(cluster, place, lane)


def check_configs(cluster: ClusterSpec, number: int, phase: PhaseSpec) -> None:
    """Refuse configuration with which no prediction for a lane of a phase would hold, once all else is right."""
    layout = cluster.spec()
    for index, lane in enumerate(phase.lanes):
        known = lane.as_lane(phase.lane_faults(layout, lane), layout)
        for kind, name in (("topic", "topic_configs"), ("producer", "producer_configs")):
            for key, message in refused_of(kind, getattr(lane, name), known):
                raise ExperimentError(("phases", number, "lanes", index, name, key), message)
        for key, message in refused(layout, known):
            at = "broker_configs" if key in cluster.broker_configs else "configs_of"
            raise ExperimentError(("cluster", at), message)


def _check_session(cluster: ClusterSpec, place: tuple[str | int, ...], lane: LaneSpec) -> None:
    """Refuse a session time-out that brokers would not have where they decide it (KIP-848)."""
    session = int(cluster.broker_configs.get(GROUP_SESSION_TIMEOUT, DEFAULTS["kraft"][GROUP_SESSION_TIMEOUT]))
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


def _check_lives(place: tuple[str | int, ...], lane: LaneSpec, phase: PhaseSpec) -> None:
    if lane.lives and (lane.transactional is not None or lane.loop is not None):
        raise ExperimentError(place, "expected a lane without transactional and loop, which say themselves who writes")
    for number, life in enumerate(lane.lives):
        if phase.steps is None and life.at >= phase.workload.duration:
            message = f"{life.at:g} s is past the load of {phase.workload.duration:g} s"
            raise ExperimentError((*place, number, "at"), message)


def _check_client(cluster: ClusterSpec, place: tuple[str | int, ...], lane: LaneSpec) -> None:
    """Refuse what a client that runs as a process of its own has not."""
    client = chosen(lane.client)
    if client is None:
        return
    is_written = lane.transactional is not None and lane.loop is None
    for key, role, needed in (
        ("transactional", TRANSACTIONAL, is_written),
        ("group", MEMBER, lane.group is not None),
        ("loop", LOOP, lane.loop is not None),
    ):
        if needed and role not in client.roles:
            has = ", ".join(kind.name for kind in KINDS.values() if role in kind.roles)
            message = f"the client {client} can be no {role} here: expected {IN_PROCESS}, or a version of {has}"
            raise ExperimentError((*place, key), message)
    if lane.group is not None and lane.group.commits not in client.commits:
        message = f"members of {client} commit {' or '.join(client.commits)} here, got {lane.group.commits}"
        raise ExperimentError((*place, "group", "commits"), message)
    if lane.idempotence and lane.max_in_flight not in client.idempotent_in_flight:
        numbers = client.idempotent_in_flight
        wanted = numbers[0] if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        message = f"expected {wanted}, as {client} has it with idempotence, got {lane.max_in_flight}"
        raise ExperimentError((*place, "max_in_flight"), message)
    if cluster.security != PLAINTEXT and client.secured is None:
        message = f"{client} can't connect to a secured listener here: expected librdkafka, java or one of your own"
        raise ExperimentError((*place, "client"), message)
    if lane.producer_configs and not client.has_configs:
        message = f"{client} takes no other configs: leave them out"
        raise ExperimentError((*place, "producer_configs"), message)


def _check_client_keys(place: tuple[str | int, ...], lane: LaneSpec) -> None:
    from confluent_kafka import KafkaException, Producer

    for key in lane.producer_configs:
        if key in OWNED_CLIENT_KEYS:
            raise ExperimentError((*place, key), "set it with the lane's own key, or leave it out: the harness sets it")
    if lane.producer_configs and lane.client == IN_PROCESS:
        try:
            new_client(Producer, {**lane.producer_configs, "log_level": 0}).close()
        except (KafkaException, ValueError, TypeError) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            raise ExperimentError(place, f"the client refuses it: {reason}") from error


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
        check_lanes(experiment.cluster, number, phase, names, topics)
        check_faults(experiment.cluster, number, phase)
        check_configs(experiment.cluster, number, phase)
