"""When packets go on: in plain numbers, without a kernel."""

import random

import pytest

from kafka_chaos.faults.network.packets.kernel_queue import Packet
from kafka_chaos.faults.network.packets.treatment import Treatment, Waiting

IN, OUT = 1, 3


def packet(number: int, *, hook: int = IN, length: int = 1000, flow: bytes = b"a") -> Packet:
    return Packet(number, hook, length, flow)


def gone(waiting: Waiting, *times: float) -> list[list[int]]:
    return [waiting.due(time) for time in times]


def test_every_packet_waits_as_long_as_it_is_told() -> None:
    waiting = Waiting(Treatment(seconds=0.5))
    waiting.add(packet(1), 10.0)
    waiting.add(packet(2), 10.2)
    assert waiting.seconds_left(10.1) == pytest.approx(0.4)
    assert gone(waiting, 10.4, 10.5, 10.6, 10.7) == [[], [1], [], [2]]
    assert waiting.seconds_left(10.7) is None
    assert waiting.tally.waited == waiting.tally.packets == 2
    assert waiting.tally.seconds == pytest.approx(1.0)
    assert waiting.tally.bytes == 2000


def test_jitter_changes_the_times_and_never_the_order() -> None:
    waiting = Waiting(Treatment(seconds=0.1, jitter=0.5), chance=random.Random(1))
    for number in range(1, 101):
        waiting.add(packet(number), number / 100)
    order = [number for step in range(300) for number in waiting.due(step / 100)]
    assert order == list(range(1, 101))
    assert 0.1 < waiting.tally.seconds / 100 < 0.7
    assert waiting.tally.overtaken == 0


def test_the_directions_do_not_wait_for_each_other() -> None:
    waiting = Waiting(Treatment(bits_per_second=8000))
    for number in (1, 2):
        waiting.add(packet(number), 0.0)
    waiting.add(packet(3, hook=OUT), 0.0)
    assert gone(waiting, 0.0, 0.9, 1.0) == [[1, 3], [], [2]]


def test_a_rate_lets_bytes_go_on_one_after_another() -> None:
    waiting = Waiting(Treatment(bits_per_second=8000))
    for number in range(1, 6):
        waiting.add(packet(number, length=500), 0.0)
    assert gone(waiting, 0.0, 0.5, 1.0, 1.5, 2.0) == [[1], [2], [3], [4], [5]]
    assert waiting.tally.waited == 4
    waiting.add(packet(6), 9.0)
    assert waiting.due(9.0) == [6], "what was not used is not saved, and nothing is owed"


def test_packets_that_wait_are_overtaken_on_their_own_connection_alone() -> None:
    waiting = Waiting(Treatment(seconds=1.0, percent=50, in_order=False), chance=random.Random(3))
    for number in range(1, 21):
        waiting.add(packet(number, flow=b"a" if number <= 10 else b"b"), 0.0)
    first, later = gone(waiting, 0.0, 1.0)
    assert sorted(first + later) == list(range(1, 21))
    assert later == sorted(later)
    passed = {flow: max(n for n in first if (n <= 10) == flow) for flow in (True, False)}
    assert waiting.tally.overtaken == sum(number < passed[number <= 10] for number in later) > 0


def test_at_the_end_all_go_on_the_oldest_first() -> None:
    waiting = Waiting(Treatment(seconds=5.0, jitter=5.0, in_order=False))
    for number in (1, 2, 3):
        waiting.add(packet(number), 0.0)
    assert waiting.all() == [1, 2, 3]
    assert waiting.all() == []
