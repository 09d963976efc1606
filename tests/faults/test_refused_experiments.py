"""Experiments whose faults of partitions, sessions and files can not be: each is refused with what was expected."""

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.file import parse_experiment

ORDERS, KRAFT, FOUR = "{lane: orders}", "{metadata_mode: kraft}", "{brokers: 4}"
SINGLE, SHARED = "{lane: orders, replication_factor: 1}", "{lane: orders, client: java 4.3.1, share: {}}"
LOOP = f"{ORDERS}, {{lane: doubled, loop: {{source: orders}}}}"
SHORT = "{configs_of: {1: {log.retention.ms: 50000}}}"
UNCLEAN_BROKERS = "{metadata_mode: kraft, broker_configs: {unclean.leader.election.enable: true}}"
UNCLEAN = "{lane: orders, min_insync_replicas: 3, unclean_leader_election: true}"


@pytest.mark.parametrize(
    ("fault", "lanes", "cluster", "expected"),
    [
        ("leader-transfer, target: leader(orders)", ORDERS, "{kafka_version: 2.0.0}", "expected Kafka 2.4 or later"),
        ("leader-transfer, target: zookeeper", ORDERS, "{}", "leader-transfer hits brokers, and no other server"),
        ("leader-transfer, target: leader(orders), lane: ordres", ORDERS, "{}", "there is no lane ordres"),
        ("leader-transfer, target: all", ORDERS, "{}", "nobody else could lead; expected fewer brokers"),
        ("leader-transfer, target: leader(orders)", SINGLE, "{}", "nobody else could lead"),
        ("full-remote-store, target: all", ORDERS, "{tiered_storage: true}", "expected a lane with tiered: true"),
        ("clock-step, target: 'broker:2', seconds: 100", ORDERS, SHORT, "past the retention.ms of lane orders, 50000"),
        ("partition, target: 'broker:1', port: control", ORDERS, "{kafka_version: 2.0.0}", "Kafka 2.0.0 has no such"),
        ("controller-move, target: controller", ORDERS, KRAFT, "pause it, isolate it or kill it"),
        ("controller-move, target: 'zookeeper:1'", ORDERS, "{}", "controller-move hits brokers, and no other server"),
        ("session-expiry, target: 'broker:1'", ORDERS, KRAFT, "hold their heartbeats"),
        ("session-expiry, target: zookeeper", ORDERS, "{}", "session-expiry hits brokers, and no other server"),
        ("reassignment, target: leader(orders)", ORDERS, "{brokers: 4, kafka_version: 2.0.0}", "expected Kafka 2.4 or"),
        ("reassignment, target: zookeeper", ORDERS, FOUR, "hits brokers, and no other server"),
        ("reassignment, target: leader(orders)", ORDERS, "{}", "the 3 replicas of lane orders have no place on the 2"),
        ("reassignment, target: 'brokers:1,2'", ORDERS, FOUR, "expected 5 brokers, or another lane"),
        ("reassignment, target: broker:1", "{lane: orders, replication_factor: 1}", FOUR, "orders has one replica"),
        ("reassignment, target: broker:1", UNCLEAN, FOUR, "expected min_insync_replicas below replication_factor"),
        ("partition-growth, target: all", ORDERS, "{kafka_version: 0.11.0.3}", "expected Kafka 1.0 or later"),
        ("partition-growth, target: all, add: 0", ORDERS, "{}", "expected at least 1, got 0"),
        ("partition-growth, target: all, add: 1000", ORDERS, "{}", "1001 partitions: expected 1000 at most"),
        ("partition-growth, target: all", LOOP, "{}", "the loop of lane doubled writes only to the partitions that"),
        ("truncated-segment, target: broker:1, bytes: 0", ORDERS, "{}", "expected at least 1"),
        ("corrupted-segment, target: broker:1, bytes: 15", ORDERS, "{}", "expected at least 16"),
        ("lost-index, target: zookeeper", ORDERS, "{}", "lost-index hits brokers, and no other server"),
        ("lost-checkpoint, target: broker:1, lane: orders", ORDERS, "{}", "has no such key"),
        ("kill, target: minority", SINGLE, "{brokers: 2}", "one or two brokers have no minority"),
        ("kill, target: follower(orders)", SINGLE, "{}", "orders has no followers"),
        ("kill, target: leader(orders/1)", ORDERS, "{}", "the lane orders has 1 partition, counted from 0"),
        ("partition, target: all", ORDERS, "{}", "no others to be cut off from"),
        ("partition, target: broker:1, peers: [1]", ORDERS, "{}", "no others to be cut off from"),
        ("stop, target: 'brokers:1,2,3', stagger: 5, duration: 20", ORDERS, KRAFT, "the last of them could not shut"),
        ("cut, target: all, api: ShareFetch, side: response", SHARED, KRAFT, "expected nth, or another api"),
        ("client-pause, target: member(orders)", SHARED, UNCLEAN_BROKERS, "may lose the state of share groups"),
    ],
)
def test_a_fault_that_can_not_be_is_refused(fault: str, lanes: str, cluster: str, expected: str) -> None:
    text = f"name: refused\ncluster: {cluster}\nlanes: [{lanes}]\nschedule: [{{fault: {fault}, at: 1}}]\n"
    with pytest.raises(UsageFailure) as refused:
        parse_experiment(text, "refused.yaml")
    assert expected in str(refused.value)


@pytest.mark.parametrize("fault", ["power-loss", "truncated-segment"])
def test_what_may_lose_records_of_earlier_phases_is_in_the_first_one_or_in_none(fault: str) -> None:
    phase = "{phase: %s, lanes: [{lane: %s}], schedule: [{fault: %s, target: broker:1, at: 1}]}"
    text = f"name: late\nphases:\n  - {phase % ('one', 'a', fault)}\n  - {phase % ('two', 'b', 'kill')}\n"
    parse_experiment(text, "first.yaml")
    with pytest.raises(UsageFailure, match=r"phases\[1\]\.schedule\[0\]\.fault.*put it into the first phase"):
        parse_experiment(text.replace("kill", fault), "late.yaml")
