"""One incarnation of a transactional producer, which puts its records and its transactions into the history.

An incarnation is one client under a transactional id, until it is lost. Errors are handled as Kafka's documentation
asks: a call with a retriable error is repeated, a transaction with an abortable error is aborted, and after any other
error the producer can't be used any more (`ProducerLost`). Then another incarnation has to replace it.

The outcomes in the rows of `transactions/`:

| what the client reported | outcome of the transaction |
| --- | --- |
| the commit succeeded | committed |
| the abort succeeded | aborted |
| neither, and no commit was ever asked for | aborted: nothing can commit it any more |
| neither, after a commit was asked for | info |

Sources: KIP-98; librdkafka's `rd_kafka_commit_transaction` and `rd_kafka_abort_transaction`, errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED, IN_DOUBT
from kafka_chaos.harness.workload.calls import Calls

if TYPE_CHECKING:
    # Processes of loops' members import this module, too: they come and go, and to import PyArrow takes long.
    from kafka_chaos.harness.workload.clients.produced import ProducedRows
    from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer

_BACKOFF_S = 0.05
_CALL_TIMEOUT_S = 0.2


class TransactionRows:
    """Makes the rows of one producer's transactions: each once the transaction has ended or is left open.

    `records`: the producer's records. `number`: of the transaction that began last, counted from 0.
    """

    def __init__(self, records: ProducedRows) -> None:
        self.number = -1
        self._records = records
        self._producer: dict[str, Any] = {
            "lane": records.lane,
            "producer_id": records.producer_id,
            "transactional_id": records.transactional_id,
            "initialised_ns": None,
        }
        self._open: dict[str, Any] | None = None
        self._commit_ns: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun whose row is not written."""
        return self._open is not None

    def note_initialised(self) -> None:
        """Note that the producer has just fenced its predecessors under its transactional id."""
        self._producer["initialised_ns"] = time.monotonic_ns()

    def note_begin(self, begin_ns: int, number: int | None = None) -> None:
        """Note that the next transaction, or transaction `number`, began at `begin_ns`; later records are in it."""
        self.number = self.number + 1 if number is None else number
        self._records.set_transaction(self.number)
        self._commit_ns = None
        self._open = {**self._producer, "transaction": self.number, "begin_ns": begin_ns}

    def note_commit_request(self, ns: int | None = None) -> None:
        """Note that the commit is asked for, now or from `ns` on: until it is answered, the transaction is in doubt."""
        if self._commit_ns is None:
            self._commit_ns = time.monotonic_ns() if ns is None else ns

    def note_end(self, outcome: str, cause: KafkaError | None = None) -> None:
        """Note that the end of the transaction was acknowledged; `cause`: the error that made it an abort, if any."""
        self._end(outcome, end_ns=time.monotonic_ns(), error=cause)

    def end_unconfirmed(self, error: KafkaError | None = None) -> None:
        """Note that no answer will confirm the end. The row has an `end_ns` only if `error` is not retriable."""
        stays_open = error is None or error.retriable()
        outcome = ABORTED if self._commit_ns is None else IN_DOUBT
        self._end(outcome, end_ns=None if stays_open else time.monotonic_ns(), error=error)

    def add_row(self, row: dict[str, Any]) -> None:
        """Add the row of the transaction, which has ended or is left open."""
        self._records.add_transaction({"commit_ns": self._commit_ns, **row})
        self._open = None

    def _end(self, outcome: str, *, end_ns: int | None, error: KafkaError | None) -> None:
        assert self._open is not None
        name = None if error is None else error.name()
        self.add_row({**self._open, "end_ns": end_ns, "outcome": outcome, "error": name})


