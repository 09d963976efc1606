"""Transactional producers of a scenario: each request on its own connection, repeated until its answer is final.

They use no client library: a scenario says which request comes next, even when a library would have given up. So each
answer comes from the brokers alone, and can be compared with the model's.

If a producer `bumps` its epoch, as Java clients of 4.0 and later do (KIP-890, part 2), the leader adds partitions to
the transaction, and every end of a transaction brings the next epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire import kafka_python as wire
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, BrokerUnreachable, CoordinatorKind, error_name
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import named_running_broker

# The versions of requests. A name with BUMPS: the version that producers with `bumps` send.
_INIT_PRODUCER_ID = 5
_ADD_PARTITIONS = 3
"""The last version that clients send. Brokers use later ones to ask whether a transaction is open (KIP-890)."""
_ADD_OFFSETS = 4
_PRODUCE, _PRODUCE_BUMPS = 11, 12
_END, _END_BUMPS = 4, 5
_COMMIT_OFFSETS, _COMMIT_OFFSETS_BUMPS = 4, 5
_OFFSET_FETCH = 7
_DESCRIBE = 0
_PRODUCE_TIMEOUT = 30.0  # seconds that the leader may wait for its followers

PATIENCE = 40.0
"""Seconds within which a request must get its final answer."""
GIVE_UP_AFTER = 1.0
"""Seconds after which a producer gives up waiting for an answer, while a fault on a link holds its request."""
_ANSWER_TIMEOUT = 3.0  # seconds that a broker may take to name a coordinator or a leader

_RETRIED_ERRORS = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "CONCURRENT_TRANSACTIONS",
    }
)
"""Answers after which producers send the same request again."""


@dataclass(slots=True)
class Producer:
    """One incarnation of a producer: its transactional id, with the producer id and epoch from its coordinator.

    `sent`: the number of records sent in this epoch, by partition. `added`: the partitions added to its transaction.
    `error`: Kafka's name of the last answer's error; `reply`: the meaning of that answer, in the model's words.
    """

    transactional_id: str
    bumps: bool = False
    id: int = -1
    epoch: int = -1
    sent: dict[int, int] = field(default_factory=dict)
    added: set[int] = field(default_factory=set)
    error: str = "NONE"
    reply: str = "OK"


class TransactionClient(BrokerClient):
    """A connection to a coordinator of transactions or groups, or to a leader. A returned int is an error code."""

    def initialise(self, producer: Producer, *, timeout_ms: int) -> int:
        """Send InitProducerId for a new incarnation, which gets its id and epoch from the answer."""
        identity = {"transactional_id": producer.transactional_id, "producer_id": -1, "producer_epoch": -1}
        answer = self.ask(wire.InitProducerIdRequest, _INIT_PRODUCER_ID, transaction_timeout_ms=timeout_ms, **identity)
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def add_partition(self, producer: Producer, topic: str, partition: int) -> int:
        """Send AddPartitionsToTxn: one partition joins the transaction."""
        entry = wire.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[partition])
        identity = {f"v3_and_below_{name}": value for name, value in _identity(producer).items()}
        answer = self.ask(wire.AddPartitionsToTxnRequest, _ADD_PARTITIONS, v3_and_below_topics=[entry], **identity)
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def add_offsets(self, producer: Producer, group: str) -> int:
        """Send AddOffsetsToTxn: the partition of a group's offsets joins the transaction."""
        answer = self.ask(wire.AddOffsetsToTxnRequest, _ADD_OFFSETS, group_id=group, **_identity(producer))
        return int(answer.error_code)

    def write(self, producer: Producer, topic: str, partition: int, record: str, *, sequence: int) -> int:
        """Produce one record of a transaction with acks=all."""
        request = self._produce_request(
            topic,
            partition,
            record.encode(),
            acks="all",
            timeout=_PRODUCE_TIMEOUT,
            version=_PRODUCE_BUMPS if producer.bumps else _PRODUCE,
            transactional_id=producer.transactional_id,
            batch={
                "transactional": True,
                "producer_id": producer.id,
                "producer_epoch": producer.epoch,
                "base_sequence": sequence,
            },
        )
        return int(self.request(request).responses[0].partition_responses[0].error_code)

    def commit_offset(self, producer: Producer, group: str, topic: str, partition: int, offset: int) -> int:
        """Send TxnOffsetCommit: a group's offset becomes part of the transaction."""
        topic_type = wire.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        entry = topic_type.TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        version = _COMMIT_OFFSETS_BUMPS if producer.bumps else _COMMIT_OFFSETS
        fields = {"group_id": group, "topics": [topic_type(name=topic, partitions=[entry])], **_identity(producer)}
        answer = self.ask(wire.TxnOffsetCommitRequest, version, **fields)
        return int(answer.topics[0].partitions[0].error_code)

    def end(self, producer: Producer, *, commit: bool) -> int:
        """Send EndTxn, a commit or an abort. A producer that `bumps` goes on with the epoch of the answer."""
        version = _END_BUMPS if producer.bumps else _END
        answer = self.ask(wire.EndTxnRequest, version, committed=commit, **_identity(producer))
        if producer.bumps and answer.error_code == NONE:
            producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def describe_transaction(self, transactional_id: str) -> Any:
        """This coordinator's description of a transactional id (KIP-664), as DescribeTransactions answers it."""
        request = wire.DescribeTransactionsRequest(transactional_ids=[transactional_id], version=_DESCRIBE)
        return self.request(request).transaction_states[0]

    def group_offset(self, group: str, topic: str, *, stable: bool) -> tuple[int, int]:
        """The error, and a group's offset in partition 0 (−1: none). `stable`: a pending one is an error (KIP-447)."""
        entry = wire.OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        answer = self.ask(wire.OffsetFetchRequest, _OFFSET_FETCH, group_id=group, topics=[entry], require_stable=stable)
        if answer.error_code != NONE:
            return int(answer.error_code), -1
        partition = answer.topics[0].partitions[0]
        return int(partition.error_code), int(partition.committed_offset)


