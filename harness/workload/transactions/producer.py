"""One incarnation of a transactional producer: its records and its transactions are in the history.

Errors are handled as Kafka's documentation asks: what is retriable is asked again, what needs an abort is aborted, and
after anything else the producer can't be used any more (`ProducerLost`): a new one under the same transactional id
takes its place. No call waits on once `give_up` says so.

Sources: KIP-98; librdkafka's `rd_kafka_commit_transaction` and `rd_kafka_abort_transaction`, errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED
from kafka_chaos.harness.workload.clients.producers import LaneProducer, TransactionRecords
from kafka_chaos.harness.workload.transactions.rows import Rows, TransactionRows

_BACKOFF = 0.05
_CALL_TIMEOUT = 0.2


class ProducerLost(Exception):
    """The producer can't go on: it was fenced, failed for good, or the load gave up on it."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(error.name())


R = TypeVar("R", bound=TransactionRecords)
C = TypeVar("C", bound=LaneProducer)


class TransactionalProducer(Generic[R]):
    """An incarnation of `transactional_id`, whose records `records` sends. It belongs to one thread.

    `rows` takes a row for every transaction that has ended, or that is left behind open.
    """

    def __init__(self, records: R, *, transactional_id: str, rows: Rows, give_up: Callable[[], bool]) -> None:
        self.records = records
        self._transactions = TransactionRows(
            lane=records.lane, producer_id=records.producer_id, transactional_id=transactional_id, rows=rows
        )
        self._give_up = give_up
        self._is_unsettled = False

    def init(self) -> None:
        """Fence former incarnations and end their transaction; raises `ProducerLost`."""
        self._insist(self.records.client.init_transactions)
        self._transactions.is_initialised()

    def begin(self) -> None:
        """Begin the next transaction; raises `ProducerLost`."""
        begin_ns = time.monotonic_ns()
        self._once(self.records.client.begin_transaction)
        self._transactions.begins(self.records.transaction_begins(), begin_ns)

    def send(self: TransactionalProducer[C], count: int) -> None:
        """Send `count` records within the transaction, as the client's queue has room for them."""
        while count and not self._give_up():
            accepted = self.records.send(count)
            count -= accepted
            if count:
                self.records.poll(_BACKOFF)

    def deliver(self, timeout: float) -> None:
        """Wait until the records sent have an outcome, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while len(self.records.client) and time.monotonic() < deadline and not self._give_up():
            self.records.poll(_BACKOFF)

    def send_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        """Commit a group's offsets with the transaction; `group` is the consumer's metadata. Raises `ProducerLost`."""
        self._insist(self.records.client.send_offsets_to_transaction, offsets, group)

    def commit(self) -> str:
        """Commit the transaction, or abort it if the commit's error asks for that; returns its outcome.

        Raises `ProducerLost`, after the transaction has its row.
        """
        self._transactions.asks_for_commit()
        try:
            self._insist(self.records.client.commit_transaction)
        except ProducerLost as lost:
            if not lost.error.txn_requires_abort():
                self._lost(lost)
                raise
            return self.abort(lost.error)
        return self._ended(COMMITTED)

    def abort(self, cause: KafkaError | None = None) -> str:
        """Abort the transaction, for `cause` if there is one; returns its outcome.

        Raises `ProducerLost`, after the transaction has its row.
        """
        try:
            self._insist(self.records.client.abort_transaction)
        except ProducerLost as lost:
            self._lost(lost)
            raise
        return self._ended(ABORTED, cause)

    def abandon(self) -> int:
        """End as a killed process does, an open transaction left behind; returns how many records became info."""
        if self._transactions.is_open:
            self._transactions.is_left()
            self._is_unsettled = True
        return self.records.abandon(open_transaction=self._is_unsettled)

    def _once(self, call: Callable[..., object], *values: object) -> None:
        try:
            call(*values)
        except KafkaException as failure:
            raise ProducerLost(failure.args[0]) from failure

    def _insist(self, call: Callable[..., object], *values: object) -> None:
        """Call a function of the transactional API again until it succeeds, fails for good or it is time to give up."""
        while True:
            try:
                return self._once(call, *values, _CALL_TIMEOUT)
            except ProducerLost as lost:
                if not lost.error.retriable() or self._give_up():
                    raise
            self.records.poll(_BACKOFF)

    def _lost(self, lost: ProducerLost) -> None:
        self._is_unsettled = not lost.error.fatal()
        self._transactions.fails(lost.error)

    def _ended(self, outcome: str, cause: KafkaError | None = None) -> str:
        self._transactions.ends(outcome, cause)
        return outcome
