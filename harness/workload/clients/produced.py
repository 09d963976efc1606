"""The rows of one producer's records, from the send to the table that is written, whatever drives the producer.

Guarantee: every record that was handed out to be sent has one row. `ProtocolBreach` is raised for the outcome of a
record that was never handed out, and for a second outcome.

A record with an outcome is kept until the writer's thread takes it, so that no row depends on what the producer does
next. Where much is kept, the thread that learns the next outcome passes all on, and waits while the writer has too much
to do: the records in flight bound the memory.
"""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_chaos.harness.workload.client_process import ProtocolBreach, whole_numbers
from kafka_chaos.harness.workload.clients.outcome import Outcome
from kafka_chaos.harness.workload.clients.partitions import InTurn
from kafka_chaos.harness.workload.history.reservations import ReservedSeqs
from kafka_chaos.harness.workload.history.writer import PRODUCED_SCHEMA
from kafka_chaos.harness.workload.tables import LoadTables

MOST_KEPT = 16_384
"""Rows that wait for the writer to take them."""

_UNKNOWN = -1
_NEVER = 0
_ROW = Struct("=4q")
"""seq, invoke_ns, complete_ns or `_NEVER`, offset or `_UNKNOWN`: packed, since NumPy then reads the columns at once."""


class ProducedRows:
    """The records of one producer, numbered from 0 by their `seq`. Threads may share it.

    Without `partitions`, the sender gives the partition of each record, if it knows it. `sent`: the number of records
    handed out; `pending`: by seq, when each record without an outcome was handed out; `acknowledged`: the number with
    the outcome `ok`. `longest_gap_ns`: the longest time between two acknowledgements so far.
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
        """`reserves`: whether to reserve seqs before they are sent; a producer that does so itself needs no other."""
        self.lane = lane
        self.producer_id = producer_id
        self.partitions = partitions
        self.pending: dict[int, int] = {}
        self.sent = self.acknowledged = 0
        self.longest_gap_ns = 0
        self.lock = threading.RLock()
        self._transactions: list[tuple[int, int]] = []
        self._rows = bytearray()
        # By seq, what only some records have.
        self._partitions: dict[int, int] = {}
        self._sources: dict[int, Sequence[int]] = {}
        self._refused: dict[int, tuple[Outcome, str | None]] = {}
        self._writer = tables.produced
        self._taking = threading.Lock()
        self.acknowledge = self._acknowledging()
        self._reserved: ReservedSeqs | None = None
        if reserves:
            self._reserved = ReservedSeqs(
                tables.reservations, lane=lane, producer_id=producer_id, transactional_id=transactional_id
            )
        tables.produced.follow(self._take)

    def in_transaction(self, number: int | None) -> None:
        """Set the transaction that holds what is sent from now on; None: no transaction."""
        with self.lock:
            self._transactions.append((self.sent, _UNKNOWN if number is None else number))

    def hand_out(
        self, count: int, *, ns: int | None = None, partition: Sequence[int] = (), sources: Sequence[Sequence[int]] = ()
    ) -> int:
        """Count the next records as sent at `ns`, or now; returns the seq of the first.

        `partition`: of each, where it is known; `sources`: in a loop, (producer_id, seq) of the input of each.
        """
        with self.lock:
            first = self.sent
            if self._reserved is not None:
                self._reserved.up_to(first + count)
            seqs = range(first, first + count)
            self._partitions.update(zip(seqs, partition, strict=False))
            self._sources.update(zip(seqs, sources, strict=False))
            self.pending.update(zip(seqs, repeat(time.monotonic_ns() if ns is None else ns), strict=False))
            # Before the order to send is given, which may be answered at once.
            self.sent = first + count
        return first

    def take_back(self, first: int) -> None:
        """Take back the records from seq `first` on, which were not sent after all: others get their seqs."""
        with self.lock:
            for seq in range(first, self.sent):
                del self.pending[seq]
                self._partitions.pop(seq, None)
                self._sources.pop(seq, None)
            self.sent = first

    def settle(
        self,
        seq: int,
        outcome: Outcome,
        error: str | None = None,
        *,
        offset: int | None = None,
        partition: int | None = None,
        ns: int | None = None,
    ) -> None:
        """Note the outcome of a record, learned at `ns` or now; its `partition`, where it was not known before."""
        if partition is not None:
            self._partitions[seq] = partition
        if outcome is Outcome.OK:
            self.acknowledge(seq, offset, ns)
            return
        self._refused[seq] = outcome, error
        self._rows += _ROW.pack(seq, self.pending.pop(seq), ns or time.monotonic_ns(), _UNKNOWN)

    def _acknowledging(self) -> Callable[..., None]:
        """The function that takes each acknowledgement: its seq, and its offset and time as in `settle`.

        It uses local variables: the speed of the load depends on these few lines.
        """
        rows, add, pack, pop, now_ns = self._rows, self._rows.extend, _ROW.pack, self.pending.pop, time.monotonic_ns
        last_ns, longest_ns, most = 0, 0, MOST_KEPT * _ROW.size

        def acknowledge(seq: int, offset: int | None, ns: int | None = None) -> None:
            nonlocal last_ns, longest_ns
            ns = ns or now_ns()
            add(pack(seq, pop(seq), ns, _UNKNOWN if offset is None else offset))
            self.acknowledged += 1
            if ns - last_ns > longest_ns:
                self.longest_gap_ns = longest_ns = ns - last_ns if last_ns else 0
            last_ns = ns
            if len(rows) >= most:
                self._pass_on()

        return acknowledge

    def takes_outcomes(
        self,
        outcome: str,
        seq: list[int],
        offset: list[int | None] | None = None,
        error: str | None = None,
        ns: list[int] | None = None,
    ) -> None:
        """Take the event `outcome` of a process; `ns`: when it learned each outcome. Raises `ProtocolBreach`."""
        seqs, learned = whole_numbers("seq", seq), Outcome(outcome)
        if (error is None) != (learned is Outcome.OK):
            raise ProtocolBreach(f"the outcome {learned} {'with an' if error else 'without its'} error")
        offsets: list[int | None] = [None] * len(seqs) if offset is None else offset
        least = min(whole_numbers("offset", [at for at in offsets if at is not None]), default=0)
        if len(offsets) != len(seqs) or least < 0:
            raise ProtocolBreach("an offset for every seq, of at least 0 or null, was expected")
        learned_ns = [None] * len(seqs) if ns is None else whole_numbers("ns", ns)
        if len(learned_ns) != len(seqs):
            raise ProtocolBreach("a time for every seq was expected")
        with self.lock:
            if len(named := set(seqs)) < len(seqs):
                raise ProtocolBreach("two outcomes of one record")
            for number in named - self.pending.keys():
                if not 0 <= number < self.sent:
                    raise ProtocolBreach(f"an outcome of record {number}, which it was not given")
                raise ProtocolBreach("a second outcome of a record")
            if learned is Outcome.OK and ns is None:
                self._acknowledge_all(seqs, offsets)
                return
            for number, at, known_ns in zip(seqs, offsets, learned_ns, strict=True):
                self.settle(number, learned, error, offset=at, ns=known_ns)

    def _acknowledge_all(self, seqs: list[int], offsets: list[int | None]) -> None:
        """Note many acknowledgements at one time, as fast clients tell them: only the first can end a gap."""
        rows = np.empty((len(seqs[1:]), 4), np.int64)
        rows[:, 0] = seqs[1:]
        rows[:, 1] = [self.pending.pop(seq) for seq in seqs[1:]]
        rows[:, 2] = time.monotonic_ns()
        rows[:, 3] = [_UNKNOWN if offset is None else offset for offset in offsets[1:]]
        self._rows += rows.tobytes()
        self.acknowledged += len(rows)
        for seq, offset in zip(seqs[:1], offsets, strict=False):
            self.acknowledge(seq, offset)

    def write_rest(self, error: str | None = None) -> None:
        """Pass on all rows that are left, at the end; records without an outcome are `info`, with this `error`."""
        with self.lock:
            left = dict(self.pending)
            self.pending.clear()
        self._refused |= dict.fromkeys(left, (Outcome.INFO, error))
        for seq, invoke_ns in left.items():
            self._rows += _ROW.pack(seq, invoke_ns, _NEVER, _UNKNOWN)
        self._pass_on()

    def _pass_on(self) -> None:
        if (table := self._take()) is not None:
            self._writer.write(table)

    def _take(self) -> pa.Table | None:
        """The rows of all records with an outcome that were not taken yet.

        Not under `lock`: a sender that holds it may wait for room that the writer's thread makes by calling this.
        """
        with self._taking:
            rows = bytes(self._rows)
            # Others may have added to it meanwhile.
            del self._rows[: len(rows)]
        return self._table(rows) if rows else None

    def _table(self, rows: bytes) -> pa.Table:
        """These rows as a table of the history's schema."""
        seqs, invoke_ns, complete_ns, offset = np.frombuffer(rows, np.int64).reshape(-1, 4).T.copy()
        count = len(seqs)
        columns: dict[str, Any] = {
            "lane": pa.repeat(self.lane, count),
            "producer_id": pa.array(np.full(count, self.producer_id, np.int32)),
            "seq": pa.array(seqs),
            "offset": pa.array(offset, mask=offset == _UNKNOWN),
            "invoke_ns": pa.array(invoke_ns),
            "complete_ns": pa.array(complete_ns, mask=complete_ns == _NEVER),
            "outcome": pa.repeat(str(Outcome.OK), count),
        }
        if self._refused:
            ends = [self._refused.pop(seq, (Outcome.OK, None)) for seq in seqs.tolist()]
            columns["outcome"] = pa.array([str(outcome) for outcome, _ in ends])
            columns["error"] = pa.array([error for _, error in ends], pa.string())
        if self.partitions is not None:
            columns["partition"] = pa.array(self.partitions.of(seqs))
        elif self._partitions:
            columns["partition"] = pa.array([self._partitions.pop(seq, None) for seq in seqs.tolist()], pa.int32())
        if self._sources:
            for name, column in zip(
                ("source_producer_id", "source_seq"),
                zip(*[self._sources.pop(seq) for seq in seqs.tolist()], strict=True),
                strict=True,
            ):
                columns[name] = pa.array(column, PRODUCED_SCHEMA.field(name).type)
        if self._transactions:
            firsts, transactions = np.array([(0, _UNKNOWN), *self._transactions]).T
            held_by = transactions[np.searchsorted(firsts, seqs, side="right") - 1]
            columns["transaction"] = pa.array(held_by, mask=held_by == _UNKNOWN)
        return pa.Table.from_arrays(
            [columns.get(field.name, pa.nulls(count, field.type)) for field in PRODUCED_SCHEMA], schema=PRODUCED_SCHEMA
        )