def _identity(producer: Producer) -> dict[str, Any]:
    """The fields of a request that say which incarnation of a producer sends it."""
    return {"transactional_id": producer.transactional_id, "producer_id": producer.id, "producer_epoch": producer.epoch}


@dataclass
class Producers:
    """All producers of an act; `by_name`: the producers that have begun.

    Transactions may commit the offset of `group` in partition 0 of the topic `source` (TxnOffsetCommit). To commit an
    offset, `write` it as a record to the pseudo partition `offset_partition`.
    """

    cluster: Cluster
    topic: str
    bumps: bool
    group: str = ""
    source: str = ""
    offset_partition: int = -1
    by_name: dict[str, Producer] = field(default_factory=dict)

    def initialise(self, name: str, transactional_id: str, *, timeout_ms: int) -> None:
        """Begin a new incarnation of a producer, which gets its epoch."""
        producer = Producer(transactional_id, bumps=self.bumps)
        ask = partial(TransactionClient.initialise, producer=producer, timeout_ms=timeout_ms)
        self._send_until_final(producer, ask, self._find_coordinator(transactional_id))
        self.by_name[name] = producer

    def write(self, name: str, record: str, partition: int) -> None:
        """Write a record of a transaction, or commit an offset of the group; first add the partition if necessary."""
        producer = self.by_name[name]
        is_offset = partition == self.offset_partition
        if not self.bumps and partition not in producer.added and not self._add(producer, partition, is_offset):
            return
        sequence = producer.sent.get(partition, 0)

        def ask(client: TransactionClient) -> int:
            if is_offset:
                return client.commit_offset(producer, self.group, self.source, 0, int(record))
            return client.write(producer, self.topic, partition, record, sequence=sequence)

        find = self._find_coordinator(self.group, CoordinatorKind.GROUP) if is_offset else self._find_leader(partition)
        if self._send_until_final(producer, ask, find, writes=True):
            producer.sent[partition] = sequence + 1

    def end(self, name: str, *, commit: bool) -> None:
        """Commit or abort a producer's transaction."""
        producer = self.by_name[name]
        ask = partial(TransactionClient.end, producer=producer, commit=commit)
        if self._send_until_final(producer, ask, self._find_coordinator(producer.transactional_id)):
            producer.added.clear()
            if self.bumps:
                producer.sent.clear()

    def end_in_vain(self, name: str, *, commit: bool) -> None:
        """Send one EndTxn whose answer does not come: the producer gives up and closes the connection."""
        producer = self.by_name[name]
        address = self.cluster.addresses[coordinator_of(self.cluster, producer.transactional_id)]
        try:
            with TransactionClient(address) as client:
                # Asks for the versions of requests first, so that the short time-out concerns EndTxn alone.
                client.brokers()
                client.set_timeout(GIVE_UP_AFTER)
                client.end(producer, commit=commit)
        except BrokerUnreachable:
            return
        raise ClusterFailure(f"{name} got an answer, though a fault should hold its request")

    def crash(self, name: str) -> None:
        """End a producer, which leaves its transaction open."""
        del self.by_name[name]

    def _add(self, producer: Producer, partition: int, is_offset: bool) -> bool:
        def ask(client: TransactionClient) -> int:
            if is_offset:
                return client.add_offsets(producer, self.group)
            return client.add_partition(producer, self.topic, partition)

        is_added = self._send_until_final(producer, ask, self._find_coordinator(producer.transactional_id))
        if is_added:
            producer.added.add(partition)
        return is_added

    def _send_until_final(
        self,
        producer: Producer,
        ask: Callable[[TransactionClient], int],
        find_address: Callable[[], str],
        *,
        writes: bool = False,
    ) -> bool:
        """Send a request until its answer is final, and return whether the answer is a success."""
        last_error = ""

        def is_final() -> bool:
            nonlocal last_error
            try:
                with TransactionClient(find_address()) as client:
                    client.set_timeout(PATIENCE / 2)
                    last_error = error_name(ask(client))
            except (BrokerUnreachable, ClusterFailure) as error:
                last_error = str(error)
                return False
            return last_error not in _RETRIED_ERRORS

        wait_until(is_final, "a producer's request to be answered", timeout=PATIENCE, seen=lambda: last_error)
        producer.error, producer.reply = last_error, meaning(last_error, writes=writes)
        return last_error == error_name(NONE)

    def _find_coordinator(self, key: str, kind: CoordinatorKind = CoordinatorKind.TRANSACTION) -> Callable[[], str]:
        return lambda: self.cluster.addresses[coordinator_of(self.cluster, key, kind)]

    def _find_leader(self, partition: int) -> Callable[[], str]:
        return lambda: self.cluster.addresses[leader_of(self.cluster, self.topic, partition)]


