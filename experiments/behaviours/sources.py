"""Where each behaviour is documented: the document and its section, in the order of listing, running and documenting.

The documents are Korean. A section is named in English, then as the document itself names it.
"""

from __future__ import annotations

from kafka_chaos.conformance.scenario.registry import Document, Source

INTERNALS = Document("How Kafka works internally", "[Kafka] 카프카의 내부 동작원리", "20 May 2023")
RECOVERY = Document("Replica Recovery", "Replica Recovery", None)
LEADER_AND_ISR = Document(
    "About the Kafka API LeaderAndIsr", "[Kafka] kafka api - LeaderAndIsr 에 관하여", "23 April 2021"
)
KRAFT = Document('Kafka\'s documentation, "KRaft"', "KRaft", None)
UPGRADING = Document('Kafka\'s documentation, "Upgrading"', "Upgrading", None)
MIGRATION = Document("KIP-866: ZooKeeper to KRaft Migration", "KIP-866: ZooKeeper to KRaft Migration", None)
QUORUM = Document(
    "KIP-595: A Raft Protocol for the Metadata Quorum", "KIP-595: A Raft Protocol for the Metadata Quorum", None
)
ELIGIBLE = Document("KIP-966: Eligible Leader Replicas", "KIP-966: Eligible Leader Replicas", None)
DESIGN = Document('Kafka\'s documentation, "Design"', "Design", None)
IMPLEMENTATION = Document('Kafka\'s documentation, "Implementation"', "Implementation", None)
SESSIONS = Document(
    "KIP-62: Heartbeats from a Background Thread",
    "KIP-62: Allow consumer to send heartbeats from a background thread",
    None,
)
STATIC = Document(
    "KIP-345: Static Membership",
    "KIP-345: Introduce static membership protocol to reduce consumer rebalances",
    None,
)
INCREMENTAL = Document(
    "KIP-429: Incremental Rebalance Protocol", "KIP-429: Kafka Consumer Incremental Rebalance Protocol", None
)
NEXT_PROTOCOL = Document(
    "KIP-848: The Next Generation of the Consumer Rebalance Protocol",
    "KIP-848: The Next Generation of the Consumer Rebalance Protocol",
    None,
)
_SEMANTICS = Source(DESIGN, "Message delivery semantics", "Message Delivery Semantics")
_EXACTLY_ONCE = "KIP-98: Exactly Once Delivery and Transactional Messaging"
EXACTLY_ONCE = Document(_EXACTLY_ONCE, _EXACTLY_ONCE, None)
PRODUCER_CONFIGS = Document('Kafka\'s documentation, "Producer Configs"', "Producer Configs", None)
_SERVER_SIDE_DEFENSE = "KIP-890: Transactions Server-Side Defense"
SERVER_SIDE_DEFENSE = Document(_SERVER_SIDE_DEFENSE, _SERVER_SIDE_DEFENSE, None)

_REPLICATION = Source(INTERNALS, "Kafka replication", "Kafka 리플리케이션")
_COMMIT = Source(INTERNALS, "Keeping replicas and committing", "복제 유지와 커밋")
_TOPIC_PARAMETERS = Source(RECOVERY, "Topic parameters", "Topic parameter")

_ENDING = Source(
    EXACTLY_ONCE, "Data flow: committing or aborting a transaction", "5. Committing or Aborting a Transaction"
)

_EPOCH_A = Source(INTERNALS, "Leader epoch and recovery: without leader epochs", "Leader Epoch 미사용시")
_EPOCH_B = Source(
    INTERNALS, "Leader epoch and recovery: replication is not complete", "리플리케이션 동작이 완료되지 않은 상태"
)

