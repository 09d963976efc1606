"""Producers at a fixed rate, some of which start amid the load."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.experiment.lane_specs import WorkloadSpec
from kafka_chaos.harness.experiment.lives import LifeSpec
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.producers import PacedProducers
from kafka_chaos.harness.workload.settings import LoadSettings
from tests.harness.workload.loads import load_of, running


class Sender:
    """In place of a RecordedProducer: counts."""

    def __init__(self, number: int, slot: int, unanswered: int = 0) -> None:
        self.lane = "a"
        self.number = number
        self.slot = slot
        self.ended = ""
        self.made = time.monotonic()
        self.sent = self.acknowledged = self.longest_gap_ns = 0
        self.failed_for_good, self.process = "", None
        self.rows = self
        self.unanswered = unanswered

    def send(self, count: int) -> int:
        self.sent += count
        return count

    def poll(self, timeout: float) -> None:
        time.sleep(timeout)

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        assert (self.ended, timeout >= 0) == ("", True)
        self.ended = "left"

    def abandon(self, *, open_transaction: bool) -> None:
        assert (self.ended, open_transaction) == ("", False)
        self.ended = "killed"


Pacing = Callable[..., PacedProducers]


@pytest.fixture
def pacing(tmp_path: Path) -> Iterator[Pacing]:
    """Makes a load whose times began to count at `began`, of producers that `connect` makes."""
    loads: list[LoadSettings] = []

    def paced(
        *lives: LifeSpec, connect: Callable[[int, int], Any] = Sender, rate: float = 600, **given: Any
    ) -> PacedProducers:
        loads.append(load_of(tmp_path, workload=WorkloadSpec(rate=rate), **given))
        return PacedProducers(connect, loads[0], lives)

    yield paced
    loads[0].tables.close()


def test_fresh_producers_start_once_the_times_count_and_share_the_rate(pacing: Pacing) -> None:
    producing = pacing(*[LifeSpec(at=0.3)] * 2)
    thread, sending = running(producing)
    wait_until(lambda: producing.sent > 100, "the first producer to send", timeout=10)
    assert len(producing.producers) == 1
    began = producing._load.began = time.monotonic()
    wait_until(lambda: len(producing.producers) == 3, "the others to start", timeout=10)
    assert producing.producers[1].made - began >= 0.3
    wait_until(lambda: producing.producers[2].sent > 100, "the last one to send", timeout=10)
    sending.clear()
    thread.join(10)
    first, second, third = (sender.sent for sender in producing.producers)
    assert abs(second - third) <= 2
    assert first > second
    assert producing.sent == first + second + third
    producing.finish(1, threading.Event())
    assert [sender.ended for sender in producing.producers] == ["left"] * 3


def test_each_producer_sends_its_first_record_at_once(pacing: Pacing) -> None:
    producing = pacing(*[LifeSpec(at=0.0)] * 5, began=time.monotonic(), rate=0.1)
    thread, sending = running(producing)
    wait_until(lambda: [one.sent for one in producing.producers] == [1] * 6, "six records to be sent", timeout=10)
    sending.clear()
    thread.join(10)


def test_the_load_goes_on_until_every_producer_has_failed(pacing: Pacing) -> None:
    notices: list[str] = []
    start = time.monotonic()
    producing = pacing(LifeSpec(at=0.1), began=start, on_notice=notices.append)
    producing.producers[0].failed_for_good = "lost"
    thread, _ = running(producing)
    wait_until(lambda: len(producing.producers) == 2 and producing.producers[1].sent > 10, "the other", timeout=10)
    assert (thread.is_alive(), producing.producers[0].sent) == (True, 0)
    producing.producers[1].failed_for_good = "lost, too"
    thread.join(10)
    assert not thread.is_alive()
    assert notices == [f"a: its producer has failed for good and sends no more: lost{more}" for more in ("", ", too")]


def test_one_that_is_killed_is_followed_by_another_in_its_place(pacing: Pacing) -> None:
    start, notices = time.monotonic(), list[str]()
    life = LifeSpec(at=0.1, lasts=0.5, ends="kill", returns=0.1)

    def connect(number: int, slot: int) -> Sender:
        if number == 3:
            sending.clear()
        return Sender(number, slot)

    producing = pacing(life, connect=connect, began=start, on_notice=notices.append)
    thread, sending = running(producing)
    thread.join(20)
    assert len(producing.producers) == 4, "three of that place"
    first, *others = producing.producers
    assert [(one.number, one.slot, one.ended) for one in others] == [(1, 1, "killed"), (2, 1, "killed"), (3, 1, "")]
    assert first.ended == ""
    assert others[1].made - start >= 0.7
    assert 20 < others[0].sent < 400, "its share, for as long as it lived"
    assert notices == ["a: the producer in slot 1 is killed"] * 2
    producing.finish(1, threading.Event())
    assert [one.ended for one in producing.producers] == ["left", "killed", "killed", "left"]
    assert producing.sent == sum(one.sent for one in producing.producers)


def test_one_that_leaves_is_served_until_it_has_its_outcomes(pacing: Pacing) -> None:
    start = time.monotonic()
    producing = pacing(
        LifeSpec(at=0.0, lasts=0.5),
        connect=lambda number, slot: Sender(number, slot, unanswered=5 * number),
        began=start,
    )
    thread, sending = running(producing)
    wait_until(lambda: len(producing.producers) == 2, "the second one", timeout=10)
    leaving = producing.producers[1]
    wait_until(lambda: time.monotonic() - leaving.made > 0.7, "the end of its life", timeout=10)
    sent = leaving.sent
    assert (leaving.ended, producing.producers[0].ended) == ("", "")
    wait_until(lambda: producing.producers[0].sent > sent + 50, "the first one to go on alone", timeout=10)
    assert leaving.sent == sent
    leaving.unanswered = 0
    wait_until(lambda: leaving.ended == "left", "it to be closed", timeout=10)
    sending.clear()
    thread.join(10)
    producing.finish(1, threading.Event())
    assert producing.producers[0].ended == "left"


def test_each_record_stays_in_the_partition_that_it_was_sent_to() -> None:
    partitions = RoundRobin(2)
    sent = [seq % partitions.count for seq in range(5)]
    partitions.grow(3, 5)
    sent += [seq % partitions.count for seq in range(5, 12)]
    partitions.grow(4, 12)
    sent += [seq % partitions.count for seq in range(12, 20)]
    assert partitions.partitions_of(np.arange(20)).tolist() == sent
    assert partitions.partitions_of(np.array([19, 0, 6])).tolist() == [sent[19], sent[0], sent[6]]
    assert set(sent) == {0, 1, 2, 3}
