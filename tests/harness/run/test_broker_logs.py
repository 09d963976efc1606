from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.events import (
    BrokerSessionEnded,
    DefectPrecondition,
    Event,
    LeaderElected,
    LogTruncated,
    PartitionChanged,
    PartitionOffline,
)
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.run.broker_logs import read_broker_log
from kafka_chaos.harness.run.observing.collection import emit_broker_events

LOG = """\
[2026-11-21 06:37:56,203] INFO [Broker id=1] Leader orders-0 with topic id Some(Kc5oFhD0ThWvFJ4wx01ntg) starts at \
leader epoch 2 from offset 57 with partition epoch 3, high watermark 55, ISR [1,2], adding replicas [] and removing \
replicas [] . Previous leader Some(2) and previous leader epoch was 1. (logger)
[2026-11-21 06:37:57,000] INFO [Broker id=1] Leader other-0 with topic id None starts at leader epoch 2 from offset 57 \
with partition epoch 3, high watermark 55, ISR [1], adding replicas [] and removing replicas [] . (logger)
[2026-11-21 06:38:15,755] INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating partition orders-0 \
with TruncationState(offset=40, completed=true) due to leader epoch and offset EpochEndOffset(leaderEpoch=0, \
endOffset=40) (ReplicaFetcherThread)
[2026-11-21 06:38:15,759] INFO [UnifiedLog partition=orders-0, dir=/var/lib/kafka] Truncating to offset 40 (UnifiedLog)
[2026-11-21 06:38:15,800] INFO [UnifiedLog partition=orders-0, dir=/var/lib/kafka] Truncating to 60 has no effect as \
the largest offset in the log is 39 (UnifiedLog)
"""


def events_of(log: str, *, broker: int = 3, **given: Any) -> list[Event]:
    """The events of lane orders in a broker's log, but for the states of partitions."""
    given = {"topics": {"orders": "orders"}, "monotonic_at_epoch_ns": 0, **given}
    found = read_broker_log(log.splitlines(), node_id=broker, **given)
    return [event for event in found if not isinstance(event, PartitionChanged)]


def states_of(log: str) -> list[tuple[int, int, tuple[int, ...] | None]]:
    found = read_broker_log(log.splitlines(), node_id=3, topics={"orders": "orders"}, monotonic_at_epoch_ns=0)
    return [
        (event.partition, event.partition_epoch, event.isr) for event in found if isinstance(event, PartitionChanged)
    ]


