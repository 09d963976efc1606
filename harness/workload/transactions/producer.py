"""One incarnation of a transactional producer, which puts its records and its transactions into the history.

Errors are handled as Kafka's documentation asks: a call with a retriable error is repeated, a transaction with an
abortable error is aborted, and after any other error the producer can't be used any more (`ProducerLost`): a new
producer under the same transactional id takes its place. No call is repeated once `give_up` says so.

The outcomes in the rows of `transactions/`:

| what the client said | outcome of the transaction |
| --- | --- |
| the commit succeeded | committed |
| the abort succeeded | aborted |
| neither, and no commit was ever asked for | aborted: nothing may ever commit it |
| neither, after a commit was asked for | info |

Sources: KIP-98; librdkafka's `rd_kafka_commit_transaction` and `rd_kafka_abort_transaction`, errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED, IN_DOUBT
from kafka_chaos.harness.workload.calls import Calls

if TYPE_CHECKING:
    # Members of loops, processes that come and go, are spared PyArrow and pydantic.
    from kafka_chaos.harness.workload.clients.produced import ProducedRows
    from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer

_BACKOFF = 0.05
_CALL_TIMEOUT = 0.2


AddRow = Callable[[dict[str, Any]], None]
"""Takes a row: `LoadTables.add` does, or the pipe to the process that writes it. Columns that it lacks are null."""


class TransactionRows:
    """The transactions of the producer of `records`: `rows` takes each once it has ended or is left behind.

    `number`: of the transaction that began last, counted from 0.
    """

    def __init__(self, records: ProducedRows, *, transactional_id: str, rows: AddRow) -> None:
        self.number = -1
        self._records = records
        self._producer: dict[str, Any] = {
            "lane": records.lane,
            "producer_id": records.producer_id,
            "transactional_id": transactional_id,
            "initialised_ns": None,
        }
        self._rows = rows
        self._open: dict[str, Any] | None = None
        self._commit_asked = False

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun whose row is not written."""
        return self._open is not None

    def note_initialised(self) -> None:
        """The producer has just fenced its predecessors under its transactional id."""
        self._producer["initialised_ns"] = time.monotonic_ns()

    def begins(self, begin_ns: int, number: int | None = None) -> None:
        """A transaction began at `begin_ns`, the next or that of this `number`: it holds what is sent from now on."""
        self.number = self.number + 1 if number is None else number
        self._records.in_transaction(self.number)
        self._commit_asked = False
        self._open = {**self._producer, "transaction": self.number, "begin_ns": begin_ns}

    def asks_for_commit(self) -> None:
        """The commit is about to be asked for: unless its end is learned, the transaction is in doubt from now on."""
        self._commit_asked = True

    def ends(self, outcome: str, cause: KafkaError | None = None) -> None:
        """The end of the transaction was acknowledged; `cause` is the error that made it an abort."""
        self._row(outcome, end_ns=time.monotonic_ns(), error=cause)

    def end_unconfirmed(self, error: KafkaError) -> None:
        """The end was refused for good, or is not asked for any more after an `error` that may be retried."""
        self._row(self._unknown, end_ns=None if error.retriable() else time.monotonic_ns(), error=error)

    def leave_open(self) -> None:
        """The transaction is left behind open."""
        self._row(self._unknown, end_ns=None, error=None)

    def add_row(self, row: dict[str, Any]) -> None:
        """The transaction has ended with this row, which the producer's own process has made."""
        self._rows(row)
        self._open = None

    @property
    def _unknown(self) -> str:
        """The outcome of a transaction whose end nobody confirmed."""
        return IN_DOUBT if self._commit_asked else ABORTED

    def _row(self, outcome: str, *, end_ns: int | None, error: KafkaError | None) -> None:
        assert self._open is not None
        name = None if error is None else error.name()
        self.add_row({**self._open, "end_ns": end_ns, "outcome": outcome, "error": name})


