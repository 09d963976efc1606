"""A lane's producers at a fixed rate: the first one, and those that come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafka_chaos.harness.workload.clients.producers import LaneProducer, ManyProducers

_TICK = 0.01
_NEVER = float("inf")
_NEVER_SET = threading.Event()


@dataclass(frozen=True, kw_only=True)
class Life:
    """When a producer starts, in seconds after times began to count, and how it ends: after it has lived for so long.

    `kills`: whether it is killed; else it gets the outcomes that are open, and is closed. `returns`: so much later
    another one starts in its place.
    """

    at: float
    lasts: float = _NEVER
    kills: bool = False
    returns: float = _NEVER


class Place:
    """The producers that live in one place, one after the other."""

    def __init__(self, number: int, life: Life) -> None:
        self.number = number
        self.producer: LaneProducer | None = None
        self.since = 0.0
        self._life = life
        self._starts = life.at
        self._ends = _NEVER
        self.is_killed = False
        self.is_down = False

    @property
    def is_over(self) -> bool:
        """Whether nobody lives here, nor ever will."""
        return self.producer is None and self._starts == _NEVER and not self.is_down

    def takes(self, producer: LaneProducer, now: float) -> None:
        """A producer begins its life."""
        self.producer, self.since = producer, now
        self._starts, self._ends = _NEVER, now + self._life.lasts

    def is_due(self, elapsed: float) -> bool:
        """Whether one has to start, so long after times began to count."""
        return self.producer is None and elapsed >= self._starts and not self.is_down

    def falls(self) -> None:
        """A fault ends the producer; nobody takes its place until `rises` is called."""
        self.is_killed = self.is_down = True

    def rises(self) -> None:
        """The fault is over."""
        self.is_down = False

    def ends(self, now: float, elapsed: float) -> tuple[LaneProducer, bool] | None:
        """The producer whose life is over, if it is, and whether by a kill."""
        if (now < self._ends and not self.is_killed) or self.producer is None:
            return None
        by_fault, self.is_killed = self.is_killed, False
        ended, self.producer = self.producer, None
        self._starts, self._ends = elapsed + (0.0 if by_fault else self._life.returns), _NEVER
        return ended, by_fault or self._life.kills


class PacedProducing(ManyProducers):
    """Sends `rate` records a second, each place of a producer its share, until all have failed for good.

    `connect` makes the producer of a number, counted from 0, in a place. The first is made at once, in place 0, and
    stays. Those of the other places live their `lives`, once `began` returns when times began to count: brokers know
    nothing of them until then.
    """

    def __init__(
        self,
        connect: Callable[[int, int], LaneProducer],
        *,
        rate: float,
        on_notice: Callable[[str], None],
        lives: Sequence[Life] = (),
        began: Callable[[], float | None] = lambda: None,
    ) -> None:
        super().__init__()
        self._connect = connect
        self.places = [Place(number, life) for number, life in enumerate((Life(at=0.0), *lives))]
        self._began = began
        self._rate = rate / len(self.places)
        self._on_notice = on_notice
        self._leaving: list[LaneProducer] = []
        self._uncertain = 0
        self.producers.append(connect(0, 0))

    def run(self, sending: threading.Event) -> None:
        """Send until `sending` is cleared, or every producer has failed for good."""
        self.places[0].takes(self.producers[0], time.monotonic())
        failed: set[int] = set()
        while sending.is_set() and self._goes_on():
            now = time.monotonic()
            if (began := self._began()) is not None:
                for place in self.places:
                    self._live(place, now, now - began)
            for place in self.places:
                if (records := place.producer) is not None and not records.failed_for_good:
                    records.send(max(0, int((now - place.since) * self._rate) - records.sent))
            self._poll(_TICK)
            for number, records in enumerate(self.producers):
                if records.failed_for_good and number not in failed:
                    failed.add(number)
                    why = records.failed_for_good
                    self._on_notice(f"{records.lane}: its producer has failed for good and sends no more: {why}")

    def finish(self, timeout: float, cancelled: threading.Event) -> int:
        """Wait until every record has an outcome, at most `timeout` seconds. Returns how many became info instead."""
        deadline = time.monotonic() + timeout
        self._leaving += self._living()
        for place in self.places:
            place.producer = None
        while any(one.unanswered for one in self._leaving) and time.monotonic() < deadline and not cancelled.is_set():
            self._poll(_TICK)
        left = sum(one.finish(max(0.0, deadline - time.monotonic()), cancelled) for one in self._leaving)
        self._leaving = []
        return self._uncertain + left

    def _goes_on(self) -> bool:
        return any(place.producer is None and not place.is_over for place in self.places) or any(
            not one.failed_for_good for one in self._living()
        )

    def _live(self, place: Place, now: float, elapsed: float) -> None:
        """Take the next step that is due in a place: an end, a start."""
        if (over := place.ends(now, elapsed)) is not None:
            ended, is_killed = over
            if is_killed:
                self._on_notice(f"{ended.lane}: the producer in place {place.number} is killed")
                self._uncertain += ended.abandon(open_transaction=False)
            else:
                self._leaving.append(ended)
        if place.is_due(elapsed):
            self.producers.append(self._connect(len(self.producers), place.number))
            place.takes(self.producers[-1], now)

    def _living(self) -> list[LaneProducer]:
        return [place.producer for place in self.places if place.producer is not None]

    def _poll(self, seconds: float) -> None:
        """Serve all; one that leaves and has all its outcomes is closed."""
        served = [*self._living(), *self._leaving]
        for records in served:
            records.poll(seconds / len(served))
        if not served:
            time.sleep(seconds)
        for records in [one for one in self._leaving if not one.unanswered]:
            self._leaving.remove(records)
            self._uncertain += records.finish(0.0, _NEVER_SET)
