"""The rows of one producer's records, from the send to the table that is written, whatever drives the producer.

Guarantee: every record that was handed out has one row. An outcome of a record that was never handed out, or a second
one, raises `ProtocolBreach`.

A chunk of rows is freed once all its records have an outcome: the number of records in flight bounds the memory. The
writer's thread takes what is settled while others send and report, so a row's `complete_ns` is written last: it says
that the rest of the row is there.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_chaos.harness.workload.clients.outcome import Outcome
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.history.reservations import ReservedSeqs
from kafka_chaos.harness.workload.history.writer import PRODUCED_SCHEMA
from kafka_chaos.harness.workload.tables import LoadTables

CHUNK = 16_384
"""How many rows are allocated together."""

_UNKNOWN = -1
_OUTCOMES = [Outcome.OK, Outcome.FAIL, Outcome.INFO]
_OK, _INFO = _OUTCOMES.index(Outcome.OK), _OUTCOMES.index(Outcome.INFO)
Ints = npt.NDArray[np.int64]


class ProtocolBreach(Exception):
    """A client's report can't be true; the message says why."""


def _zeros() -> array[int]:
    return array("q", bytes(8 * CHUNK))


@dataclass(slots=True, eq=False)
class Chunk:
    """Rows of `CHUNK` consecutive seqs; `done` counts those that have an outcome, `is_written` marks those handed over.

    The columns hold what does not follow from the seq. A row is acknowledged if it has a completion time and is not in
    `outcomes`. `partition` and `sources` are filled where producers choose partitions, and in loops.
    """

    first_seq: int
    done: int = 0
    is_written: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(CHUNK, dtype=np.bool_))
    invoke_ns: array[int] = field(default_factory=_zeros)
    complete_ns: array[int] = field(default_factory=_zeros)
    offset: array[int] = field(default_factory=lambda: array("q", [_UNKNOWN]) * CHUNK)
    partition: dict[int, int] = field(default_factory=dict)
    sources: dict[int, Sequence[int]] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)

    def settled(self) -> Ints:
        """The rows that have an outcome and were not passed on."""
        return np.flatnonzero((view(self.complete_ns) != 0) & ~self.is_written)


class ProducedRows:
    """The records of one producer, counted from 0 on. Threads may share it.

    Without `partitions`, whoever sends gives the partition of each record, if it is known. `sent`: records handed out,
    `failed`: those that are certainly not written; `uncertain`: those that may or may not be, for want of an
    acknowledgement. `longest_gap_ns`: the longest time between two acknowledgements so far.
    """

    def __init__(
        self,
        tables: LoadTables,
        *,
        lane: str,
        producer_id: int,
        partitions: InTurn | None = None,
        transactional_id: object | None = None,
        reserves: bool = True,
    ) -> None:
        """`reserves`: seqs before they are sent; else the producer itself does."""
        self.lane = lane
        self.producer_id = producer_id
        self.partitions = partitions
        self.chunks: dict[int, Chunk] = {}
        self.sent = self.failed = self.uncertain = 0
        self.longest_gap_ns = 0
        self.lock = threading.RLock()
        self._last_ns = 0
        self._transactions: list[tuple[int, int]] = []
        self._writer = tables.produced
        self._freed = 0
        self._whole: list[pa.Table] = []
        self._reserved: ReservedSeqs | None = None
        if reserves:
            self._reserved = ReservedSeqs(
                tables.reservations, lane=lane, producer_id=producer_id, transactional_id=transactional_id
            )
        tables.produced.follow(self._take)

    @property
    def answered(self) -> int:
        """Records that have an outcome."""
        with self.lock:
            return self._freed + sum(chunk.done for chunk in list(self.chunks.values()))

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self.answered - self.failed - self.uncertain

    def in_transaction(self, number: int | None) -> None:
        """From the next record on, this transaction holds what is sent, or none."""
        with self.lock:
            self._transactions.append((self.sent, _UNKNOWN if number is None else number))

    def reserve(self, end: int) -> None:
        """Seqs below `end` are about to be sent."""
        if self._reserved is not None:
            self._reserved.up_to(end)

    def chunk_of(self, seq: int) -> Chunk:
        """The chunk of a record, which is made if there is none yet."""
        number = seq // CHUNK
        if number not in self.chunks:
            self.chunks[number] = Chunk(number * CHUNK)
        return self.chunks[number]

    def hand_out(
        self, count: int, *, ns: int | None = None, partition: Sequence[int] = (), sources: Sequence[Sequence[int]] = ()
    ) -> int:
        """The next records are about to be sent; returns the seq of the first.

        `sources`: in a loop, (producer_id, seq) of the input of each.
        """
        with self.lock:
            first = self.sent
            self.reserve(first + count)
            for chunk, rows in self._spans(first, count):
                view(chunk.invoke_ns)[rows] = time.monotonic_ns() if ns is None else ns
                at, numbers = chunk.first_seq + rows.start - first, range(rows.start, rows.stop)
                chunk.partition.update(zip(numbers, partition[at:], strict=False))
                chunk.sources.update(zip(numbers, sources[at:], strict=False))
            # Before anybody has the order to send, which may be answered at once.
            self.sent = first + count
        return first

    def take_back(self, first: int) -> None:
        """The records from this one on were not sent after all, and others get their seqs."""
        with self.lock:
            for chunk, rows in self._spans(first, self.sent - first):
                for row in range(rows.start, rows.stop):
                    chunk.partition.pop(row, None)
            self.sent = first

    def settle(self, seq: int, outcome: Outcome, error: str | None = None, *, offset: int | None = None) -> None:
        """A record has its outcome; `pass_on` is due where that was the last one of a chunk."""
        chunk, row, now = self.chunks[seq // CHUNK], seq % CHUNK, time.monotonic_ns()
        if outcome is Outcome.OK:
            if offset is not None:
                chunk.offset[row] = offset
            self._notes_gap(now, now)
        else:
            self._not_acknowledged(chunk, row, outcome, error)
        chunk.complete_ns[row] = now
        # After `failed` and `uncertain`, since the count of acknowledged records is derived from it.
        chunk.done += 1
        if chunk.done == CHUNK:
            self.is_done(seq)

    def learn(
        self,
        seqs: Ints,
        outcome: Outcome,
        *,
        offsets: Ints | None = None,
        error: str | None = None,
        ns: Ints | None = None,
    ) -> None:
        """These records have their outcome; an offset is -1 where it is not known. `ns`: when each was learned."""
        with self.lock:
            self._check(seqs)
            known_ns = np.full(len(seqs), time.monotonic_ns()) if ns is None else ns
            for number in np.unique(seqs // CHUNK).tolist():
                those, chunk = seqs // CHUNK == number, self.chunks[number]
                rows = seqs[those] % CHUNK
                if outcome is Outcome.OK:
                    if offsets is not None:
                        view(chunk.offset)[rows] = offsets[those]
                    self._notes_gap(int(known_ns[0]), int(known_ns[-1]))
                else:
                    for row in rows.tolist():
                        self._not_acknowledged(chunk, row, outcome, error)
                view(chunk.complete_ns)[rows] = known_ns[those]
                chunk.done += len(rows)
                if chunk.done == CHUNK:
                    self.is_done(chunk.first_seq)
        self.pass_on()

    def is_done(self, seq: int) -> None:
        """All records of this one's chunk have an outcome: it is ready to be passed on."""
        with self.lock:
            chunk = self.chunks.pop(seq // CHUNK)
            self._freed += CHUNK
            self._whole.append(self._table(chunk, chunk.settled()))

    def pass_on(self) -> None:
        """Pass on the chunks that are done; waits while the writer has too much to do.

        Not under the lock: the writer's thread, which takes it, too, may have to make room first.
        """
        while self._whole:
            with self.lock:
                tables, self._whole = self._whole, []
            for table in tables:
                self._writer.write(table)

    def write_rest(self, error: str | None = None) -> int:
        """Pass on all other rows, with an outcome or without, for no more will be sent.

        Returns how many have none: they are `info`, with this `error`.
        """
        with self.lock:
            left = self.sent - self.answered
            for number in sorted(self.chunks):
                chunk = self.chunks.pop(number)
                self._freed += chunk.done
                sent = max(0, min(CHUNK, self.sent - chunk.first_seq))
                if error is not None:
                    unsettled = np.flatnonzero(view(chunk.complete_ns)[:sent] == 0).tolist()
                    chunk.errors |= dict.fromkeys(unsettled, error)
                self._whole.append(self._table(chunk, np.flatnonzero(~chunk.is_written[:sent])))
        self.pass_on()
        return left

    def _spans(self, first: int, count: int) -> Iterator[tuple[Chunk, slice]]:
        """The chunks of these records, and the rows in each."""
        for seq in range(first - first % CHUNK, first + count, CHUNK):
            yield self.chunk_of(seq), slice(max(first - seq, 0), min(first + count - seq, CHUNK))

    def _check(self, seqs: Ints) -> None:
        for seq in seqs[(seqs < 0) | (seqs >= self.sent)].tolist():
            raise ProtocolBreach(f"an outcome of record {seq}, which it was not given")
        if len(np.unique(seqs)) < len(seqs):
            raise ProtocolBreach("two outcomes of one record")
        for number in np.unique(seqs // CHUNK).tolist():
            rows = seqs[seqs // CHUNK == number] % CHUNK
            chunk = self.chunks.get(number)
            if chunk is None or view(chunk.complete_ns)[rows].any():
                raise ProtocolBreach("a second outcome of a record")

    def _not_acknowledged(self, chunk: Chunk, row: int, outcome: Outcome, error: str | None) -> None:
        chunk.outcomes[row] = outcome
        if error is not None:
            chunk.errors[row] = error
        if outcome is Outcome.FAIL:
            self.failed += 1
        else:
            self.uncertain += 1

    def _notes_gap(self, first_ns: int, last_ns: int) -> None:
        if self._last_ns:
            self.longest_gap_ns = max(self.longest_gap_ns, first_ns - self._last_ns)
        self._last_ns = last_ns

    def _take(self) -> pa.Table | None:
        """What is settled by now, for the writer."""
        with self.lock:
            tables, self._whole = self._whole, []
            tables += [self._table(one, rows) for one in list(self.chunks.values()) if (rows := one.settled()).size]
            return pa.concat_tables(tables) if tables else None

    def _table(self, chunk: Chunk, rows: Ints) -> pa.Table:
        """These rows as a table of the history's schema; they then count as passed on."""
        chunk.is_written[rows] = True
        seqs, numbers = chunk.first_seq + rows, rows.tolist()
        complete_ns, offset = view(chunk.complete_ns)[rows], view(chunk.offset)[rows]
        outcome = np.where(complete_ns != 0, _OK, _INFO).astype(np.int8)
        for place, row in enumerate(numbers) if chunk.outcomes else ():
            if row in chunk.outcomes:
                outcome[place] = _OUTCOMES.index(chunk.outcomes[row])
        lanes = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [self.lane])
        columns = {
            "lane": lanes.cast(pa.string()),
            "producer_id": pa.array(np.full(len(rows), self.producer_id, np.int32)),
            "seq": pa.array(seqs),
            "offset": pa.array(offset, mask=offset == _UNKNOWN),
            "invoke_ns": pa.array(view(chunk.invoke_ns)[rows]),
            "complete_ns": pa.array(complete_ns, mask=complete_ns == 0),
            "outcome": pa.array(_OUTCOMES, pa.string()).take(pa.array(outcome)),
            "transaction": self._numbers(seqs),
        }
        if self.partitions is not None:
            columns["partition"] = pa.array(self.partitions.of(seqs))
        elif chunk.partition:
            columns["partition"] = pa.array([chunk.partition.get(row) for row in numbers], pa.int32())
        if chunk.errors:
            columns["error"] = pa.array([chunk.errors.get(row) for row in numbers], pa.string())
        if chunk.sources:
            for place, name in enumerate(("source_producer_id", "source_seq")):
                columns[name] = pa.array(
                    [chunk.sources[row][place] for row in numbers], PRODUCED_SCHEMA.field(name).type
                )
        fields = [(field, columns.get(field.name)) for field in PRODUCED_SCHEMA]
        return pa.Table.from_arrays(
            [pa.nulls(len(rows), field.type) if column is None else column for field, column in fields],
            schema=PRODUCED_SCHEMA,
        )

    def _numbers(self, seqs: Ints) -> pa.Array | None:
        """The number of each seq's transaction, null without any."""
        if not self._transactions:
            return None
        firsts, numbers = np.array([(0, _UNKNOWN), *self._transactions]).T
        found = numbers[np.searchsorted(firsts, seqs, side="right") - 1]
        return pa.array(found, mask=found == _UNKNOWN)


def view(column: array[int]) -> Ints:
    """A column of a chunk as an array of NumPy that shares its memory."""
    return np.frombuffer(column, dtype=np.int64)


def take_outcome(
    rows: ProducedRows,
    outcome: str,
    seq: list[int],
    offset: list[int | None] | None = None,
    error: str | None = None,
    ns: list[int] | None = None,
) -> None:
    """Take the event `outcome` of a process; `ns`: when it learned that of each record. Raises `ProtocolBreach`."""
    seqs, learned = whole_numbers("seq", seq), Outcome(outcome)
    if (error is None) != (learned is Outcome.OK):
        raise ProtocolBreach(f"the outcome {learned} {'with an' if error else 'without its'} error")
    offsets = None
    if offset is not None:
        offsets = whole_numbers("offset", [-1 if one is None else one for one in offset])
        given = offsets[np.array([one is not None for one in offset], dtype=np.bool_)]
        if len(offsets) != len(seqs) or (given < 0).any():
            raise ProtocolBreach("an offset for every seq, of at least 0 or null, was expected")
    known_ns = None if ns is None else whole_numbers("ns", ns)
    if known_ns is not None and len(known_ns) != len(seqs):
        raise ProtocolBreach("a time for every seq was expected")
    rows.learn(seqs, learned, offsets=offsets, error=error, ns=known_ns)


def whole_numbers(name: str, values: object) -> Ints:
    """A list of whole numbers out of an event; raises `ProtocolBreach` for anything else."""
    found = np.array(values if isinstance(values, list) else None)
    if found.ndim != 1 or (found.size and found.dtype.kind != "i"):
        raise ProtocolBreach(f"{name}: a list of whole numbers was expected")
    return found.astype(np.int64)
