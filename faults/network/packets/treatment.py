"""When packets of a queue go on, and what is told of those that have gone."""

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field

from kafka_chaos.faults.network.packets.kernel_queue import Packet


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """How long packets wait. `percent` of them wait `seconds`, and up to `jitter` more; `bits_per_second` of each
    direction go on at most. With `in_order`, none overtakes another of its direction."""

    seconds: float = 0.0
    jitter: float = 0.0
    percent: float = 100.0
    bits_per_second: float | None = None
    in_order: bool = True


@dataclass(slots=True)
class Tally:
    """Packets that have gone on: how many, those of them that had to wait, their bytes, all the seconds that they
    waited; and those that others of their connection had overtaken."""

    packets: int = 0
    waited: int = 0
    bytes: int = 0
    seconds: float = 0.0
    overtaken: int = 0


@dataclass(slots=True)
class Waiting:
    """The packets that wait. Times are those of one clock, in seconds."""

    treatment: Treatment
    chance: random.Random = field(default_factory=random.Random)
    tally: Tally = field(default_factory=Tally)
    _heap: list[tuple[float, int, float, Packet]] = field(default_factory=list)
    _last: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    _free: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """By hook: when the last packet goes on, and when the next one may by the rate."""
    _newest: dict[bytes, int] = field(default_factory=dict)
    """By connection and direction, the newest packet that has gone on."""

    def add(self, packet: Packet, now: float) -> None:
        """A packet that has come."""
        how, due = self.treatment, now
        if how.percent >= 100 or self.chance.random() * 100 < how.percent:
            due += how.seconds + how.jitter * self.chance.random()
        if how.bits_per_second is not None:
            due = max(due, self._free[packet.hook])
            self._free[packet.hook] = due + packet.length * 8 / how.bits_per_second
        if how.in_order:
            due = self._last[packet.hook] = max(due, self._last[packet.hook])
        heapq.heappush(self._heap, (due, packet.number, now, packet))

    def due(self, now: float) -> list[int]:
        """Take out the packets whose time has come; their numbers, in the order in which they go on."""
        numbers = []
        while self._heap and self._heap[0][0] <= now:
            due, number, came, packet = heapq.heappop(self._heap)
            numbers.append(number)
            self._count(packet, waited=due > came, seconds=now - came)
        return numbers

    def all(self) -> list[int]:
        """Take out all packets, the oldest first."""
        numbers = sorted(number for _, number, _, _ in self._heap)
        self._heap.clear()
        return numbers

    def seconds_left(self, now: float) -> float | None:
        """Until the next one goes on; None where nothing waits."""
        return max(0.0, self._heap[0][0] - now) if self._heap else None

    def _count(self, packet: Packet, *, waited: bool, seconds: float) -> None:
        tally, newest = self.tally, self._newest.get(packet.flow, 0)
        tally.packets += 1
        tally.waited += waited
        tally.bytes += packet.length
        tally.seconds += seconds if waited else 0.0
        tally.overtaken += packet.number < newest
        self._newest[packet.flow] = max(newest, packet.number)
