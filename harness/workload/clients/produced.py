"""The rows of `produced/` that one producer's records get, whatever drives the producer.

Guarantee: every record that was handed out to be sent gets one row. `ProtocolBreach` is raised for the outcome of a
record that was never handed out, and for a second outcome.

Records with an outcome are kept until the writer's thread takes their rows. Once `MAX_KEPT` are kept, the thread that
learns the next outcome passes all to the writer, and waits while the writer's queue is full. That bounds the memory.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_chaos.harness.workload.client_process import ProtocolBreach, whole_numbers
from kafka_chaos.harness.workload.clients.outcome import Outcome
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.history.reservations import ReservedSeqs
from kafka_chaos.harness.workload.history.writer import PRODUCED_SCHEMA
from kafka_chaos.harness.workload.tables import LoadTables

MAX_KEPT = 16_384
VALUES_PER_KEY = 5
"""How often a producer writes a key in a partition before it goes on to others. Compaction keeps the last record of a
key only: if a key were written for ever, losses before the key's last record would look like compaction."""
_GOLDEN_RATIO = 0.6180339887498949
"""Multiples of this number, modulo 1, are spread evenly, whatever the number of keys."""
_ABSENT = -1
_NEVER = 0
_ROW = Struct("=4q")
"""seq, invoke_ns, complete_ns or `_NEVER`, offset or `_ABSENT`: packed, since NumPy then reads the columns at once."""


def key_of(seq: int, *, keys: int, tombstones: float, partitions: int) -> tuple[str, bool]:
    """The key of the harness's record `seq`, and whether that is a tombstone. A partition has `keys` keys at a time."""
    number = seq // partitions
    key = number // (keys * VALUES_PER_KEY) * keys + number % keys
    return str(key), seq * _GOLDEN_RATIO % 1 < tombstones


