"""A consumer in a process of its own that follows a lane's topic from its start, and says what it reads."""

import threading
from collections.abc import Mapping
from typing import Any

from kafka_chaos.harness.workload.client_process import ClientProcess, ProtocolBreach
from kafka_chaos.harness.workload.clients.following import Follower
from kafka_chaos.harness.workload.processes.producer import Start

_LEAVES_WITHIN = 10.0


class ProcessConsumer(Follower):
    """Follows one lane until `drain` has seen it reach the end offsets. Each event `assigned` begins a new name.

    In an isolation level, what it passes over counts as read, where the process says that it stands behind.
    """

    def __init__(self, start: Start, *, partitions: int, **recorded: Any) -> None:
        """`recorded`: what every follower has, but for its `starts`."""
        super().__init__(starts=dict.fromkeys(range(partitions), 0), **recorded)
        self._has_ended = threading.Event()
        self._start = start
        self._is_down = False
        self.begins()
        self.process = start(self)

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """The same; then the process leaves. One that claims to be beyond the end has a problem."""
        super().drain(end_offsets, timeout=timeout, cancelled=cancelled)
        for number, end in end_offsets.items():
            if (at := self.position[number]) > end:
                self.process.breaks(f"says that it stands beyond the end of partition {number}: at {at} of {end}")
                break
        self.process.leaves(_LEAVES_WITHIN)

    def goes_on(self) -> bool:
        """Whether its process does."""
        return not self._has_ended.is_set()

    def breaks(self, problem: str) -> None:
        """The same."""
        self.process.breaks(problem)

    def leave(self) -> None:
        """The same."""
        self.process.leaves(_LEAVES_WITHIN)
        self.ended()

    def close(self) -> None:
        """Kill it, if it has not ended."""
        self.process.kill()
        self.process.join()
        self.ended()

    def processes(self) -> list[ClientProcess]:
        """Its process, for faults to hit."""
        return [ClientProcess(self.process, 1, falls=self._falls, rises=self._rises)]

    def _falls(self) -> None:
        self._is_down = True

    def _rises(self) -> None:
        """Another consumer reads from the start, under a new name, if a fault has ended this one."""
        if self._is_down:
            self._is_down = False
            self.process.join()
            self.begins()
            self._has_ended.clear()
            self.process = self._start(self)

    def takes(self, kind: str, values: dict[str, Any]) -> None:
        """Take an event; see `Taker`."""
        if kind == "read":
            self._read(**values)
        elif kind == "assigned":
            self.begins()
        elif kind == "at_end" and self._isolation is not None:
            self._stands(**values)
        else:
            raise ProtocolBreach(f"a consumer has no event {kind!r}")

    def ends(self) -> None:
        """The process has ended."""
        self._has_ended.set()

    def _stands(self, offsets: list[list[int]]) -> None:
        position = self.position
        for number, at in offsets:
            if not position[number] <= at:
                raise ProtocolBreach(f"it stands at offset {at}, and has read up to {position[number]}")
        self._rows.stands(offsets)

    def _read(
        self,
        partition: list[int],
        offset: list[int],
        producer_id: list[int],
        seq: list[int],
        leader_epoch: list[int | None] | None = None,
    ) -> None:
        if unknown := set(partition) - self.position.keys():
            raise ProtocolBreach(f"there is no partition {min(unknown)}")
        self._rows.said_to_read(self.name, partition, offset, producer_id, seq, leader_epoch)
        self._have_read(partition, offset)
