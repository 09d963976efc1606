"""Measures how long no broker serves a partition, by polling all brokers for the partitions that they lead.

A partition is served if some broker answers ListOffsets for the latest offset, which only a leader does. The result is
the longest time between two answers. Its resolution is the time between two polls, which is reported too.
"""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from kafka_chaos.conformance.scenario.steps.faults import FaultSteps
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, BrokerUnreachable
from kafka_chaos.harness.signals import new_client

_RETRY_INTERVAL_S = 0.02  # after a broker could not be reached
_RECORDS = 20  # the number of records in each partition


@dataclass
class Availability:
    """How long partitions were without a leader. `topics`: the number of partitions by topic."""

    topics: Mapping[str, int]
    longest_gap: dict[tuple[str, int], float] = field(default_factory=dict)
    """By topic and partition, the longest time between two answers from a leader, in seconds."""
    longest_poll: float = 0.0  # in seconds
    _last: dict[tuple[str, int], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ending: threading.Event = field(default_factory=threading.Event)

    def note(self, served: list[tuple[str, int]], *, seconds: float = 0.0) -> None:
        """Note that these partitions are served now, as a poll that took `seconds` has shown."""
        now = time.monotonic()
        with self._lock:
            self.longest_poll = max(self.longest_poll, seconds)
            for partition in served:
                gap = now - self._last.get(partition, now)
                self.longest_gap[partition] = max(self.longest_gap.get(partition, 0.0), gap)
                self._last[partition] = now

    @contextmanager
    def polled(self, addresses: list[str]) -> Iterator[None]:
        """Poll all brokers during the block; after it, the gaps are final."""
        partitions = [(topic, number) for topic, count in self.topics.items() for number in range(count)]
        self.note(partitions)
        with ThreadPoolExecutor(len(addresses)) as threads:
            pollers = [threads.submit(self._poll, address) for address in addresses]
            try:
                yield
            finally:
                self._ending.set()
        for poller in pollers:
            # A poller that failed would count as downtime: raise its error.
            poller.result()
        self.note(partitions)

    def table(self) -> list[dict[str, Any]]:
        """A row per topic: the time without a leader in seconds, and the resolution."""
        rows = []
        for topic, count in self.topics.items():
            gaps = [gap for (name, _), gap in self.longest_gap.items() if name == topic]
            times = {"median seconds without a leader": statistics.median(gaps), "longest": max(gaps)}
            rounded = {name: round(value, 3) for name, value in (times | {"resolution": self.longest_poll}).items()}
            rows.append({"partitions": count, **rounded})
        return rows

    def _poll(self, address: str) -> None:
        while not self._ending.is_set():
            try:
                with BrokerClient(address, timeout=0.5) as client:
                    while not self._ending.is_set():
                        began = time.monotonic()
                        answers = client.latest_offsets({topic: range(count) for topic, count in self.topics.items()})
                        served = [partition for partition, (error, _) in answers.items() if error == NONE]
                        self.note(served, seconds=time.monotonic() - began)
                        self._ending.wait(0.005)
            except BrokerUnreachable:
                self._ending.wait(_RETRY_INTERVAL_S)


@dataclass
class AvailabilitySteps(FaultSteps):
    """The steps of `FaultSteps`, and steps that measure how long no broker serves the partitions of further topics."""

    availability: Availability = field(default_factory=lambda: Availability({}))

    def lead_many(self, *counts: int) -> None:
        """Create and fill a topic for each number of partitions in `counts`. The act's first broker leads them."""
        admin, first = self.lease.admin, self.act.replicas[0]
        topics = {f"{self.topic}-of-{count}": count for count in counts}
        for topic, count in topics.items():
            admin.create_topic(topic, replica_assignment=[list(self.act.replicas)] * count, configs={})
        admin.await_full_isr(list(topics))
        producer = new_client(Producer, {"bootstrap.servers": self.lease.cluster.bootstrap_servers, "log_level": 0})
        for topic, count in topics.items():
            for partition in range(count):
                for number in range(_RECORDS):
                    producer.produce(topic, value=str(number), partition=partition)
        wait_until(lambda: producer.flush(1) == 0, f"the topics that broker {first} leads to be filled", timeout=60)
        self.availability = Availability(topics)

    def poll_leaders(self) -> None:
        """Begin to poll all brokers for the partitions that they lead."""
        addresses = [self.lease.cluster.addresses[broker] for broker in self.act.replicas]
        self.watches.enter_context(self.availability.polled(addresses))

    def end_polling(self) -> None:
        """End the polls once other brokers lead all of these partitions."""
        first = self.act.replicas[0]

        def moved() -> bool:
            partitions = (self.lease.admin.partitions(topic).values() for topic in self.availability.topics)
            leaders = [state.leader for states in partitions for state in states]
            return bool(leaders) and first not in leaders and None not in leaders

        wait_until(moved, f"others than broker {first} to lead", timeout=60, interval=0.1)
        self.watches.close()

    @property
    def downtime(self) -> list[dict[str, Any]]:
        """The rows of `Availability.table`."""
        return self.availability.table()

    @property
    def median_downtime(self) -> float:
        """The median of all partitions' longest time without a leader, in seconds."""
        return statistics.median(self.availability.longest_gap.values())
