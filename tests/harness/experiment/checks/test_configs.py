"""Configuration that no prediction knows is refused, or assumed; what the model knows reaches the lane."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.lanes import InternalTopic, Lane
from kafka_chaos.harness.experiment.file import dump_experiment, parse_experiment
from kafka_chaos.harness.experiment.known_configs import refused_keys
from kafka_chaos.harness.workload.application.handles import ConsumerHandle, ProducerHandle

NOBODY: Any = None
NO_CLUSTER: Any = SimpleNamespace(bootstrap_servers="127.0.0.1:1", client_configs={})
GROUPED = ", group: {members: 1}"
TRANSACTIONAL = ", transactional: {size: 2}"


def text(lane: str = "", cluster: str = "", more: str = "") -> str:
    return f"name: configured\ncluster: {{{cluster}}}\nlanes: [{{lane: orders{lane}}}]\n{more}"


def lane_of(lane: str = "", cluster: str = "", more: str = "") -> Lane:
    ((_, _, found),) = parse_experiment(text(lane, cluster, more), "a.yaml").lanes
    return found


@pytest.mark.parametrize(
    ("lane", "cluster", "message"),
    [
        (", producer_configs: {queuing.strategy: lifo}", "", r"a\.yaml:3: lanes\[0\]\.producer_configs"),
        (", transactional: {size: 2, timeout_ms: 3000}, producer_configs: {socket.timeout.ms: 4000}", "",
         r"producer_configs: librdkafka refuses these configs: .*`socket\.timeout\.ms` must be set <= `transaction"),
        (", idempotence: true, producer_configs: {message.send.max.retries: 0}", "",
         r"producer_configs: librdkafka refuses these configs: .*`enable\.idempotence`"),
        (", topic_configs: {message.format.version: '0.10.2'}", "", r"message\.format\.version=0\.10\.2"),
        (GROUPED, "broker_configs: {offsets.retention.minutes: 1}", r"a\.yaml:2: cluster\.broker_configs: off"),
        ("", "configs_of: {2: {replica.selector.class: a.B}}", r"cluster\.configs_of: replica\.selector\.class=a\.B"),
        ("", "broker_configs: {log.retention.ms: 1000}", r"the lane needs cleanup_policy: delete"),
        ("", "broker_configs: {log.cleanup.policy: compact}", r"the lane needs cleanup_policy: compact"),
        (", topic_configs: {flush.messages: often}", "", r"flush\.messages: 'often': expected a whole number"),
        ("", "broker_configs: {max.connections: 9}", r"then isr_not_restored, stalled_consumer, st"),
        (", tombstones: 0.1", "", r"tombstones: expected 0, or a cleanup_policy with compact"),
        (", cleanup_policy: compact, client: java 3.9.1", "", r"cleanup_policy: compaction needs record keys"),
        (", assume: [linger.ms]", "", r"assume: 'linger\.ms': expected configuration keys that the model does"),
        (", topic_configs: {retention.ms: 3600000}", "}\nworkload: {duration: 4000", r"may be removed while the run"),
        (", acks: '0', topic_configs: {max.message.bytes: 20000}", "", r"acks: with acks: 0, nobody is told that"),
        (", acks: '0'", "configs_of: {3: {message.max.bytes: 20000}}", r"acks: with acks: 0, nobody is told that"),
        (", acks: '1', producer_configs: {socket.timeout.ms: 100}", "", r"socket\.timeout\.ms: the model's leaders"),
        (GROUPED, "brokers: 1, broker_configs: {min.insync.replicas: 2}", r"__consumer_offsets would have 1 replicas"),
        (", unclean_leader_election: true", "metadata_mode: kraft, broker_versions: {1: 3.8.1}", r"controllers follow"),
        (", group: {session_timeout_ms: 3000}", "broker_configs: {group.min.session.timeout.ms: 5000}", r"least 5000"),
        (", idempotence: true, transactional: {timeout_ms: 9000}",
         "configs_of: {2: {transaction.max.timeout.ms: 6000}}", r"timeout_ms: expected at most 6000"),
        (", producer_configs: {linger.ms: 60000}", "", r"librdkafka refuses these configs: .*linger\.ms"),
        (", client: librdkafka 2.3.0, transactional: {timeout_ms: 9000}, producer_configs: {message.timeout.ms: 60000}",
         "", r"producer_configs: librdkafka refuses these configs: .*must be set <= `transaction\.timeout"),
        ("_a}, {lane: orders.a", "", r"'orders\.a' is the topic of two lanes"),
    ],
)  # fmt: skip
def test_what_no_prediction_knows_is_refused(lane: str, cluster: str, message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        parse_experiment(text(lane, cluster), "a.yaml")


@pytest.mark.parametrize("place", ["lane", "cluster"])
def test_what_is_assumed_is_allowed_and_not_judged(place: str) -> None:
    assume = "assume: [offsets.retention.minutes]"
    lane = f"{GROUPED}, {assume}" if place == "lane" else GROUPED
    cluster = "broker_configs: {offsets.retention.minutes: 1}" + (f", {assume}" if place == "cluster" else "")
    assert set(lane_of(lane, cluster).unjudged) == set(lane_of(GROUPED).group_anomalies) - {GroupAnomaly.OWNED_TWICE}


def test_what_holds_recovery_back_is_allowed_where_it_is_not_judged() -> None:
    held_back = {"follower.replication.throttled.replicas": "*"}
    assert list(refused_keys("topic", held_back, lane_of())) == []
    unjudged = lane_of(f", topic_configs: {held_back}, assume: {list(held_back)}").unjudged
    assert set(unjudged) == set(lane_of().recovery_anomalies)


@pytest.mark.parametrize(
    ("configs", "policy"),
    [
        ("retention.ms: 1000", "delete"), ("retention.bytes: 1000000", "delete"),
        ("retention.ms: 3600000", None), ("retention.ms: -1", None), ("segment.ms: 1000", None),
    ],
)  # fmt: skip
def test_a_topic_that_removes_records_has_a_cleanup_policy(configs: str, policy: str | None) -> None:
    experiment = parse_experiment(text(f", topic_configs: {{{configs}}}"), "a.yaml")
    ((_, spec, lane),) = experiment.lanes
    # Verification compares the two files key by key.
    assert lane.cleanup_policy == spec.cleanup_policy == policy


@pytest.mark.parametrize(
    ("configs", "cluster", "more", "size"),
    [
        ("retention.bytes: 1000", "", "", 1000),
        ("retention.bytes: 1000, retention.ms: 3600000", "broker_configs: {log.retention.ms: 1000}", "", 1000),
        ("retention.bytes: 1000", "broker_configs: {log.retention.ms: 1000}", "", None),
        ("retention.bytes: 1000", "configs_of: {2: {log.retention.ms: 1000}}", "", None),
        ("retention.bytes: 1000, retention.ms: 1000", "", "", None),
        ("retention.bytes: 1000", "", ", cleanup_policy: 'compact,delete'", None),
        ("retention.ms: 1000", "", "", None),
    ],
)
def test_only_where_nothing_else_removes_records_their_size_tells_what_may_be_gone(
    configs: str, cluster: str, more: str, size: int | None
) -> None:
    assert lane_of(f", topic_configs: {{{configs}}}{more}", cluster).retention_bytes == size


@pytest.mark.parametrize(
    ("lane", "cluster", "expected"),
    [
        (", topic_configs: {flush.messages: 1}", "", {"flushes": True}),
        ("", "broker_configs: {log.flush.interval.messages: 1}", {"flushes": True}),
        ("", "configs_of: {1: {log.flush.interval.messages: 1}}", {"flushes": False}),
        (", topic_configs: {flush.messages: 2}", "broker_configs: {log.flush.interval.messages: 1}",
         {"flushes": False}),
        ("", "broker_configs: {log.cleaner.delete.retention.ms: 5}", {"delete_retention_ms": 5}),
        (", topic_configs: {delete.retention.ms: 7}", "", {"delete_retention_ms": 7}),
        (TRANSACTIONAL, "", {"verifies_transactions": None, "transaction_state": None}),
        (TRANSACTIONAL, "configs_of: {3: {transaction.partition.verification.enable: false}}",
         {"verifies_transactions": False}),
        (TRANSACTIONAL, "broker_configs: {transaction.state.log.min.isr: 2, unclean.leader.election.enable: true}",
         {"transaction_state": InternalTopic(min_insync_replicas=2), "consumer_offsets": None}),
        (GROUPED, "configs_of: {2: {unclean.leader.election.enable: true}}",
         {"consumer_offsets": InternalTopic(unclean_leader_election=True), "transaction_state": None}),
        (GROUPED, "broker_configs: {offsets.topic.replication.factor: 2, min.insync.replicas: 2}",
         {"consumer_offsets": InternalTopic(replication_factor=2, min_insync_replicas=2)}),
        ("", "broker_configs: {unclean.leader.election.enable: true}", {"consumer_offsets": None}),
        (f"{GROUPED}, replication_factor: 1", "", {"consumer_offsets": InternalTopic(replication_factor=3)}),
        (f"{TRANSACTIONAL}, replication_factor: 5", "brokers: 5",
         {"transaction_state": InternalTopic(replication_factor=3)}),
        (f"{GROUPED}, replication_factor: 2", "brokers: 2", {"consumer_offsets": None}),
        (f"{GROUPED}, replication_factor: 1", "kafka_version: 0.10.2.2",
         {"consumer_offsets": InternalTopic(unclean_leader_election=True)}),
        (f"{GROUPED}, replication_factor: 1", "configs_of: {2: {offsets.topic.replication.factor: 1}}",
         {"consumer_offsets": InternalTopic(replication_factor=1)}),
    ],
)  # fmt: skip
def test_what_the_model_knows_reaches_the_lane(lane: str, cluster: str, expected: dict[str, Any]) -> None:
    found = lane_of(lane, cluster)
    assert {key: getattr(found, key) for key in expected} == expected


def test_leaders_that_move_back_do_so_after_each_fault() -> None:
    schedule = "schedule: [{fault: kill, target: leader(orders), at: 1}]\n"
    rebalancing = "broker_configs: {auto.leader.rebalance.enable: true}"
    assert lane_of(cluster=rebalancing).faults == ()
    assert lane_of(cluster=rebalancing, more=schedule).faults == ("kill", "stop")
    experiment = parse_experiment(text("", rebalancing, schedule), "a.yaml")
    # The verdict needs an event for every fault that a lane declares.
    assert experiment.phases[0].uninjected_faults(experiment.cluster.as_layout()) == ("stop",)
    ((_, _, again),) = parse_experiment(dump_experiment(experiment, {}), "b.yaml").lanes
    assert again.faults == ("kill", "stop")


def test_an_application_s_settings_are_refused_unless_they_are_assumed() -> None:
    ((_, spec, _),) = parse_experiment(text(), "a.yaml").lanes
    ((_, assuming, _),) = parse_experiment(text(", assume: [auto.offset.reset, queuing.strategy]"), "a.yaml").lanes
    with pytest.raises(UsageFailure, match=r"lane orders: auto\.offset\.reset=latest: the model does not know it"):
        ConsumerHandle(spec, NO_CLUSTER, Mock(read_lane=spec)).consumer({"auto.offset.reset": "latest"})
    with pytest.raises(UsageFailure, match=r"lane orders: queuing\.strategy=lifo"):
        ProducerHandle(spec, NO_CLUSTER, NOBODY).producer({"queuing.strategy": "lifo"})
    recorder = Mock(configs={}, read_lane=assuming)
    ConsumerHandle(assuming, NO_CLUSTER, recorder).consumer({"auto.offset.reset": "latest"})
    ProducerHandle(assuming, NO_CLUSTER, recorder).producer({"queuing.strategy": "lifo", "on_delivery": print})
    assert recorder.client.call_count == 2
