"""How long each partition was served by nobody: all brokers are asked all the time which partitions they lead.

Served means: some broker answers ListOffsets for the latest offset, which only a leader does. What is reported is the
longest time between two answers; it is as exact as the time between two rounds of questions, which is reported too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from kafka_chaos.harness.broker_client import NONE, BrokerClient, BrokerUnreachable

_PATIENCE = 0.5

Place = tuple[str, int]


@dataclass
class Availability:
    """Asks from entering to leaving; a context manager. `topics`: partitions by topic."""

    addresses: Sequence[str]
    topics: Mapping[str, int]
    longest_gap: dict[Place, float] = field(default_factory=dict)
    longest_round: float = 0.0
    _last: dict[Place, float] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)
    _failure: Exception | None = None

    def __enter__(self) -> Availability:
        now = time.monotonic()
        self._last = {(topic, number): now for topic, count in self.topics.items() for number in range(count)}
        self.longest_gap = dict.fromkeys(self._last, 0.0)
        self._threads = [threading.Thread(target=self._ask, args=(address,), daemon=True) for address in self.addresses]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()
        if self._failure is not None and kind is None:
            raise self._failure
        now = time.monotonic()
        for place, last in self._last.items():
            self.longest_gap[place] = max(self.longest_gap[place], now - last)

    def gaps(self, topic: str) -> list[float]:
        """The longest gap of each of a topic's partitions, in seconds, shortest first."""
        with self._lock:
            return sorted(gap for (name, _), gap in self.longest_gap.items() if name == topic)

    def _ask(self, address: str) -> None:
        try:
            while not self._ending.is_set():
                try:
                    with BrokerClient(address, timeout=_PATIENCE) as client:
                        self._ask_on(client)
                except BrokerUnreachable:
                    self._ending.wait(0.02)
        except Exception as error:  # noqa: BLE001  raised when the block is left: a silent thread would count as downtime
            self._failure = error

    def _ask_on(self, client: BrokerClient) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            self._note(self._led(client))
            with self._lock:
                self.longest_round = max(self.longest_round, time.monotonic() - began)
            self._ending.wait(0.005)

    def _led(self, client: BrokerClient) -> list[Place]:
        answers = client.latest_offsets({topic: range(count) for topic, count in self.topics.items()})
        return [place for place, (error, _) in answers.items() if error == NONE]

    def _note(self, served: list[Place]) -> None:
        now = time.monotonic()
        with self._lock:
            for place in served:
                self.longest_gap[place] = max(self.longest_gap[place], now - self._last[place])
                self._last[place] = now