FOLLOWER_LOG = """\
[2026-11-22 03:33:49,285] INFO [Broker id=1] Follower orders-0 starts at leader epoch 1 from offset 24828 with \
partition epoch 1 and high watermark 6974. Current leader is 2. Previous leader Some(2) and previous leader epoch was \
1. (logger)
[2026-11-22 03:33:49,367] INFO [Log partition=orders-0, dir=/var/lib/kafka] Truncating to offset 6985 (Log)
[2026-11-22 03:33:50,367] INFO [Log partition=orders-0, dir=/var/lib/kafka] Truncating to offset 6980 (Log)
"""
LEADS = """\
[2026-11-22 03:33:49,300] INFO [Broker id=1] Leader orders-0 with topic id None starts at leader epoch 2 from offset \
24828 with partition epoch 3, high watermark 55, ISR [1,2], adding replicas [] and removing replicas [] . (logger)
"""
CONTROLLER_LOG = """\
[2026-11-21 22:13:11,516] INFO [Controller id=3 epoch=1] Partition orders-0 state changed to (Leader:-1,ISR:2,\
LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:1) after removing replica 2 from the ISR as \
part of transition to OfflineReplica (logger)
[2026-11-21 22:13:11,517] INFO [Controller id=3 epoch=1] Partition orders-1 state changed to (Leader:2,ISR:2,3,\
LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:1) after removing replica 1 from the ISR as \
part of transition to OfflineReplica (logger)
"""
KRAFT_LOG = """\
[2026-11-22 02:31:19,100] DEBUG [QuorumController id=3] partition change for orders-0 with topic ID \
ofTKEK2TTuy3O_ujt_8teg: isr: [1] -> [], leader: 1 -> -1, leaderEpoch: 2 -> 3, partitionEpoch: 4 -> 5 \
(ReplicationControlManager)
[2026-11-22 02:31:19,101] DEBUG [QuorumController id=3] partition change for orders-1 with topic ID \
ofTKEK2TTuy3O_ujt_8teg: isr: [1, 2] -> [2], leader: 1 -> 2, leaderEpoch: 2 -> 3, partitionEpoch: 4 -> 5 \
(ReplicationControlManager)
[2026-11-22 02:31:19,229] INFO [Broker id=2] Leader orders-1 with topic id Some(ofTKEK2TTuy3O_ujt_8teg) starts at \
leader epoch 3 from offset 1911 with partition epoch 5, high watermark 1911, ISR [3,2], adding replicas [] and \
removing replicas [] . Previous leader Some(1) and previous leader epoch was 2. (logger)
"""
LOG_OF_2_4 = """\
[2026-11-22 15:03:33,822] TRACE [Broker id=3] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName=\
'orders', partitionIndex=0, controllerEpoch=2, leader=3, leaderEpoch=2, isr=[3, 2], zkVersion=2, replicas=[1, 2, 3], \
addingReplicas=[], removingReplicas=[], isNew=false) correlation id 7 from controller 3 epoch 2 (logger)
[2026-11-22 15:03:33,830] INFO [Partition orders-0 broker=3] orders-0 starts at leader epoch 2 from offset 1488 with \
high watermark 1480. Previous leader epoch was 0. (Partition)
"""
LOG_OF_1_0 = """\
[2026-11-22 15:12:00,132] TRACE [Broker id=2] Received LeaderAndIsr request PartitionState(controllerEpoch=1, \
leader=2, leaderEpoch=2, isr=3,2, zkVersion=1, replicas=1,2,3, isNew=false) correlation id 53 from controller 3 epoch \
1 for partition orders-0 (logger)
[2026-11-22 15:12:00,139] INFO [Partition orders-0 broker=2] orders-0 starts at Leader Epoch 2 from offset 1488. \
Previous Leader Epoch was: 0 (Partition)
"""
LOG_OF_0_11 = """\
[2026-11-22 15:09:36,878] TRACE Broker 1 received LeaderAndIsr request PartitionState(controllerEpoch=1, leader=1, \
leaderEpoch=1, isr=1,2, zkVersion=0, replicas=1,2,3) correlation id 13 from controller 1 epoch 1 for partition \
[orders,0] (logger)
[2026-11-22 15:09:36,878] TRACE Broker 1 received LeaderAndIsr request PartitionState(controllerEpoch=1, leader=1, \
leaderEpoch=2, isr=3,2, zkVersion=0, replicas=1,2,3) correlation id 14 from controller 1 epoch 1 for partition \
[orders,0] (logger)
[2026-11-22 15:09:36,884] INFO Partition [orders,0] on broker 1: orders-0 starts at Leader Epoch 2 from offset 1488. \
Previous Leader Epoch was: -1 (Partition)
"""
FOLLOWS, FIRST_CUT, _ = FOLLOWER_LOG.splitlines(keepends=True)
BEFORE_1_0 = "[2026-11-22 15:05:44,137] INFO Truncating log orders-0 to offset 592. (Log)\n"
ELECTED = (LeaderElected, {"leader_epoch": 2, "start_offset": 1488, "isr": (3, 2)})


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (LOG,
         [(LeaderElected, {"lane": "orders", "partition": 0, "leader_epoch": 2, "isr": (1, 2)}),
          (LogTruncated, {"lane": "orders", "broker": 3, "offset": 40})]),
        (FOLLOWER_LOG,
         [(LogTruncated, {"offset": 6985, "log_end": 24828}), (LogTruncated, {"offset": 6980, "log_end": None})]),
        (FOLLOWS + LEADS + FIRST_CUT,
         [(LeaderElected, {"leader_epoch": 2}), (LogTruncated, {"offset": 6985, "log_end": None})]),
        (CONTROLLER_LOG, [(PartitionOffline, {"controller": 3, "partition": 0, "leader_epoch": 1})]),
        (KRAFT_LOG,
         [(PartitionOffline, {"controller": 3, "partition": 0, "leader_epoch": 3}),
          (LeaderElected, {"partition": 1, "leader_epoch": 3, "isr": (3, 2)})]),
        # Before 2.8 the ISR of an election is in the request alone.
        (LOG_OF_2_4, [ELECTED]),
        (LOG_OF_1_0, [ELECTED]),
        (LOG_OF_0_11, [ELECTED]),
        (BEFORE_1_0, [(LogTruncated, {"lane": "orders", "partition": 0, "offset": 592})]),
    ],
    ids=[
        *("elections and truncations", "a truncation drops what the new follower held"),
        *("what was held before it led bounds no later truncation", "nobody leads", "KRaft"),
        *("2.4", "1.0", "0.11", "truncations before 1.0"),
    ],
)  # fmt: skip
def test_lines_about_the_lanes_become_events(log: str, expected: list[tuple[type[Event], dict[str, Any]]]) -> None:
    found = events_of(log)
    told = [
        (type(event), {name: getattr(event, name) for name in fields})
        for event, (_, fields) in zip(found, expected, strict=True)
    ]
    assert told == expected