class ProducerLost(Exception):
    """A call failed: `error` is retriable, asks for an abort (both are handled here), or ends the incarnation."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error
        super().__init__(error.name())


@dataclass(eq=False)
class TransactionalProducer:
    """An incarnation of a transactional id, whose records the producer `sender` sends. It belongs to one thread.

    Once `give_up` returns true, no call is repeated any more. `calls` notes calls that take long.
    """

    sender: LaneProducer
    _: KW_ONLY
    give_up: Callable[[], bool]
    calls: Calls = field(default_factory=Calls)
    _has_open_transaction: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.transactions = TransactionRows(self.sender.rows)
        self._id = str(self.sender.rows.transactional_id)

    def init(self) -> None:
        """Fence former incarnations and abort their open transaction; raises `ProducerLost`."""
        self._call_until_done(self.sender.client.init_transactions)
        self.transactions.note_initialised()

    def begin(self) -> None:
        """Begin the next transaction; raises `ProducerLost`."""
        begin_ns = time.monotonic_ns()
        self._call(self.sender.client.begin_transaction)
        self.transactions.note_begin(begin_ns)

    def send(self, count: int) -> None:
        """Send `count` records within the transaction, as soon as the client's queue has room for them."""
        with self.calls.awaiting(self.sender.lane, self._id, "send"):
            while count and not self.give_up():
                count -= self.sender.send(count)
                if count:
                    self.sender.poll(_BACKOFF_S)

    def deliver(self, timeout: float) -> None:
        """Wait until all records that were sent have an outcome, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.sender.unanswered and time.monotonic() < deadline and not self.give_up():
            self.sender.poll(_BACKOFF_S)

    def send_offsets(self, offsets: list[TopicPartition], group: Any) -> None:
        """Commit a group's offsets with the transaction; `group` is the consumer's metadata. Raises `ProducerLost`."""
        self._call_until_done(self.sender.client.send_offsets_to_transaction, offsets, group)

    def commit(self) -> str:
        """Commit the transaction, or abort it if the commit's error asks for that; returns its outcome.

        Raises `ProducerLost`, after the transaction has its row.
        """
        self.transactions.note_commit_request()
        try:
            self._call_until_done(self.sender.client.commit_transaction)
        except ProducerLost as lost:
            if not lost.error.txn_requires_abort():
                self._end_lost(lost)
                raise
            return self.abort(lost.error)
        self.transactions.note_end(COMMITTED)
        return COMMITTED

    def abort(self, cause: KafkaError | None = None) -> str:
        """Abort the transaction, for `cause` if there is one; returns its outcome.

        Raises `ProducerLost`, after the transaction has its row.
        """
        try:
            self._call_until_done(self.sender.client.abort_transaction)
        except ProducerLost as lost:
            self._end_lost(lost)
            raise
        self.transactions.note_end(ABORTED, cause)
        return ABORTED

    def abandon(self) -> None:
        """End as a killed process does, and leave an open transaction behind."""
        if self.transactions.is_open:
            self.transactions.end_unconfirmed()
            self._has_open_transaction = True
        self.sender.abandon(open_transaction=self._has_open_transaction)

    def _call(self, call: Callable[..., object], *values: object) -> None:
        try:
            call(*values)
        except KafkaException as failure:
            raise ProducerLost(failure.args[0]) from failure

    def _call_until_done(self, call: Callable[..., object], *values: object) -> None:
        """Repeat a call of the transactional API until it succeeds, fails for good, or `give_up` says so.

        A call that was given up stays without an end in `calls`.
        """
        number = self.calls.note_begin(self.sender.lane, self._id, call.__name__)
        while True:
            try:
                self._call(call, *values, _CALL_TIMEOUT_S)
                return self.calls.note_end(number)
            except ProducerLost as lost:
                if not lost.error.retriable():
                    self.calls.note_end(number)
                    raise
                if self.give_up():
                    raise
            self.sender.poll(_BACKOFF_S)

    def _end_lost(self, lost: ProducerLost) -> None:
        self._has_open_transaction = not lost.error.fatal()
        self.transactions.end_unconfirmed(lost.error)
