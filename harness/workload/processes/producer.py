"""A producer in a process of its own: the harness hands out identities, and the process says what became of each.

A record counts as sent from the moment it is handed out: the process may die before it says anything. Then the record
is `info`, as is every one without an outcome. An outcome of a record that was never handed out, or a second one, breaks
the protocol.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kafka_chaos.harness.workload.clients.chunk import CHUNK, Chunk, SentRows
from kafka_chaos.harness.workload.clients.defect_watch import Watch
from kafka_chaos.harness.workload.clients.outcome import Outcome
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.clients.producers import Acknowledged
from kafka_chaos.harness.workload.history.reservations import Reservations, ReservedSeqs
from kafka_chaos.harness.workload.history.writer import HistoryWriter
from kafka_chaos.harness.workload.processes.supervisor import ProtocolBreach, SupervisedProcess, Taker
from kafka_chaos.harness.workload.processes.transactions import ProcessTransactions

_MOST_UNANSWERED = 100_000
_TICK = 0.05
_LEAVES_WITHIN = 10.0

Start = Callable[[Taker], SupervisedProcess]
"""Starts a process whose events this taker gets."""


class ProcessProducer(Acknowledged):
    """One producer of one lane. `send`, `poll` and `finish` belong to one thread.

    Records go to the partitions in turn, as in `RecordedProducer`. `failed_for_good`: why it is given no more records.
    `watch` reads the lines of its log that it tells of; without, telling of any breaks the protocol.
    """

    def __init__(
        self,
        start: Start,
        *,
        lane: str,
        producer_id: int,
        partitions: InTurn,
        writer: HistoryWriter,
        reservations: Reservations,
        transactional_id: str | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__()
        self.lane = lane
        self.producer_id = producer_id
        self.sent = 0
        self.answered = 0
        self.flushed = 0
        self._rows = SentRows(lane, producer_id, partitions, writer)
        self._reserved = ReservedSeqs(
            reservations, lane=lane, producer_id=producer_id, transactional_id=transactional_id
        )
        self._watch = watch
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self.process = start(self)
        self.client = ProcessTransactions(self.process, lambda: self.unanswered, self._may_answer)

    @property
    def unanswered(self) -> int:
        """Records that have no outcome yet, of a process that can still say one."""
        return 0 if self._has_ended.is_set() else self.sent - self.answered

    @property
    def failed_for_good(self) -> str:
        """Why it sends no more; empty while it does."""
        return self.process.problem or ""

    def breaks(self, problem: str) -> None:
        """Something is wrong with it."""
        self.process.breaks(problem)

    def send(self, count: int) -> int:
        """Hand out up to `count` records, fewer if many are without an outcome. Returns how many."""
        count = min(count, _MOST_UNANSWERED - self.unanswered)
        if count <= 0 or self._has_ended.is_set():
            return 0
        first = self.sent
        self._reserved.up_to(first + count)
        now = time.monotonic_ns()
        with self._lock:
            for seq in range(first - first % CHUNK, first + count, CHUNK):
                rows = slice(max(first - seq, 0), first + count - seq)
                np.frombuffer(self._rows.chunk_of(seq).invoke_ns, dtype=np.int64)[rows] = now
            # Before it has the order, which it may answer at once.
            self.sent = first + count
        if not self.process.order("produce", first_seq=first, count=count):
            with self._lock:
                self.sent = first
            return 0
        return count

    def poll(self, timeout: float) -> int:
        """Wait for `timeout` seconds, and pass on rows when due."""
        self._has_ended.wait(timeout)
        with self._lock:
            self._rows.flush_when_due()
        return 0

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds, and let the process end.

        Returns how many became info instead. A process that leaves records without an outcome has a problem.
        """
        deadline = time.monotonic() + timeout
        while self.unanswered and time.monotonic() < deadline and not cancelled.is_set():
            self.poll(_TICK)
        silent = self.unanswered
        if silent and not cancelled.is_set():
            self.breaks(f"{silent} of {self.sent} records never got an outcome")
        self.process.leaves(0.0 if cancelled.is_set() else _LEAVES_WITHIN)
        return self._write_rest()

    def _write_rest(self) -> int:
        with self._lock:
            self._rows.write_rest(self.sent)
        return self.sent - self.answered

    def transaction_begins(self) -> int:
        """From the next record on, a new transaction holds what is sent. Returns its number, counted from 0."""
        with self._lock:
            self._rows.transactions.append(self.sent)
            return len(self._rows.transactions) - 1

    def abandon(self, *, open_transaction: bool) -> int:
        """Kill it. Returns how many records became info. Writes the last rows: nothing is sent afterwards."""
        self.process.kill()
        self.process.join()
        return self._write_rest()

    def takes(self, kind: str, values: dict[str, Any]) -> None:
        """Take an event; see `Taker`."""
        if kind == "outcome":
            self._outcome(**values)
        elif kind == "flushed":
            if left := self.sent - self.answered:
                raise ProtocolBreach(f"said that it has flushed while {left} records had no outcome")
            self.flushed += 1
        elif kind == "transaction":
            self.client.answers(**values)
        elif kind == "log" and self._watch is not None:
            self._watch.reads(**values)
        else:
            raise ProtocolBreach(f"a producer has no event {kind!r}")

    def _may_answer(self) -> bool:
        return not (self._has_ended.is_set() or self.failed_for_good)

    def ends(self) -> None:
        """The process has ended."""
        self._has_ended.set()

    def _outcome(
        self, outcome: str, seq: list[int], offset: list[int | None] | None = None, error: str | None = None
    ) -> None:
        seqs = whole_numbers("seq", seq)
        learned = Outcome(outcome)
        if (error is None) != (learned is Outcome.OK):
            raise ProtocolBreach(f"the outcome {learned} {'with an' if error else 'without its'} error")
        offsets = None
        if offset is not None:
            offsets = whole_numbers("offset", [-1 if one is None else one for one in offset])
            given = offsets[np.array([one is not None for one in offset], dtype=np.bool_)]
            if len(offsets) != len(seqs) or (given < 0).any():
                raise ProtocolBreach("an offset for every seq, of at least 0 or null, was expected")
        with self._lock:
            self._check(seqs)
            for number in np.unique(seqs // CHUNK).tolist():
                those = seqs // CHUNK == number
                self._learn(number, seqs[those], None if offsets is None else offsets[those], learned, error)
            self.answered += len(seqs)

    def _check(self, seqs: npt.NDArray[np.int64]) -> None:
        """Raise `ProtocolBreach` unless each of these records was handed out and has no outcome yet."""
        for seq in seqs[(seqs < 0) | (seqs >= self.sent)].tolist():
            raise ProtocolBreach(f"an outcome of record {seq}, which it was not given")
        if len(np.unique(seqs)) < len(seqs):
            raise ProtocolBreach("two outcomes of one record")
        for number in np.unique(seqs // CHUNK).tolist():
            rows = seqs[seqs // CHUNK == number] % CHUNK
            chunk = self._rows.chunks.get(number)
            if chunk is None or _completed(chunk)[rows].any():
                raise ProtocolBreach("a second outcome of a record")

    def _learn(
        self,
        number: int,
        seqs: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64] | None,
        outcome: Outcome,
        error: str | None,
    ) -> None:
        chunk, rows = self._rows.chunks[number], seqs % CHUNK
        if outcome is Outcome.OK:
            now = time.monotonic_ns()
            _completed(chunk)[rows] = now
            if offsets is not None:
                np.frombuffer(chunk.offset, dtype=np.int64)[rows] = offsets
            chunk.done += len(rows)
            self.acknowledges(now, len(rows))
        else:
            for seq in seqs.tolist():
                self._rows.settle(seq, outcome, str(error))
        if chunk.done == CHUNK:
            self._rows.is_done(int(seqs[0]))


def whole_numbers(name: str, values: object) -> npt.NDArray[np.int64]:
    """A list of whole numbers out of an event; raises `ProtocolBreach` for anything else."""
    found = np.array(values if isinstance(values, list) else None)
    if found.ndim != 1 or (found.size and found.dtype.kind != "i"):
        raise ProtocolBreach(f"{name}: a list of whole numbers was expected")
    return found.astype(np.int64)


def _completed(chunk: Chunk) -> npt.NDArray[np.int64]:
    return np.frombuffer(chunk.complete_ns, dtype=np.int64)
