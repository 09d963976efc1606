"""A consumer in a process of its own that follows a lane's topic from its start, and says what it reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from kafka_chaos.harness.workload.clients.recorded_consumer import add_assignment, not_at_the_end
from kafka_chaos.harness.workload.history.writer import HistoryWriter, RowBuffer, consumed_rows
from kafka_chaos.harness.workload.processes.client_process import ClientProcess
from kafka_chaos.harness.workload.processes.producer import Start, whole_numbers
from kafka_chaos.harness.workload.processes.supervisor import ProtocolBreach

_TICK = 0.05
_LEAVES_WITHIN = 10.0


class ProcessConsumer:
    """Follows one lane until `drain` has seen it reach the end offsets. Each event `assigned` begins a new name.

    `isolation`, for a topic with transactions: its `isolation.level`. `assignments` then takes a row per partition and
    assignment, and what it passes over counts as read, where the process says that it stands behind.
    """

    def __init__(
        self,
        start: Start,
        *,
        lane: str,
        partitions: int,
        writer: HistoryWriter,
        isolation: str | None = None,
        assignments: RowBuffer | None = None,
    ) -> None:
        self.lane = lane
        self.consumed = 0
        self._isolation = isolation
        self._member = lane if isolation is None else f"{lane}-{isolation}"
        self._assignments = assignments
        self._began_ns = time.monotonic_ns()
        self._writer = writer
        self._names = 1
        self._last_ns = 0
        self._position = dict.fromkeys(range(partitions), 0)
        self._has_ended = threading.Event()
        self._start = start
        self._is_down = False
        self._process = start(self)

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until every partition was read up to its end offset, at most `timeout` seconds.

        If it does not get there, the run continues: the verdict says what can't be judged.
        """
        deadline = time.monotonic() + timeout
        while behind := {
            number: (self._position[number], end) for number, end in end_offsets.items() if self._position[number] < end
        }:
            if time.monotonic() > deadline or cancelled.is_set() or self._has_ended.is_set():
                self._process.breaks(not_at_the_end("its consumer", behind))
                break
            cancelled.wait(_TICK)
        if beyond := [number for number, end in end_offsets.items() if self._position[number] > end]:
            self._process.breaks(f"its consumer says that it stands beyond the end of partition {beyond[0]}")
        self._process.leaves(_LEAVES_WITHIN)

    def close(self) -> None:
        """End it."""
        self._process.leaves(0.0)
        self._end_assignment()
        self._assignments = None

    def processes(self) -> list[ClientProcess]:
        """Its process, if it runs, for faults to hit."""
        process = ClientProcess(self._process, 1, falls=self._falls, rises=self._rises)
        return [process] if process.is_running() else []

    def _falls(self) -> None:
        self._is_down = True

    def _rises(self) -> None:
        """Another consumer reads from the start, under a new name, if a fault has ended this one."""
        if self._is_down:
            self._is_down = False
            self._process.join()
            self._begin_assignment()
            self._has_ended.clear()
            self._process = self._start(self)

    @property
    def _name(self) -> str:
        return f"{self._member}-{self._names}"

    def _end_assignment(self) -> None:
        if self._assignments is not None:
            of = {"lane": self.lane, "consumer": self._name, "member": self._member, "isolation": self._isolation}
            began_ns = dict.fromkeys(self._position, self._began_ns)
            add_assignment(self._assignments, of, began_ns, last_ns=self._last_ns)

    def _begin_assignment(self) -> None:
        self._end_assignment()
        self._names += 1
        self._began_ns = time.monotonic_ns()
        self._position = dict.fromkeys(self._position, 0)

    def takes(self, kind: str, values: dict[str, Any]) -> None:
        """Take an event; see `Taker`."""
        if kind == "read":
            self._read(**values)
        elif kind == "assigned":
            self._begin_assignment()
        elif kind == "at_end" and self._isolation is not None:
            self._stands(**values)
        else:
            raise ProtocolBreach(f"a consumer has no event {kind!r}")

    def ends(self) -> None:
        """The process has ended."""
        self._has_ended.set()

    def _stands(self, offsets: list[list[int]]) -> None:
        for number, at in offsets:
            if not self._position[number] <= at:
                raise ProtocolBreach(f"it stands at offset {at}, and has read up to {self._position[number]}")
            self._position[number] = at

    def _read(
        self,
        partition: list[int],
        offset: list[int],
        producer_id: list[int],
        seq: list[int],
        leader_epoch: list[int | None] | None = None,
    ) -> None:
        columns = {"partition": partition, "offset": offset, "producer_id": producer_id, "seq": seq}
        found = {name: whole_numbers(name, values) for name, values in columns.items()}
        count = len(found["offset"])
        lengths = {len(values) for values in (*columns.values(), leader_epoch or offset)}
        if lengths != {count} or (found["offset"] < 0).any():
            raise ProtocolBreach("columns of one length, and offsets of at least 0, were expected")
        if unknown := set(found["partition"].tolist()) - self._position.keys():
            raise ProtocolBreach(f"there is no partition {min(unknown)}")
        first_ns = max(self._last_ns + 1, time.monotonic_ns())
        self._last_ns = first_ns + count - 1
        self._writer.write(consumed_rows(self.lane, self._name, first_ns, **columns, leader_epoch=leader_epoch))
        for number, at in zip(partition, offset, strict=True):
            self._position[number] = at + 1
        self.consumed += count
