"""A consumer in a process of its own that follows a lane's topic from its start, and says what it reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from kafka_chaos.harness.workload.clients.recorded_consumer import not_at_the_end
from kafka_chaos.harness.workload.history.writer import HistoryWriter, consumed_rows
from kafka_chaos.harness.workload.processes.producer import Start, whole_numbers
from kafka_chaos.harness.workload.processes.supervisor import ProtocolBreach

_TICK = 0.05
_LEAVES_WITHIN = 10.0


class ProcessConsumer:
    """Follows one lane until `drain` has seen it reach the end offsets. Each event `assigned` begins a new name."""

    def __init__(self, start: Start, *, lane: str, partitions: int, writer: HistoryWriter) -> None:
        self.lane = lane
        self.consumed = 0
        self._writer = writer
        self._names = 1
        self._last_ns = 0
        self._position = dict.fromkeys(range(partitions), 0)
        self._has_ended = threading.Event()
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
        self._process.leaves(_LEAVES_WITHIN)

    def close(self) -> None:
        """End it."""
        self._process.leaves(0.0)

    def takes(self, kind: str, values: dict[str, Any]) -> None:
        """Take an event; see `Taker`."""
        if kind == "read":
            self._read(**values)
        elif kind == "assigned":
            self._names += 1
        else:
            raise ProtocolBreach(f"a consumer has no event {kind!r}")

    def ends(self) -> None:
        """The process has ended."""
        self._has_ended.set()

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
        name = f"{self.lane}-{self._names}"
        self._writer.write(consumed_rows(self.lane, name, first_ns, **columns, leader_epoch=leader_epoch))
        for number, at in zip(partition, offset, strict=True):
            self._position[number] = at + 1
        self.consumed += count
