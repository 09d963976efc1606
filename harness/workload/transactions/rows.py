"""A producer's transactions and their outcomes, as rows of `transactions/`.

| what the client said | outcome of the transaction |
| --- | --- |
| the commit succeeded | committed |
| the abort succeeded | aborted |
| neither, and no commit was ever asked for | aborted: nothing may ever commit it |
| neither, after a commit was asked for | info |

Sources: KIP-98; librdkafka's `rd_kafka_commit_transaction` and `rd_kafka_abort_transaction`, errors.
"""

import time
from typing import Any, Protocol

from confluent_kafka import KafkaError

from kafka_chaos.contract.lane.transactions import ABORTED, IN_DOUBT


class Rows(Protocol):
    """The destination of rows: a `RowBuffer`, or the pipe to the process that writes them."""

    def add(self, row: dict[str, Any]) -> None:
        """Take a row; columns that it lacks are null."""


class TransactionRows:
    """The transactions of one producer, one after the other. `rows` takes each once it has ended or is left behind."""

    def __init__(self, *, lane: str, producer_id: int, transactional_id: str, rows: Rows) -> None:
        self._producer: dict[str, Any] = {
            "lane": lane,
            "producer_id": producer_id,
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

    def is_initialised(self) -> None:
        """The producer has just fenced those before it under its transactional id."""
        self._producer["initialised_ns"] = time.monotonic_ns()

    def begins(self, number: int, begin_ns: int) -> None:
        """The transaction of this number began at `begin_ns`."""
        self._commit_asked = False
        self._open = {**self._producer, "transaction": number, "begin_ns": begin_ns}

    def asks_for_commit(self) -> None:
        """From now on, nobody can be certain that it is not committed, unless its end is learned."""
        self._commit_asked = True

    def ends(self, outcome: str, cause: KafkaError | None = None) -> None:
        """Its end was acknowledged; `cause` made it an abort."""
        self._row(outcome, end_ns=time.monotonic_ns(), error=cause)

    def fails(self, error: KafkaError) -> None:
        """Its end was refused for good, or is not asked for any more after an error that may be retried."""
        self._row(self._unknown, end_ns=None if error.retriable() else time.monotonic_ns(), error=error)

    def is_left(self) -> None:
        """It is left behind open."""
        self._row(self._unknown, end_ns=None, error=None)

    @property
    def _unknown(self) -> str:
        """The outcome of a transaction whose end nobody confirmed."""
        return IN_DOUBT if self._commit_asked else ABORTED

    def _row(self, outcome: str, *, end_ns: int | None, error: KafkaError | None) -> None:
        assert self._open is not None
        name = None if error is None else error.name()
        self._rows.add({**self._open, "end_ns": end_ns, "outcome": outcome, "error": name})
        self._open = None