def test_events_have_the_times_of_their_lines_and_truncations_their_reason() -> None:
    elected, truncated = events_of(LOG, monotonic_at_epoch_ns=-1_000)
    assert elected.ts_ns == 1795243076_203_000_000 - 1_000
    assert truncated.ts_ns - elected.ts_ns == (19_000 + 556) * 1_000_000
    assert isinstance(truncated, LogTruncated)
    assert "due to leader epoch and offset" in truncated.reason


STATES_WITH_ZOOKEEPER = """\
[2026-11-25 02:22:45,317] TRACE [Broker id=1] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName=\
'orders', partitionIndex=0, controllerEpoch=1, leader=1, leaderEpoch=0, isr=[1, 2, 3], partitionEpoch=0, replicas=\
[1, 2, 3], addingReplicas=[], removingReplicas=[], isNew=true, leaderRecoveryState=0) correlation id 1 from \
controller 2 epoch 1 (logger)
[2026-11-25 02:22:46,000] INFO [Partition orders-0 broker=1] Shrinking ISR from 1,2,3 to 1. Leader: (highWatermark: \
5, endOffset: 7). (Partition)
[2026-11-25 02:22:46,030] INFO [Partition orders-0 broker=1] ISR updated to 1 (under-min-isr) and version updated to \
1 (Partition)
[2026-11-25 02:22:46,040] TRACE [Broker id=1] Cached leader info UpdateMetadataPartitionState(topicName='orders', \
partitionIndex=0, controllerEpoch=1, leader=1, leaderEpoch=0, isr=[1, 2], zkVersion=2, replicas=[1, 2, 3], \
offlineReplicas=[]) for partition orders-0 in response to UpdateMetadata request sent by controller 2 epoch 1 with \
correlation id 2 (logger)
[2026-11-25 02:22:46,045] INFO [Partition orders-0 broker=1] ISR updated to 1,2  and version updated to 2 (Partition)
"""


def test_the_states_of_a_partition_are_numbered_and_an_isr_that_is_only_asked_for_is_none() -> None:
    assert states_of(STATES_WITH_ZOOKEEPER) == [(0, 0, (1, 2, 3)), (0, 1, (1,)), (0, 2, (1, 2))]
    assert states_of(CONTROLLER_LOG) == [(0, 1, (2,)), (1, 1, (2, 3))]
    assert states_of(LOG) == [(0, 3, (1, 2))]


def test_in_kraft_mode_the_controllers_name_the_states_of_partitions() -> None:
    directories = KRAFT_LOG.splitlines()[0].partition("isr:")[0] + (
        "directories: [A, B] -> [C, B], partitionEpoch: 5 -> 6 (ReplicationControlManager)\n"
    )
    unclean = KRAFT_LOG.splitlines()[1].replace("DEBUG", "INFO").replace("partition change", "UNCLEAN partition change")
    assert states_of(KRAFT_LOG + directories) == [(0, 5, ()), (1, 5, (2,)), (1, 5, (3, 2)), (0, 6, None)]
    assert states_of(unclean + "\n") == [(1, 5, (2,))]


