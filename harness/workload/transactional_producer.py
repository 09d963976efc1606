"""One incarnation of a transactional producer: its records and its transactions are in the history.

Errors are handled as Kafka's documentation asks: what is retriable is asked again, what needs an abort is aborted, and
after anything else the producer can't be used any more (`ProducerLost`): a new one under the same transactional id
takes its place. No call waits on once `give_up` says so.

| what the client said | outcome of the transaction |
| --- | --- |
| the commit succeeded | committed |
| the abort succeeded, asked for by the load or by an error of the commit | aborted |
| neither, and no commit was ever asked for | aborted: nothing may ever commit it |
| neither, after a commit was asked for | info |

Sources: KIP-98; librdkafka's `rd_kafka_commit_transaction` and `rd_kafka_abort_transaction`, errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.columns import TRANSACTIONS, arrow_schema
from kafka_chaos.contract.transactions import ABORTED, COMMITTED, IN_DOUBT
from kafka_chaos.harness.workload.history import FLUSH_INTERVAL, RowBuffer
from kafka_chaos.harness.workload.recorded_producer import RecordedProducer

TRANSACTIONS_SCHEMA = arrow_schema(TRANSACTIONS)
_BACKOFF = 0.05


class ProducerLost(Exception):
    """The producer can't go on: it was fenced, failed for good, or the load gave up on it."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(error.name())


class TransactionalProducer:
    """An incarnation of `transactional_id`, whose records `records` sends. It belongs to one thread.

    `rows` takes a row for every transaction that has ended, or that is left behind open.
    """

    def __init__(
        self, records: RecordedProducer, *, transactional_id: str, rows: RowBuffer, give_up: Callable[[], bool]
    ) -> None:
        self.records = records
        self.transactional_id = transactional_id
        self._rows = rows
        self._give_up = give_up
        self._open: dict[str, Any] | None = None
        self._commit_asked = False
        self._is_unsettled = False

    def init(self) -> None:
        """Fence former incarnations and end their transaction; raises `ProducerLost`."""
        self._insist(self.records.client.init_transactions)

    def begin(self) -> None:
        """Begin the next transaction; raises `ProducerLost`."""
        begin_ns = time.monotonic_ns()
        self._once(self.records.client.begin_transaction)
        self._commit_asked = False
        self._open = {
            "lane": self.records.lane,
            "producer_id": self.records.producer_id,
            "transaction": self.records.transaction_begins(),
            "transactional_id": self.transactional_id,
            "begin_ns": begin_ns,
        }

    def send(self, count: int) -> None:
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

    def commit(self) -> str:
        """Commit the transaction, or abort it if the commit's error asks for that; returns its outcome.

        Raises `ProducerLost`, after the transaction has its row.
        """
        self._commit_asked = True
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
        if self._open is not None:
            self._row(self._unknown, end_ns=None, error=None)
            self._is_unsettled = True
        return self.records.abandon(open_transaction=self._is_unsettled)

    def _once(self, call: Callable[..., object], *values: object) -> None:
        try:
            call(*values)
        except KafkaException as failure:
            raise ProducerLost(failure.args[0]) from failure

    def _insist(self, call: Callable[..., object]) -> None:
        """Call a function of the transactional API again until it succeeds, fails for good or it is time to give up."""
        while True:
            try:
                return self._once(call, FLUSH_INTERVAL)
            except ProducerLost as lost:
                if not lost.error.retriable() or self._give_up():
                    raise
            self.records.poll(_BACKOFF)

    @property
    def _unknown(self) -> str:
        """The outcome of a transaction whose end nobody confirmed."""
        return IN_DOUBT if self._commit_asked else ABORTED

    def _lost(self, lost: ProducerLost) -> None:
        self._is_unsettled = not lost.error.fatal()
        # A retriable error is the last of many, when the load gave up: the end was never learned.
        end_ns = None if lost.error.retriable() else time.monotonic_ns()
        self._row(self._unknown, end_ns=end_ns, error=lost.error.name())

    def _ended(self, outcome: str, cause: KafkaError | None = None) -> str:
        self._row(outcome, end_ns=time.monotonic_ns(), error=None if cause is None else cause.name())
        return outcome

    def _row(self, outcome: str, *, end_ns: int | None, error: str | None) -> None:
        assert self._open is not None
        self._rows.add({**self._open, "end_ns": end_ns, "outcome": outcome, "error": error})
        self._open = None
