"""The rows of a lane's consumers: assignments, records read and commits, whichever client library reads.

In the history, the name of a consumer stands for one uninterrupted assignment: after a rebalance, a seek or a lost
position, the rows of what it reads have a new name. A consumer that dies leaves its assignments without an end, and
commits without an answer (`info`).
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import EventHandler, ProtocolBreach, SupervisedProcess, whole_numbers
from kafka_chaos.harness.workload.history.writer import CONSUMED_SCHEMA, READ_IN_TRANSACTION_SCHEMA
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker


class Readers:
    """One or several consumers that read `read_lane` together: how far they have read, and the wait for its end.

    `group_id`: the id of the consumers' group, if they form one.
    `consumed`: how many records were read so far. `process`: the process of a single consumer, if it has its own.
    `_worker`: the consumers' thread, if any. Safe for several threads.
    """

    process: SupervisedProcess | None = None
    _worker: Worker | None = None

    def __init__(self, load: LoadSettings, read_lane: LaneSpec, group_id: str | None = None) -> None:
        self.load, self.read_lane, self.group_id = load, read_lane, group_id
        self.consumed = 0
        self._positions: dict[int, tuple[object, int]] = {}  # By partition: its reader, and the next offset to read.
        self._lock = threading.Lock()

    @property
    def position(self) -> dict[int, int]:
        """The next offset to read, by partition."""
        with self._lock:
            return {partition: offset for partition, (_, offset) in self._positions.items()}

    def unread_partitions(self, end_offsets: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The partitions that were not read to their end, each with the next offset to read and the end offset."""
        position = {**dict.fromkeys(end_offsets, 0), **self.position}
        return {number: (position[number], end) for number, end in end_offsets.items() if position[number] < end}

    def count_read(self, records: int) -> None:
        """Add to the number of records read."""
        with self._lock:
            self.consumed += records

    def note_assigned(self) -> None:
        """Learn that a consumer was assigned partitions: a hook for groups, which does nothing here."""

    def note_positions(self, reader: object, offsets: Iterable[Sequence[int]]) -> None:
        """Note that `reader` has processed all records before these offsets: (partition, offset)."""
        with self._lock:
            self._positions.update({partition: (reader, offset) for partition, offset in offsets})

    def forget_positions(self, reader: object, partitions: Collection[int] | None = None) -> None:
        """Forget the positions of `reader` in these partitions, or in all: they are no longer assigned to it."""
        with self._lock:
            for partition, (owner, _) in list(self._positions.items()):
                if owner is reader and (partitions is None or partition in partitions):
                    del self._positions[partition]

    def processes(self) -> list[SupervisedProcess]:
        """The consumers that are processes of their own, for faults to hit."""
        return [] if self.process is None else [self.process]

    def begin_load(self) -> None:
        """Start what consumers do only under load, such as planned crashes: a hook, which does nothing here."""

    def raise_error(self) -> None:
        """Raise what went wrong with the consumers, if anything did."""
        if self._worker is not None:
            self._worker.raise_error()

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float) -> None:
        """Wait until all partitions are read to their end, at most `timeout` seconds, or until no more will be read.

        Unread records are reported, and the run goes on: the verdict says what can't be judged.
        """
        deadline = time.monotonic() + timeout
        while (unread := self.unread_partitions(end_offsets)) and time.monotonic() <= deadline and self.may_read_more():
            time.sleep(0.05)
        if unread:
            texts = [f"partition {number} was read up to offset {at} of {end}" for number, (at, end) in unread.items()]
            self.report_unread(f"did not reach the end: {', '.join(texts)}")

    def may_read_more(self) -> bool:
        """Whether the consumers may still read more; raises what went wrong with them."""
        self.raise_error()
        return self._worker is None or self._worker.is_alive()

    def close(self) -> None:
        """End the consumers at once, and write their last rows."""
        raise NotImplementedError

    def report_unread(self, problem: str) -> None:
        """Report that the consumers did not reach the end; `problem` says how far they have read."""
        raise NotImplementedError