REFUSED = (
    "IllegalStateException: TransactionalId {} failed transition to state TxnTransitMetadata(producerId=1003, "
    "producerEpoch=0, txnTimeoutMs=8000, txnState=Ongoing, topicPartitions=Set({})) due to unexpected metadata"
)
BLOCKED = [
    "[2026-11-28 06:48:40,081] ERROR [KafkaApi-1] Error when handling request: clientId=broker-2-fetcher-0 (KafkaApis)",
    REFUSED.format("payments-0", "payments-0, payments-1"),
    REFUSED.format("payments-0", "payments-0"),
    REFUSED.format("other-0", ""),
]


def test_a_coordinator_that_refuses_the_next_state_of_a_transactional_id_says_so() -> None:
    lanes = {f"payments-{number}": "payments" for number in range(2)}
    of: dict[str, Any] = {"broker": 1, "topics": {}, "transactional_ids": lanes}
    (blocked,) = events_of("\n".join(BLOCKED), **of, monotonic_at_epoch_ns=-1_000)
    assert isinstance(blocked, DefectPrecondition)
    assert (blocked.defect, blocked.lane, blocked.transactional_id, blocked.broker) == (
        "KAFKA-8803", "payments", "payments-0", 1,
    )  # fmt: skip
    assert blocked.ts_ns == 1795848520_081_000_000 - 1_000
    assert "failed transition to state TxnTransitMetadata(producerId=1003" in blocked.evidence
    assert not events_of(LOG, **of)


@pytest.mark.parametrize(
    ("line", "brokers"),
    [
        # 4.3.1, and 3.3 to 3.9.
        ("[QuorumController id=103] Fencing broker 3 at epoch 18 because its session has timed out.", [3]),
        ("[QuorumController id=1] Fencing broker 2 because its session has timed out.", [2]),
        # 2.0 and later, and before.
        ("[Controller id=2] Newly added brokers: , deleted brokers: 3, bounced brokers: , all live brokers: 1", [3]),
        (
            "[Controller id=2] Newly added brokers: , deleted brokers: , bounced brokers: 1,3, all live brokers: ",
            [1, 3],
        ),
        ("[Controller id=2] Newly added brokers: 3, deleted brokers: , bounced brokers: , all live brokers: 2,3", []),
        ("[BrokerChangeListener on Controller 1]: Newly added brokers: , deleted brokers: 2, all live brokers: 1", [2]),
    ],
)
def test_ends_of_brokers_sessions_become_events(line: str, brokers: list[int]) -> None:
    found = events_of(f"[2026-11-28 10:26:19,186] INFO {line} (KafkaController)", broker=4, topics={})
    ended = [event for event in found if isinstance(event, BrokerSessionEnded)]
    assert [(event.broker, event.controller) for event in ended] == [(broker, 4) for broker in brokers]
    assert all(event.ts_ns % 60_000_000_000 == 19_186_000_000 for event in ended)


def test_what_a_controller_alone_wrote_before_it_was_deposed_did_not_happen(tmp_path: Path) -> None:
    """Seen on 4.4.0: a frozen broker's controller fences all others, is deposed, and takes that back."""
    active = "[2026-11-22 02:30:00,000] INFO [QuorumController id=1] Becoming the active controller at epoch 7, next"
    deposed = "[2026-11-22 02:32:00,000] WARN [QuorumController id=1] Renouncing the leadership due to a metadata log"
    (tmp_path / "broker-1.log").write_text("\n".join([active, *KRAFT_LOG.splitlines(), deposed]))

    def told() -> set[type[Event]]:
        kept: list[Event] = []
        bus = EventBus(kept.append)
        emit_broker_events(tmp_path, topics={"orders": "a"}, transactional_ids={}, monotonic_at_epoch_ns=0, events=bus)
        return {type(event) for event in kept} - {LeaderElected}

    assert told() == set()
    (tmp_path / "broker-2.log").write_text(KRAFT_LOG)
    assert told() == {PartitionChanged, PartitionOffline}