class ProducedRows:
    """The records of one producer, numbered from 0 by their `seq`, and their outcomes. Threads may share it.

    `partitions` says to which partition each record goes; without it, the sender gives the partition where it knows it.
    `keys` returns a record's key by its `seq`, and whether the record is a tombstone. It is called when the record is
    sent, and for the last time when its row is made.
    `add_transaction` adds the row of a transaction of the producer, whose missing columns are null.
    `sent`: the number of records handed out; `pending`: by seq, when each record without an outcome was handed out;
    `acknowledged`: the number with the outcome `ok`. `longest_gap_ns`: the longest time between two acknowledgements.
    """

    def __init__(
        self,
        tables: LoadTables,
        *,
        lane: str,
        producer_id: int,
        partitions: RoundRobin | None = None,
        transactional_id: Any = None,
        reserves: bool = True,
        keys: Callable[[int], tuple[str | None, bool]] | None = None,
    ) -> None:
        """`reserves`: whether to note seqs in the journal before they are sent: not if the producer's process does."""
        self.lane = lane
        self.producer_id = producer_id
        self.partitions = partitions
        self.transactional_id = transactional_id
        self.add_transaction = partial(tables.add, "transactions")
        self.keys = keys
        self.pending: dict[int, int] = {}
        self.sent = self.acknowledged = 0
        self.longest_gap_ns = 0
        self.lock = threading.RLock()
        self._transactions: list[tuple[int, int]] = []  # (first seq, number of the transaction)
        self._rows = bytearray()
        # By seq, the columns of what only some records have, such as a loop's input or an outcome that is not ok.
        self._extras: dict[int, dict[str, Any]] = defaultdict(dict)
        self._writer = tables.produced
        self._take_lock = threading.Lock()
        self.acknowledge = self._acknowledge_function()
        self._reserved: ReservedSeqs | None = None
        if reserves:
            self._reserved = ReservedSeqs(
                tables.reservations, lane=lane, producer_id=producer_id, transactional_id=transactional_id
            )
        tables.produced.sources.append(self._take_rows)

    def set_transaction(self, number: int | None) -> None:
        """Note that records sent from now on are in the transaction of this number; None: in no transaction."""
        with self.lock:
            self._transactions.append((self.sent, _ABSENT if number is None else number))

    def hand_out(self, count: int, *, ns: int | None = None, extras: Iterable[dict[str, Any]] = ()) -> int:
        """Count the next `count` records as sent at `ns`, or now; returns the seq of the first.

        `extras`: each record's further columns, such as its partition if it is known.
        """
        with self.lock:
            first = self.sent
            if self._reserved is not None:
                self._reserved.reserve_up_to(first + count)
            seqs = range(first, first + count)
            self._extras.update(zip(seqs, extras, strict=False))
            self.pending.update(zip(seqs, repeat(time.monotonic_ns() if ns is None else ns), strict=False))
            # Set before the caller sends, since the outcome may come at once.
            self.sent = first + count
        return first

    def take_back(self, first: int) -> None:
        """Take back the records from seq `first` on, which were not sent after all: later records get their seqs."""
        with self.lock:
            for seq in range(first, self.sent):
                del self.pending[seq]
                self._extras.pop(seq, None)
            self.sent = first

    def note_outcome(
        self,
        seq: int,
        outcome: Outcome,
        error: str | None = None,
        *,
        offset: int | None = None,
        partition: int | None = None,
        ns: int | None = None,
    ) -> None:
        """Note the outcome of a record, learned at `ns` or now, and its `partition` if `hand_out` did not get it."""
        if partition is not None:
            self._extras[seq]["partition"] = partition
        if outcome is Outcome.OK:
            self.acknowledge(seq, offset, ns)
            return
        self._extras[seq] |= {"outcome": outcome, "error": error}
        self._rows += _ROW.pack(seq, self.pending.pop(seq), ns or time.monotonic_ns(), _ABSENT)

    def _acknowledge_function(self) -> Callable[..., None]:
        """The function that notes an acknowledgement: its seq, and its offset and time as in `note_outcome`.

        It is a closure with local variables, which are faster than attributes: it runs once for every record.
        """
        rows, add, pack, pop, now_ns = self._rows, self._rows.extend, _ROW.pack, self.pending.pop, time.monotonic_ns
        last_ns, longest_ns, max_bytes = 0, 0, MAX_KEPT * _ROW.size

        def acknowledge(seq: int, offset: int | None, ns: int | None = None) -> None:
            nonlocal last_ns, longest_ns
            ns = ns or now_ns()
            add(pack(seq, pop(seq), ns, _ABSENT if offset is None else offset))
            self.acknowledged += 1
            if last_ns and ns - last_ns > longest_ns:
                self.longest_gap_ns = longest_ns = ns - last_ns
            last_ns = ns
            if len(rows) >= max_bytes:
                self._pass_on()

        return acknowledge

    def handle_outcome(
        self,
        outcome: str,
        seq: list[int],
        offset: list[int | None] | None = None,
        error: str | None = None,
        ns: list[int] | None = None,
    ) -> None:
        """Handle the event `outcome` of a process; `ns`: when it learned each outcome. Raises `ProtocolBreach`."""
        seqs, result = whole_numbers("seq", seq), Outcome(outcome)
        if (error is None) != (result is Outcome.OK):
            raise ProtocolBreach(f"the outcome {result} {'with an' if error else 'without its'} error")
        offsets: list[int | None] = [None] * len(seqs) if offset is None else offset
        lowest = min(whole_numbers("offset", [at for at in offsets if at is not None]), default=0)
        if len(offsets) != len(seqs) or lowest < 0:
            raise ProtocolBreach("an offset for every seq, of at least 0 or null, was expected")
        times_ns = [None] * len(seqs) if ns is None else whole_numbers("ns", ns)
        if len(times_ns) != len(seqs):
            raise ProtocolBreach("a time for every seq was expected")
        with self.lock:
            if len(distinct := set(seqs)) < len(seqs):
                raise ProtocolBreach("two outcomes of one record")
            for number in distinct - self.pending.keys():
                if not 0 <= number < self.sent:
                    raise ProtocolBreach(f"an outcome of record {number}, which it was not told to send")
                raise ProtocolBreach("a second outcome of a record")
            if result is Outcome.OK and ns is None:
                self._acknowledge_all(seqs, offsets)
                return
            for number, at, time_ns in zip(seqs, offsets, times_ns, strict=True):
                self.note_outcome(number, result, error, offset=at, ns=time_ns)

    def _acknowledge_all(self, seqs: list[int], offsets: list[int | None]) -> None:
        """Note many acknowledgements at one time, in one array: fast clients tell many in one event.

        Only the first goes through `acknowledge`, which measures the gap before it.
        """
        rows = np.empty((len(seqs[1:]), 4), np.int64)
        rows[:, 0] = seqs[1:]
        rows[:, 1] = [self.pending.pop(seq) for seq in seqs[1:]]
        rows[:, 2] = time.monotonic_ns()
        rows[:, 3] = [_ABSENT if offset is None else offset for offset in offsets[1:]]
        self._rows += rows.tobytes()
        self.acknowledged += len(rows)
        for seq, offset in zip(seqs[:1], offsets, strict=False):
            self.acknowledge(seq, offset)

    def write_rest(self, error: str | None = None) -> None:
        """Pass all remaining rows to the writer, at the end; records without an outcome become `info`, with `error`."""
        with self.lock:
            unanswered = dict(self.pending)
            self.pending.clear()
        for seq, invoke_ns in unanswered.items():
            self._extras[seq] |= {"outcome": Outcome.INFO, "error": error}
            self._rows += _ROW.pack(seq, invoke_ns, _NEVER, _ABSENT)
        self._pass_on()

    def _pass_on(self) -> None:
        if (table := self._take_rows()) is not None:
            self._writer.write(table)

    def _take_rows(self) -> pa.Table | None:
        """Take the rows of all records with an outcome; None if there are none.

        It does not take `lock`: a thread that holds `lock` may wait for room in the writer's queue, and it is the
        writer's thread that makes room, and calls this.
        """
        with self._take_lock:
            rows = bytes(self._rows)
            # Other threads may have added rows meanwhile, which are kept.
            del self._rows[: len(rows)]
        return self._table(rows) if rows else None

    def _table(self, rows: bytes) -> pa.Table:
        """These packed rows as a table of the schema of `produced/`."""
        seqs, invoke_ns, complete_ns, offset = np.frombuffer(rows, np.int64).reshape(-1, 4).T.copy()
        count = len(seqs)
        columns: dict[str, Any] = {
            "lane": pa.repeat(self.lane, count),
            "producer_id": pa.array(np.full(count, self.producer_id, np.int32)),
            "seq": pa.array(seqs),
            "offset": pa.array(offset, mask=offset == _ABSENT),
            "invoke_ns": pa.array(invoke_ns),
            "complete_ns": pa.array(complete_ns, mask=complete_ns == _NEVER),
            "outcome": pa.repeat(str(Outcome.OK), count),
        }
        if self.partitions is not None:
            columns["partition"] = pa.array(self.partitions.partitions_of(seqs))
        if self._extras:
            extras = [{"outcome": Outcome.OK, **self._extras.pop(seq, {})} for seq in seqs.tolist()]
            for name in set().union(*extras):
                columns[name] = pa.array([extra.get(name) for extra in extras], PRODUCED_SCHEMA.field(name).type)
        if self.keys is not None:
            keys, tombstones = zip(*map(self.keys, seqs.tolist()), strict=True)
            columns["key"] = pa.array(keys, pa.string())
            columns["tombstone"] = pa.array([*map(int, tombstones)], pa.int32())
        if self._transactions:
            # Each transaction holds the records from its first seq up to the first seq of the next.
            first_seqs, numbers = np.array([(0, _ABSENT), *self._transactions]).T
            transactions = numbers[np.searchsorted(first_seqs, seqs, side="right") - 1]
            columns["transaction"] = pa.array(transactions, mask=transactions == _ABSENT)
        return pa.Table.from_arrays(
            [columns.get(field.name, pa.nulls(count, field.type)) for field in PRODUCED_SCHEMA], schema=PRODUCED_SCHEMA
        )