def meaning(error: str, *, writes: bool) -> str:
    """The meaning of an answer's error for a producer, in the model's words; `writes`: whether it answers a write.

    A leader that finds no open transaction answers a write with INVALID_TXN_STATE if it does not know
    TRANSACTION_ABORTABLE (KIP-890).
    """
    if error == error_name(NONE):
        return "OK"
    if error == "INVALID_PRODUCER_EPOCH":
        return "PRODUCER_FENCED"
    return "TRANSACTION_ABORTABLE" if writes and error == "INVALID_TXN_STATE" else error


def coordinator_of(cluster: Cluster, key: str, kind: CoordinatorKind = CoordinatorKind.TRANSACTION) -> int:
    """The running broker that coordinates a transactional id or a group; raises `ClusterFailure` without one."""
    failure = f"no broker names a coordinator of {key}"
    return _find_broker(cluster, lambda client: client.coordinator(key, kind), failure)


def await_coordinator(cluster: Cluster, key: str, kind: CoordinatorKind = CoordinatorKind.TRANSACTION) -> int:
    """Wait until a running broker coordinates a transactional id or a group, and return it."""
    ask = partial(named_running_broker, cluster, lambda client: client.coordinator(key, kind), timeout=_ANSWER_TIMEOUT)
    return wait_until(ask, "a coordinator", timeout=60)


def leader_of(cluster: Cluster, topic: str, partition: int) -> int:
    """The running broker that leads a partition, as brokers know it; raises `ClusterFailure` without one."""
    failure = f"{topic}-{partition} has no leader"
    return _find_broker(cluster, lambda client: client.metadata(topic, partition).leader, failure)


def _find_broker(cluster: Cluster, ask: Callable[[BrokerClient], int | None], failure: str) -> int:
    broker = named_running_broker(cluster, ask, timeout=_ANSWER_TIMEOUT)
    if broker is None:
        raise ClusterFailure(failure)
    return broker
