"""Clock faults on fake nodes: what is proof and what is not, values, and what the model is told."""

from typing import Any

import pytest

from kafka_chaos.faults.clock.clocks import ClockDrift, ClockStep, MovedClock
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeClock, FakeCluster

BROKER = Target.parse("broker:1")
STEP, DRIFT = ClockStep(target=BROKER, seconds=-60), ClockDrift(target=BROKER, percent=10, duration=60)


def broken(fault: MovedClock) -> tuple[FakeCluster, FakeClock]:
    cluster = FakeCluster()
    clock = cluster.brokers[1].clock = FakeClock()
    fault.inject(cluster, (cluster.brokers[1],))
    fault.inject(cluster, (cluster.brokers[1],))
    return cluster, clock


def proof(cluster: FakeCluster, fault: MovedClock) -> Any:
    return fault.proof(cluster, (cluster.brokers[1],))


def test_the_time_that_the_process_tells_proves_a_step() -> None:
    cluster, clock = broken(STEP)
    assert clock.shifts == {STEP.stable_name: (-60, 0)}
    shown = proof(cluster, STEP)
    assert shown.took_effect
    assert STEP.describe_evidence(shown.evidence["broker-1"]) == "the process's own clock was 60.00 s behind"
    clock.lags = -60
    assert proof(cluster, STEP).reason == "broker-1: its process's clock is +0.00 s off, not -60.00 s"
    clock.silent = True
    assert proof(cluster, STEP).reason == "broker-1: process 7 does not tell its time"
    clock.silent, clock.down = False, True
    assert not proof(cluster, STEP).took_effect
    STEP.heal(cluster, (cluster.brokers[1],))
    STEP.heal(cluster, (cluster.brokers[1],))
    assert clock.shifts == {}
    clock.down = False
    assert not proof(cluster, STEP).took_effect


def test_a_drift_is_proven_once_it_has_moved_the_clock() -> None:
    cluster, clock = broken(DRIFT)
    assert proof(cluster, DRIFT).reason == "broker-1: its clock has hardly moved yet"
    clock.passed = 5.0
    shown = proof(cluster, DRIFT)
    assert shown.took_effect
    assert DRIFT.describe_evidence(shown.evidence["broker-1"]) == "the process's own clock was 0.50 s ahead"
    clock.lags = 0.5
    assert not proof(cluster, DRIFT).took_effect
    clock.passed, clock.lags = 0.6, 0.06
    assert not proof(cluster, DRIFT).took_effect, "it has moved by less than what is near"


def test_two_that_overlap_add_up_and_each_ends_for_itself() -> None:
    cluster, clock = broken(STEP)
    other = ClockStep(target=BROKER, seconds=10)
    other.inject(cluster, (cluster.brokers[1],))
    assert proof(cluster, other).evidence == {"broker-1": {"ahead": -50}}
    STEP.heal(cluster, (cluster.brokers[1],))
    assert proof(cluster, other).evidence == {"broker-1": {"ahead": 10}}
    assert not proof(cluster, STEP).took_effect
    assert clock.shifts == {other.stable_name: (10, 0)}


@pytest.mark.parametrize(
    ("kind", "keys", "refused"),
    [
        (ClockStep, {"seconds": 0}, "seconds: 0 "),
        (ClockStep, {"seconds": -1801}, "seconds: -1801 "),
        (ClockDrift, {"percent": 0.5}, "percent: 0.5 "),
        (ClockDrift, {"percent": 101}, "percent: 101 "),
        (ClockDrift, {"percent": 100, "duration": 1801}, "duration: 1801 .* off by 1801 s"),
    ],
)
def test_values_that_mean_nothing_or_too_much_are_refused(kind: Any, keys: dict[str, Any], refused: str) -> None:
    with pytest.raises(ValueError, match=f"^{refused}"):
        kind(target=BROKER, **keys)
