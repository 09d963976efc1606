"""Transactional producers of a scenario: each request on its own connection, repeated until its answer is final.

They are no client library: a scenario says which request comes next, also where a library would have given up. So each
answer is that of the brokers, and can be compared with the model's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from kafka_chaos.conformance.scenario.transactions.client import Producer, TransactionClient
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, CoordinatorKind, error_name
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import running_broker

PATIENCE = 40.0
"""Seconds within which a request must get an answer."""
GIVES_UP = 1.0
"""Seconds after which a producer gives up waiting for an answer, while a fault on a link holds its request."""
_ANSWER_TIMEOUT = 3.0

_AGAIN = frozenset(
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


@dataclass
class Producers:
    """All producers of an act; `known` has those that have begun, by name.

    If transactions commit offsets, they are those of `group` in partition 0 of the topic `source`. `offset_partition`
    stands for them: a `write` to this partition commits the offset that its record names.
    """

    cluster: Cluster
    topic: str
    bumps: bool
    group: str = ""
    source: str = ""
    offset_partition: int = -1
    known: dict[str, Producer] = field(default_factory=dict)

    def initialise(self, name: str, transactional_id: str, *, timeout_ms: int) -> None:
        """Begin a new incarnation of a producer, which gets its epoch."""
        producer = Producer(transactional_id, bumps=self.bumps)
        ask = partial(TransactionClient.initialise, producer=producer, timeout_ms=timeout_ms)
        self._succeeds(producer, ask, self._coordinator(transactional_id))
        self.known[name] = producer

    def write(self, name: str, record: str, partition: int) -> None:
        """Write a record of a transaction, or commit an offset of the group; first add its partition where needed."""
        producer = self.known[name]
        is_offset = partition == self.offset_partition
        if not self.bumps and partition not in producer.added and not self._add(producer, partition, is_offset):
            return
        sequence = producer.sent.get(partition, 0)

        def ask(client: TransactionClient) -> int:
            if is_offset:
                return client.commit_offset(producer, self.group, self.source, 0, int(record))
            return client.write(producer, self.topic, partition, record, sequence=sequence)

        address = self._coordinator(self.group, CoordinatorKind.GROUP) if is_offset else self._leader(partition)
        if self._succeeds(producer, ask, address, writes=True):
            producer.sent[partition] = sequence + 1

    def end(self, name: str, *, commit: bool) -> None:
        """Commit or abort a producer's transaction."""
        producer = self.known[name]
        ask = partial(TransactionClient.end, producer=producer, commit=commit)
        if self._succeeds(producer, ask, self._coordinator(producer.transactional_id)):
            producer.added.clear()
            if self.bumps:
                producer.sent.clear()

    def end_in_vain(self, name: str, *, commit: bool) -> None:
        """Send one EndTxn whose answer does not come: the producer gives up and closes the connection."""
        producer = self.known[name]
        address = self._coordinator(producer.transactional_id)()
        try:
            with TransactionClient(address) as client:
                # Connects, so that the short time-out concerns EndTxn alone.
                client.brokers()
                client.set_timeout(GIVES_UP)
                client.end(producer, commit=commit)
        except BrokerUnreachable:
            return
        raise ClusterFailure(f"{name} got an answer, though a fault should hold its request")

    def crash(self, name: str) -> None:
        """End a producer, which leaves its transaction open."""
        del self.known[name]

    def _add(self, producer: Producer, partition: int, is_offset: bool) -> bool:
        def ask(client: TransactionClient) -> int:
            if is_offset:
                return client.add_offsets(producer, self.group)
            return client.add_partition(producer, self.topic, partition)

        is_added = self._succeeds(producer, ask, self._coordinator(producer.transactional_id))
        if is_added:
            producer.added.add(partition)
        return is_added

    def _succeeds(
        self,
        producer: Producer,
        ask: Callable[[TransactionClient], int],
        address: Callable[[], str],
        *,
        writes: bool = False,
    ) -> bool:
        """Send a request until its answer is final, and return whether that was a success."""
        last = ""

        def is_final() -> bool:
            nonlocal last
            try:
                with TransactionClient(address()) as client:
                    client.set_timeout(PATIENCE / 2)
                    last = error_name(ask(client))
            except (BrokerUnreachable, ClusterFailure) as error:
                last = str(error)
                return False
            return last not in _AGAIN

        wait_until(is_final, "a producer's request to be answered", timeout=PATIENCE, seen=lambda: last)
        producer.error, producer.reply = last, meaning(last, writes=writes)
        return last == error_name(NONE)

    def _coordinator(self, key: str, kind: CoordinatorKind = CoordinatorKind.TRANSACTION) -> Callable[[], str]:
        return lambda: self.cluster.addresses[coordinator_of(self.cluster, key, kind)]

    def _leader(self, partition: int) -> Callable[[], str]:
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
    return _named(cluster, lambda client: client.coordinator(key, kind), f"no broker knows who coordinates {key}")


def await_coordinator(cluster: Cluster, key: str, kind: CoordinatorKind = CoordinatorKind.TRANSACTION) -> int:
    """The broker that `coordinator_of` finds, once it finds one."""
    found = partial(running_broker, cluster, lambda client: client.coordinator(key, kind), timeout=_ANSWER_TIMEOUT)
    return wait_until(found, "a coordinator", timeout=60)


def leader_of(cluster: Cluster, topic: str, partition: int) -> int:
    """The running broker that leads a partition, as brokers know it; raises `ClusterFailure` without one."""
    what = f"{topic}-{partition} has no leader"
    return _named(cluster, lambda client: client.metadata(topic, partition).leader, what)


def _named(cluster: Cluster, ask: Callable[[BrokerClient], int | None], failure: str) -> int:
    broker = running_broker(cluster, ask, timeout=_ANSWER_TIMEOUT)
    if broker is None:
        raise ClusterFailure(failure)
    return broker
