"""The rows of a producer's consecutive records, from the send to the table that is written."""

from __future__ import annotations

import time
from array import array

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_chaos.harness.workload.clients.outcome import Outcome
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.history.writer import FLUSH_INTERVAL, PRODUCED_SCHEMA, HistoryWriter

CHUNK = 16_384
"""How many rows are allocated together."""

_UNKNOWN = -1
_OUTCOMES = [Outcome.OK, Outcome.FAIL, Outcome.INFO]
_OK, _INFO = _OUTCOMES.index(Outcome.OK), _OUTCOMES.index(Outcome.INFO)


class Chunk:
    """Rows of `CHUNK` consecutive seqs; `done` counts those that have an outcome, `is_written` marks those handed over.

    The columns hold what does not follow from the seq. A row is acknowledged if it has a completion time and is not in
    `outcomes`.
    """

    __slots__ = ("complete_ns", "done", "errors", "first_seq", "invoke_ns", "is_written", "offset", "outcomes")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.done = 0
        self.is_written = np.zeros(CHUNK, dtype=np.bool_)
        self.invoke_ns = array("q", bytes(8 * CHUNK))
        self.complete_ns = array("q", bytes(8 * CHUNK))
        self.offset = array("q", [_UNKNOWN]) * CHUNK
        self.outcomes: dict[int, Outcome] = {}
        self.errors: dict[int, str] = {}

    def settled(self) -> npt.NDArray[np.int64]:
        """The rows that have an outcome and were not passed on."""
        complete_ns = np.frombuffer(self.complete_ns, dtype=np.int64)
        return np.flatnonzero((complete_ns != 0) & ~self.is_written)

    def unwritten(self, rows: int) -> npt.NDArray[np.int64]:
        """Those of the first `rows` rows that were not passed on, with an outcome or without."""
        return np.flatnonzero(~self.is_written[:rows])

    def take(
        self, rows: npt.NDArray[np.int64], lane: str, producer_id: int, partitions: InTurn, transactions: array[int]
    ) -> pa.Table:
        """These rows as a table of the history's schema; they then count as passed on.

        `transactions`: the first seq of each transaction, empty for a producer without.
        """
        self.is_written[rows] = True
        seqs = self.first_seq + rows
        complete_ns = np.frombuffer(self.complete_ns, dtype=np.int64)[rows]
        offset = np.frombuffer(self.offset, dtype=np.int64)[rows]
        outcome = np.where(complete_ns != 0, _OK, _INFO).astype(np.int8)
        errors = pa.nulls(len(rows), pa.string())
        if self.outcomes:
            outcome = np.array([_OUTCOMES.index(self.outcomes.get(row, _OUTCOMES[code])) for row, code in
                                zip(rows.tolist(), outcome, strict=True)], np.int8)  # fmt: skip
            errors = pa.array([self.errors.get(row) for row in rows.tolist()], pa.string())
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [lane]).cast(pa.string()),
            pa.array(np.full(len(rows), producer_id, np.int32)),
            pa.array(seqs),
            pa.array(partitions.of(seqs)),
            pa.array(offset, mask=offset == _UNKNOWN),
            pa.array(np.frombuffer(self.invoke_ns, dtype=np.int64)[rows]),
            pa.array(complete_ns, mask=complete_ns == 0),
            pa.array(_OUTCOMES, pa.string()).take(pa.array(outcome)),
            errors,
            _numbers(seqs, transactions),
        ]
        return pa.Table.from_arrays(columns, schema=PRODUCED_SCHEMA)


class SentRows:
    """The rows of one producer's records, from 0 on, in chunks. It belongs to one thread but for `acknowledged`.

    `transactions`: the first seq of each transaction. `failed`: records that are certainly not written; `uncertain`:
    those that may or may not be, for want of an acknowledgement.
    """

    def __init__(self, lane: str, producer_id: int, partitions: InTurn, writer: HistoryWriter) -> None:
        self.chunks: dict[int, Chunk] = {}
        self.transactions = array("q")
        self.failed = 0
        self.uncertain = 0
        self._of = lane, producer_id, partitions
        self._writer = writer
        self._freed = 0
        self._flush_at = time.monotonic() + FLUSH_INTERVAL

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self._freed + sum(chunk.done for chunk in list(self.chunks.values())) - self.failed - self.uncertain

    def chunk_of(self, seq: int) -> Chunk:
        """The chunk of a record, which is made if there is none yet."""
        number = seq // CHUNK
        if number not in self.chunks:
            self.chunks[number] = Chunk(number * CHUNK)
        return self.chunks[number]

    def settle(self, seq: int, outcome: Outcome, error: str) -> None:
        """A record was not acknowledged."""
        chunk = self.chunks[seq // CHUNK]
        row = seq % CHUNK
        chunk.complete_ns[row] = time.monotonic_ns()
        chunk.outcomes[row] = outcome
        chunk.errors[row] = error
        if outcome is Outcome.FAIL:
            self.failed += 1
        else:
            self.uncertain += 1
        # Last, since the count of acknowledged records is derived from it.
        chunk.done += 1

    def is_done(self, seq: int) -> None:
        """All records of this one's chunk have an outcome."""
        chunk = self.chunks.pop(seq // CHUNK)
        self._freed += CHUNK
        self._write(chunk, chunk.settled())

    def flush_when_due(self) -> None:
        """Pass on the rows that have an outcome, `FLUSH_INTERVAL` after the last time."""
        if time.monotonic() >= self._flush_at:
            self._flush_at = time.monotonic() + FLUSH_INTERVAL
            for chunk in self.chunks.values():
                self._write(chunk, chunk.settled())

    def write_rest(self, sent: int) -> None:
        """Pass on all other rows, with an outcome or without: so many records were sent, and no more will be."""
        for number in sorted(self.chunks):
            chunk = self.chunks.pop(number)
            self._freed += chunk.done
            self._write(chunk, chunk.unwritten(max(0, min(CHUNK, sent - chunk.first_seq))))

    def _write(self, chunk: Chunk, rows: npt.NDArray[np.int64]) -> None:
        if rows.size:
            self._writer.write(chunk.take(rows, *self._of, self.transactions))


def _numbers(seqs: npt.NDArray[np.int64], transactions: array[int]) -> pa.Array:
    """The number of each seq's transaction, null without any."""
    if not transactions:
        return pa.nulls(len(seqs), pa.int64())
    return pa.array(np.searchsorted(np.array(transactions), seqs, side="right") - 1)
