"""The time that no broker served each partition: all brokers are polled continuously for the partitions they lead.

A partition is served if some broker answers ListOffsets for the latest offset, which only a leader does. The result is
the longest time between two answers. Its resolution is the time between two polls, which is reported too.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable

_ANSWER_TIMEOUT_S = 0.5

Place = tuple[str, int]


@dataclass
class Availability:
    """The gaps of each partition, measured while the block of `poll_leaders` runs, in seconds."""

    longest_gap: dict[Place, float]
    longest_round: float = 0.0
    _last: dict[Place, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def gaps(self, topic: str) -> list[float]:
        """The longest gap of each of a topic's partitions, in seconds, shortest first."""
        with self._lock:
            return sorted(gap for (name, _), gap in self.longest_gap.items() if name == topic)

    def note(self, served: Sequence[Place], *, seconds: float = 0.0) -> None:
        """Note that these partitions are served now, as a poll that took `seconds` has shown."""
        now = time.monotonic()
        with self._lock:
            self.longest_round = max(self.longest_round, seconds)
            for place in served:
                self.longest_gap[place] = max(self.longest_gap[place], now - self._last.get(place, now))
                self._last[place] = now


@contextmanager
def poll_leaders(addresses: Sequence[str], topics: Mapping[str, int]) -> Iterator[Availability]:
    """Poll all brokers during the block; `topics` has the number of partitions by topic. Then the gaps are final."""
    places = [(topic, number) for topic, count in topics.items() for number in range(count)]
    availability = Availability(dict.fromkeys(places, 0.0))
    availability.note(places)
    ending = threading.Event()
    with ThreadPoolExecutor(len(addresses)) as threads:
        pollers = [threads.submit(_poll, address, topics, availability, ending) for address in addresses]
        try:
            yield availability
        finally:
            ending.set()
    for poller in pollers:
        # A poller that failed would count as downtime: raise its error.
        poller.result()
    availability.note(places)


def _poll(address: str, topics: Mapping[str, int], availability: Availability, ending: threading.Event) -> None:
    while not ending.is_set():
        try:
            with BrokerClient(address, timeout=_ANSWER_TIMEOUT_S) as client:
                while not ending.is_set():
                    began = time.monotonic()
                    answers = client.latest_offsets({topic: range(count) for topic, count in topics.items()})
                    served = [place for place, (error, _) in answers.items() if error == NONE]
                    availability.note(served, seconds=time.monotonic() - began)
                    ending.wait(0.005)
        except BrokerUnreachable:
            ending.wait(0.02)
