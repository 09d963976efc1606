"""A container's clock without a container: what is written, when, and whose times log lines have."""

from pathlib import Path

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.clock.process_clock import Clock

NOBODY = 999_999_999
"""The id of no process."""


@pytest.fixture
def written() -> list[str]:
    return []


@pytest.fixture
def clock(written: list[str]) -> Clock:
    """That of a container that is down."""
    return Clock(lambda: 0, lambda path, text: written.append(f"{path} {text}"))


def test_shifts_add_up_and_come_only_once(clock: Clock, written: list[str]) -> None:
    clock.shift("a", seconds=60)
    clock.shift("a", seconds=60)
    clock.shift("b", seconds=-10.5)
    clock.end("a")
    clock.end("a")
    clock.end("b")
    file = "/etc/kafka-chaos/clock"
    assert written == [f"{file} {seconds}\n" for seconds in ("+60.000", "+49.500", "-10.500", "+0.000")]


def test_a_drift_goes_on_until_it_ends(clock: Clock, written: list[str]) -> None:
    clock.shift("a", per_second=-0.5)
    wait_until(lambda: len(written) > 3, "the clock to drift", timeout=10)
    clock.end("a")
    last = len(written)
    shifts = [float(one.split()[1]) for one in written]
    assert shifts[:-1] == sorted(shifts[:-1], reverse=True)
    assert shifts[-2] < 0 == shifts[-1]
    assert clock._drift_is_over.wait(1.0)
    assert len(written) == last


def test_a_process_that_is_down_tells_nothing(clock: Clock) -> None:
    clock.shift("a", seconds=60)
    assert clock.reading("a") is None


def test_of_a_container_that_runs_the_file_is_exchanged_in_one_step(tmp_path: Path, written: list[str]) -> None:
    # No such process: it ended while the clock was moved, and its container is written to.
    pids = iter((NOBODY, NOBODY, 0, 0))
    Clock(lambda: next(pids), lambda path, text: written.append(text)).shift("a", seconds=1)
    assert written == ["+1.000\n"]
