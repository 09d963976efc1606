"""The rows of a lane's consumers: assignments, records read and commits, whatever drives the consumers.

In the history, the name of a consumer denotes one uninterrupted assignment: after a rebalance, a seek or a lost
position, what is read has a new name. A consumer that dies leaves its assignments without an end, and its last commit
without an answer (`info`).
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka_chaos.harness.workload.client_process import ProtocolBreach, SupervisedProcess, Taker, whole_numbers
from kafka_chaos.harness.workload.history.writer import consumed_rows
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker

_TICK = 0.05


class Readers:
    """One or several consumers that read a lane together: how far they have read, and the wait for the lane's end.

    `consumed`: the records read so far. Threads may share it. `_worker`: the thread of the consumers, if they have one.
    """

    _worker: Worker | None = None

    def __init__(self) -> None:
        self.consumed = 0
        self._at: dict[int, tuple[object, int]] = {}
        self._lock = threading.Lock()

    @property
    def position(self) -> dict[int, int]:
        """The next offset to read, by partition."""
        with self._lock:
            return {number: offset for number, (_, offset) in self._at.items()}

    def behind(self, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The partitions that were not read to their end: (next offset to read, end offset) by number."""
        at = self.position
        return {number: (at.get(number, 0), end) for number, end in ends.items() if at.get(number, 0) < end}

    def counts(self, records: int) -> None:
        """Add to the number of records read."""
        with self._lock:
            self.consumed += records

    def has_joined(self) -> None:
        """Take note that a consumer was given partitions."""

    def reaches(self, reader: object, offsets: Iterable[Sequence[int]]) -> None:
        """Take note that a consumer has processed all records before these offsets: (partition, offset)."""
        with self._lock:
            self._at.update({partition: (reader, offset) for partition, offset in offsets})

    def loses(self, reader: object, partitions: Collection[int] | None = None) -> None:
        """Forget the positions of a consumer in these partitions, or in all that it had: it has lost them."""
        with self._lock:
            for partition, (owner, _) in list(self._at.items()):
                if owner is reader and (partitions is None or partition in partitions):
                    del self._at[partition]

    def processes(self) -> list[SupervisedProcess]:
        """The consumers that are processes of their own, for faults to hit."""
        return []

    def starts(self) -> None:
        """Begin what the consumers do in a load, such as to join and leave as planned."""

    def raise_error(self) -> None:
        """Raise what went wrong with the consumers, if anything did."""
        if self._worker is not None:
            self._worker.raise_error()

    def drain(self, ends: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until all partitions are read to their ends, at most `timeout` seconds, and while a consumer `goes_on`.

        The run continues if they are not: the verdict says what can't be judged.
        """
        deadline = time.monotonic() + timeout
        while (
            (left := self.behind(ends)) and time.monotonic() <= deadline and not cancelled.is_set() and self.goes_on()
        ):
            cancelled.wait(_TICK)
        if left:
            places = [f"partition {number} was read up to offset {at} of {end}" for number, (at, end) in left.items()]
            self.falls_short(f"did not reach the end: {', '.join(places)}")

    def goes_on(self) -> bool:
        """Whether the consumers may still read more; raises what went wrong with them."""
        self.raise_error()
        return self._worker is None or self._worker.is_alive()

    def close(self) -> None:
        """End the consumers at once, and write their last rows."""
        raise NotImplementedError

    def falls_short(self, problem: str) -> None:
        """Report that the consumers did not reach the end: the `problem` says where they are."""
        raise NotImplementedError


class ConsumedRows(Taker):
    """The rows of one consumer of `lane`, which is among its `readers`.

    `group`: the consumer's group, for the rows of its commits. `isolation`: its `isolation.level`, for the rows of its
    assignments, which it has only with that. `on_change` learns when a member of a group freezes and thaws.
    """

    what = "a member"

    def __init__(
        self,
        load: LoadSettings,
        *,
        lane: str,
        readers: Readers,
        isolation: str | None = None,
        group: str | None = None,
        on_change: Callable[[str], None] = lambda change: None,
    ) -> None:
        self.lane = lane
        self.readers = readers
        self.last_ns = 0
        self._tables = load.tables
        self._isolation = isolation
        self._of = {"lane": lane, "group": group}
        self._calls = load.calls
        self._lane_of_calls = lane
        self._held: dict[tuple[str, int], dict[str, Any]] = {}
        self._asked: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self.takers: dict[str, Callable[..., object]] = {
            "assigned": self.assigned,
            "given_back": self.given_back,
            "at_end": self.reaches,
            "read": self.takes_reads,
            "commit": self._commit,
            "committed": self._committed,
            "changes": lambda change: on_change(change),  # noqa: PLW0108 - the field has a name, the parameter any
        }

    def ends(self) -> None:
        """The consumer has ended: its assignments and commits that have no row yet get one."""
        self.readers.loses(self)
        for row in self._held.values():
            self._add_assignment(row)
        self._held = {}
        for number in list(self._asked):
            self._answer(number, {}, None, "info")

    def assigned(self, consumer: str, member: str, generation: int | None, partitions: Sequence[int], ns: int) -> None:
        """The consumer has these partitions alone, from `ns` on, under the name `consumer`."""
        self.readers.loses(self)
        self.adds(consumer, member, partitions, ns, generation)
        self.readers.has_joined()

    def adds(
        self, consumer: str, member: str, partitions: Sequence[int], ns: int, generation: int | None = None
    ) -> None:
        """The consumer has these partitions, too, from `ns` on, in the assignment of the name `consumer`."""
        named = {**self._of, "consumer": consumer, "member": member, "generation": generation}
        rows: list[dict[str, Any]] = [
            {**named, "partition": number, "isolation": self._isolation, "start_ns": ns} for number in partitions
        ]
        self._held |= {(consumer, row["partition"]): row for row in rows}
        if self._isolation is not None:
            self._tables.reservations.write({"assigned": rows})

    def given_back(self, consumer: str, partitions: Sequence[int], ns: int) -> None:
        """The consumer has these partitions no longer."""
        self.readers.loses(self, partitions)
        for partition in partitions:
            self._add_assignment({**self._held.pop((consumer, partition)), "end_ns": ns})

    def held(self, consumer: str) -> list[int]:
        """The partitions of the assignment of this name."""
        return [partition for name, partition in self._held if name == consumer]

    def reaches(self, offsets: Sequence[Sequence[int]]) -> None:
        """The consumer has processed what lies before these offsets: (partition, offset)."""
        self.readers.reaches(self, offsets)

    def reads(self, consumer: str, *, ns: int | None = None, **columns: Any) -> None:
        """The consumer was given a batch at `ns`, or now; `columns` as `consumed_rows` takes them."""
        count = len(columns["offset"])
        first_ns = max(self.last_ns + 1, time.monotonic_ns()) if ns is None else ns
        self.last_ns = first_ns + count - 1
        self._tables.consumed.write(consumed_rows(self.lane, consumer, first_ns, **columns))
        self.readers.counts(count)

    def reads_message(self, consumer: str, message: Any, identity: tuple[int, int]) -> None:
        """The consumer was given a single message: its row is gathered with others until the writer takes them."""
        self.last_ns = max(self.last_ns + 1, time.monotonic_ns())
        named = {"lane": self.lane, "consumer": consumer, "producer_id": identity[0], "seq": identity[1]}
        at = {"partition": message.partition(), "offset": message.offset(), "leader_epoch": message.leader_epoch()}
        self._tables.consumed.add({**named, **at, "poll_ns": self.last_ns})
        self.readers.counts(1)

    def takes_reads(
        self,
        consumer: str,
        *,
        leader_epoch: list[int | None] | None = None,
        ns: int | None = None,
        **columns: list[int],
    ) -> None:
        """Take the event `read` of a process, whose columns may hold anything. Raises `ProtocolBreach`."""
        offset = columns["offset"]
        lengths = {len(whole_numbers(name, column)) for name, column in columns.items()}
        if lengths | {len(leader_epoch or offset)} != {len(offset)} or min(offset, default=0) < 0:
            raise ProtocolBreach("columns of one length, and offsets of at least 0, were expected")
        self.reads(consumer, ns=ns, leader_epoch=leader_epoch, **columns)

    def _add_assignment(self, row: dict[str, Any]) -> None:
        if self._isolation is not None:
            self._tables.add("assignments", row)

    def _commit(
        self,
        number: int,
        consumer: str,
        offsets: list[list[int]],
        producer_id: int | None,
        transaction: int | None,
        ns: int,
    ) -> None:
        asked = {**self._of, "consumer": consumer, "invoke_ns": ns}
        asked |= {"producer_id": producer_id, "transaction": transaction}
        what = "commit" if transaction is None else "send_offsets_to_transaction"
        rows = [{**asked, "partition": partition, "offset": offset} for partition, offset in offsets]
        self._asked[number] = self._calls.begins(self._lane_of_calls, consumer, what), rows

    def _committed(self, number: int, errors: list[tuple[int, str, str]], ns: int) -> None:
        failed = {partition: (outcome, error) for partition, outcome, error in errors}
        self._answer(number, failed, ns, "ok")

    def _answer(self, number: int, failed: Mapping[int, tuple[str, str]], ns: int | None, otherwise: str) -> None:
        """A commit ends at `ns`: partitions have the outcome and the error in `failed`, or else this outcome."""
        call, rows = self._asked.pop(number)
        self._calls.ends(call)
        for row in rows if self._of["group"] is not None else ():
            outcome, error = failed.get(row["partition"], (otherwise, None))
            self._tables.add("commits", {**row, "complete_ns": ns, "outcome": outcome, "error": error})