class ConsumedRows(EventHandler):
    """Writes the rows of one consumer, from the events of its process or from method calls in this process.

    `readers` learns how far the consumer has read. Commits get rows only if the readers form a group. Assignments get
    rows only if `isolation`, the isolation level, is set. `on_change` is called when a member of a group freezes and
    thaws.
    """

    role = "a member of a group"

    def __init__(
        self, readers: Readers, *, isolation: str | None = None, on_change: Callable[[str], None] = lambda change: None
    ) -> None:
        load, lane = readers.load, readers.read_lane.lane
        self.lane = lane
        self.readers = readers
        self.last_ns = 0
        # By partition, the first offset of this run; empty for a new topic. Some clients also read what is before it.
        self._run_starts = load.start_offsets.get(lane, {})
        self._tables = load.tables
        self._isolation = isolation
        self._group_columns = {"lane": lane, "group": readers.group_id}
        self._on_change = on_change
        self._calls = load.calls
        self._lane_of_calls = lane  # The lane that its long calls hold up: for a loop, the one that it writes.
        self._assigned_rows: dict[tuple[str, int], dict[str, Any]] = {}
        # For each commit without an answer, by its number: the number of its call, and its rows.
        self._open_commits: dict[int, tuple[int, list[dict[str, Any]]]] = {}

    def note_end(self) -> None:
        """Learn that the consumer has ended: its assignments and commits that have no row yet get one."""
        self.readers.forget_positions(self)
        for row in self._assigned_rows.values():
            self._tables.add("assignments", row)
        self._assigned_rows = {}
        for number in list(self._open_commits):
            self._end_commit(number, {}, None, otherwise="info")

    def _handle_assigned(
        self, consumer: str, member: str, generation: int | None, partitions: Sequence[int], ns: int
    ) -> None:
        """Note that from `ns` on, the consumer has exactly these partitions, in the assignment named `consumer`."""
        self.readers.forget_positions(self)
        self.add_partitions(consumer, member, partitions, ns, generation)
        self.readers.note_assigned()

    def add_partitions(
        self, consumer: str, member: str, partitions: Sequence[int], ns: int, generation: int | None = None
    ) -> None:
        """Note that from `ns` on, the consumer also has these partitions, in the assignment named `consumer`."""
        if self._isolation is None:
            return
        named = {**self._group_columns, "consumer": consumer, "member": member, "generation": generation}
        rows: list[dict[str, Any]] = [
            {**named, "partition": number, "isolation": self._isolation, "start_ns": ns} for number in partitions
        ]
        self._assigned_rows |= {(consumer, row["partition"]): row for row in rows}
        # The journal, from which these rows are recovered if the harness dies before it writes them.
        self._tables.reservations.write({"assigned": rows})

    def remove_partitions(self, consumer: str, partitions: Sequence[int], ns: int) -> None:
        """Note that from `ns` on, the consumer no longer has these partitions."""
        self.readers.forget_positions(self, partitions)
        for partition in partitions if self._isolation is not None else ():
            self._tables.add("assignments", {**self._assigned_rows.pop((consumer, partition)), "end_ns": ns})

    _handle_given_back = remove_partitions

    def note_positions(self, offsets: Sequence[Sequence[int]]) -> None:
        """Note that the consumer has processed all records before these offsets: (partition, offset)."""
        self.readers.note_positions(self, offsets)

    _handle_at_end = note_positions

    def add_batch(
        self, consumer: str, *, ns: int | None = None, transaction: tuple[int, int] | None = None, **columns: Any
    ) -> None:
        """Write the rows of a batch, a nanosecond apart, from `ns` or, without it, from now on.

        `columns`: partition, offset, producer_id, seq and, unless unknown, leader_epoch. `transaction`: (producer_id,
        number) of the transaction in which the batch was read; None: no such columns.
        """
        count, schema = len(columns["offset"]), CONSUMED_SCHEMA
        first_ns = max(self.last_ns + 1, time.monotonic_ns()) if ns is None else ns
        self.last_ns = first_ns + count - 1
        columns |= {"lane": [self.lane] * count, "consumer": [consumer] * count}
        columns |= {"poll_ns": np.arange(first_ns, first_ns + count, dtype=np.int64)}
        columns["leader_epoch"] = columns.get("leader_epoch") or [None] * count
        if transaction is not None:
            schema = READ_IN_TRANSACTION_SCHEMA
            columns |= {
                "reading_producer_id": [transaction[0]] * count,
                "reading_transaction": [transaction[1]] * count,
            }
        self._tables.consumed.write(pa.Table.from_pydict(columns, schema=schema))
        self.readers.count_read(count)

    def add_message(self, consumer: str, message: Any, identity: tuple[int, int]) -> None:
        """Add the row of a single message that the consumer read; the writer gathers such rows."""
        self.last_ns = max(self.last_ns + 1, time.monotonic_ns())
        named = {"lane": self.lane, "consumer": consumer, "producer_id": identity[0], "seq": identity[1]}
        at = {"partition": message.partition(), "offset": message.offset(), "leader_epoch": message.leader_epoch()}
        self._tables.consumed.add({**named, **at, "poll_ns": self.last_ns})
        self.readers.count_read(1)

    def handle_read(
        self, consumer: str, *, leader_epoch: list[int | None] | None = None, ns: int | None = None, **columns: Any
    ) -> None:
        """Handle the event `read` of a process. Raises `ProtocolBreach` if its columns can't be what was read."""
        offset = columns["offset"]
        lengths = {len(whole_numbers(name, column)) for name, column in columns.items()}
        if lengths | {len(leader_epoch or offset)} != {len(offset)} or min(offset, default=0) < 0:
            raise ProtocolBreach("columns of one length, and offsets of at least 0, were expected")
        if starts := self._run_starts:
            is_new = [at >= starts.get(number, 0) for number, at in zip(columns["partition"], offset, strict=True)]
            columns = {name: list(compress(column, is_new)) for name, column in columns.items()}
            leader_epoch = None if leader_epoch is None else list(compress(leader_epoch, is_new))
        self.add_batch(consumer, ns=ns, leader_epoch=leader_epoch, **columns)

    _handle_read = handle_read

    def _handle_changes(self, change: str) -> None:
        self._on_change(change)

    def _handle_commit(
        self,
        number: int,
        consumer: str,
        offsets: list[list[int]],
        producer_id: int | None,
        transaction: int | None,
        ns: int,
    ) -> None:
        """Handle the event `commit`: the consumer is about to commit these offsets."""
        columns = {**self._group_columns, "consumer": consumer, "invoke_ns": ns}
        columns |= {"producer_id": producer_id, "transaction": transaction}
        call = "commit" if transaction is None else "send_offsets_to_transaction"
        rows = [{**columns, "partition": partition, "offset": offset} for partition, offset in offsets]
        self._open_commits[number] = self._calls.note_begin(self._lane_of_calls, consumer, call), rows

    def _handle_committed(self, number: int, errors: list[tuple[int, str, str]], ns: int) -> None:
        """Handle the event `committed`: the answer to the commit of this number."""
        failed = {partition: (outcome, error) for partition, outcome, error in errors}
        self._end_commit(number, failed, ns, otherwise="ok")

    def _end_commit(
        self, number: int, failed: Mapping[int, tuple[str, str]], ns: int | None, *, otherwise: str
    ) -> None:
        """Write a commit's rows. `failed`: outcome and error by partition; other partitions' outcome is `otherwise`."""
        call, rows = self._open_commits.pop(number)
        self._calls.note_end(call)
        for row in rows if self._group_columns["group"] is not None else ():
            outcome, error = failed.get(row["partition"], (otherwise, None))
            self._tables.add("commits", {**row, "complete_ns": ns, "outcome": outcome, "error": error})