class ProducerLost(Exception):
    """The producer can't go on: it was fenced, failed for good, or is not waited for any longer."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(error.name())


class TransactionalProducer:
    """An incarnation of `transactional_id`; its records are sent by `records`. It belongs to one thread.

    `rows` takes a row for every transaction that has ended, or that is left behind open. `give_up` says whether calls
    should not be repeated any more. `calls` notes those that take long. `transactions`: those that began so far.
    """

    def __init__(
        self,
        records: LaneProducer,
        *,
        transactional_id: str,
        rows: AddRow,
        give_up: Callable[[], bool],
        calls: Calls | None = None,
    ) -> None:
        self.records = records
        self._calls = calls or Calls()
        self._id = transactional_id
        self.transactions = TransactionRows(records.rows, transactional_id=transactional_id, rows=rows)
        self._give_up = give_up
        self._is_unsettled = False

    def init(self) -> None:
        """Fence former incarnations and end their transaction; raises `ProducerLost`."""
        self._insist(self.records.client.init_transactions)
        self.transactions.note_initialised()

    def begin(self) -> None:
        """Begin the next transaction; raises `ProducerLost`."""
        begin_ns = time.monotonic_ns()
        self._once(self.records.client.begin_transaction)
        self.transactions.begins(begin_ns)

    def send(self, count: int) -> None:
        """Send `count` records within the transaction, as soon as the client's queue has room for them."""
        with self._calls.awaiting(self.records.lane, self._id, "send"):
            while count and not self._give_up():
                accepted = self.records.send(count)
                count -= accepted
                if count:
                    self.records.poll(_BACKOFF)

    def deliver(self, timeout: float) -> None:
        """Wait until the records sent have an outcome, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.records.unanswered and time.monotonic() < deadline and not self._give_up():
            self.records.poll(_BACKOFF)

    def send_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        """Commit a group's offsets with the transaction; `group` is the consumer's metadata. Raises `ProducerLost`."""
        self._insist(self.records.client.send_offsets_to_transaction, offsets, group)

    def commit(self) -> str:
        """Commit the transaction, or abort it if the commit's error asks for that; returns its outcome.

        Raises `ProducerLost`, after the transaction has its row.
        """
        self.transactions.asks_for_commit()
        try:
            self._insist(self.records.client.commit_transaction)
        except ProducerLost as lost:
            if not lost.error.txn_requires_abort():
                self._lost(lost)
                raise
            return self.abort(lost.error)
        self.transactions.ends(COMMITTED)
        return COMMITTED

    def abort(self, cause: KafkaError | None = None) -> str:
        """Abort the transaction, for `cause` if there is one; returns its outcome.

        Raises `ProducerLost`, after the transaction has its row.
        """
        try:
            self._insist(self.records.client.abort_transaction)
        except ProducerLost as lost:
            self._lost(lost)
            raise
        self.transactions.ends(ABORTED, cause)
        return ABORTED

    def abandon(self) -> None:
        """End as a killed process does, an open transaction left behind."""
        if self.transactions.is_open:
            self.transactions.leave_open()
            self._is_unsettled = True
        self.records.abandon(open_transaction=self._is_unsettled)

    def _once(self, call: Callable[..., object], *values: object) -> None:
        try:
            call(*values)
        except KafkaException as failure:
            raise ProducerLost(failure.args[0]) from failure

    def _insist(self, call: Callable[..., object], *values: object) -> None:
        """Repeat a call of the transactional API until it succeeds, fails for good, or `give_up` says so.

        A call that was given up has no answer.
        """
        number = self._calls.begins(self.records.lane, self._id, call.__name__)
        while True:
            try:
                self._once(call, *values, _CALL_TIMEOUT)
                return self._calls.ends(number)
            except ProducerLost as lost:
                if not lost.error.retriable():
                    self._calls.ends(number)
                    raise
                if self._give_up():
                    raise
            self.records.poll(_BACKOFF)

    def _lost(self, lost: ProducerLost) -> None:
        self._is_unsettled = not lost.error.fatal()
        self.transactions.end_unconfirmed(lost.error)