SOURCES = {
    "leader-only": Source(INTERNALS, "Leader and follower", "Leader와 Follower"),
    "replication-describe": _REPLICATION,
    "n-minus-1-failures": _REPLICATION,
    "isr-eviction": _COMMIT,
    "high-watermark-visibility": _COMMIT,
    "offset-checkpoint": Source(INTERNALS, "Committed messages", "커밋 메시지"),
    "ackless-replication": Source(INTERNALS, "How replication works", "리플리케이션 동작 방식"),
    "leader-epoch-A": _EPOCH_A,
    "leader-epoch-A-by-version": _EPOCH_A,
    "leader-epoch-B": _EPOCH_B,
    "leader-epoch-B-by-version": _EPOCH_B,
    "leader-epoch-checkpoint": Source(INTERNALS, "Leader epoch and recovery: practice", "실습"),
    "controller-failover": Source(INTERNALS, "Controller", "Controller"),
    "election-on-failure": Source(
        INTERNALS, "Controller: leader election after an unexpected failure", "리더 선출 과정 : 예기치 않은 장애"
    ),
    "controlled-shutdown": Source(
        INTERNALS, "Controller: leader election in a controlled shutdown", "리더 선출 과정: 제어된 종료 과정"
    ),
    "retention-delete": Source(INTERNALS, "Deleting log segments", "로그 세그먼트 삭제"),
    "compaction": Source(INTERNALS, "Compacting log segments", "로그 세그먼트 컴팩션"),
    "acks-all-recovery": Source(RECOVERY, "acks=all", "acks=all 인 경우"),
    "acks-1-recovery": Source(RECOVERY, "acks=1", "acks=1 인 경우"),
    "acks-0": Source(RECOVERY, "Introduction: why acks matters", "Replica Recovery"),
    "unclean-election": _TOPIC_PARAMETERS,
    "min-insync-replicas": _TOPIC_PARAMETERS,
    "no-loss-config": Source(RECOVERY, "How to lose no data", "데이터 유실이 없게 하려면?"),
    "availability-config": Source(
        RECOVERY, "How to stay available even if data is lost", "데이터 유실이 있더라도 가용성을 높게 하려면?"
    ),
    "leader-and-isr": Source(LEADER_AND_ISR, "LeaderAndIsr requests and responses", "LeaderAndIsr api 요청-응답 과정"),
    "leader-and-isr-errors": Source(LEADER_AND_ISR, "LeaderAndIsr Response", "LeaderAndIsr Response"),
    "split-brain": Source(
        LEADER_AND_ISR, "Split brain of a partition's leader", "Partition Leader와 관련된 Split brain 현상"
    ),
    "kraft-election": Source(KRAFT, "Process roles and controllers", "Configuration"),
    "kraft-zombie-leader": Source(KRAFT, "Process roles and controllers", "Configuration"),
    "quorum-majority-lost": Source(KRAFT, "Process roles and controllers", "Configuration"),
    "quorum-leader-cut": Source(QUORUM, "Leader progress timeout", "Leader Progress Timeout"),
    "elr-last-replica-standing": Source(ELIGIBLE, "Motivation: the last replica standing", "Motivation"),
    "unclean-shutdown": Source(ELIGIBLE, "Unclean shutdown detection", "Proposed Changes"),
    "rolling-upgrade": Source(UPGRADING, "Upgrading KRaft-based clusters", "Upgrading to 4.x"),
    "migration": Source(MIGRATION, "Migration", "Proposed Changes"),
    "commit-after-processing": _SEMANTICS,
    "commit-before-processing": _SEMANTICS,
    "group-coordinator-failover": Source(IMPLEMENTATION, "Consumer offset tracking", "Consumer Offset Tracking"),
    "group-zombie-member": Source(SESSIONS, "Proposed changes", "Proposed Changes"),
    "group-static-member": Source(STATIC, "Proposed changes", "Proposed Changes"),
    "group-rebalance-eager-vs-cooperative": Source(INCREMENTAL, "Proposed changes", "Proposed Changes"),
    "group-consumer-protocol": Source(NEXT_PROTOCOL, "Proposed changes", "Proposed Changes"),
    "txn-commit-abort": _ENDING,
    "txn-fencing": Source(EXACTLY_ONCE, "Data flow: getting a producer id", "2. Getting a producer Id"),
    "txn-coordinator-failover": _ENDING,
    "eos-loop-crash": Source(
        EXACTLY_ONCE, "Data flow: the consume-transform-produce loop", "4. The consume-transform-produce loop"
    ),
    "txn-timeout-abort": Source(PRODUCER_CONFIGS, "transaction.timeout.ms", "transaction.timeout.ms"),
    "txn-late-end": Source(SERVER_SIDE_DEFENSE, "Motivation", "Motivation"),
}
