"""What a test writes down is frozen, says what it means, and is refused where it is written if it is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import kafka_chaos
from kafka_chaos import kill, lane, load, partition, pause, stop
from kafka_chaos.faults.registry import fault_kinds


def test_a_fault_reads_as_a_sentence_and_becomes_an_entry_of_a_schedule() -> None:
    entry = pause("leader(orders)").at(2).lasting(7).entry(load(seconds=20))
    assert entry == {"fault": "pause", "target": "leader(orders)", "at": 2.0, "duration": 7.0}


def test_a_fault_without_an_end_is_healed_when_the_load_ends() -> None:
    assert kill("leader(orders)").at(5).entry(load(seconds=12))["duration"] == 7


def test_a_partition_passes_on_what_it_was_given() -> None:
    entry = partition("broker:2", direction="in", port="replication", action="reject").at(1).entry(load())
    assert {key: entry[key] for key in ("direction", "port", "action")} == {
        "direction": "in",
        "port": "replication",
        "action": "reject",
    }


def test_there_is_a_function_for_every_fault_kind() -> None:
    for kind in fault_kinds():
        assert getattr(kafka_chaos, kind)("controller").kind == kind


def test_values_do_not_change() -> None:
    fault = kill("controller")
    fault.at(3)
    assert fault.start is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        fault.start = 3.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: kill("leaderr(orders)"), "'leaderr(orders)' is not a target: expected leader(LANE)"),
        (lambda: kill(2), "kill: 2 is not a target: expected a role such as 'leader(orders)'"),  # type: ignore[arg-type]
        (lambda: kill("controller").at(-1), "at: -1 is not valid: expected seconds, at least 0"),
        (lambda: kill("controller").at("5"), "at: '5' is not valid"),  # type: ignore[arg-type]
        (lambda: stop("controller").at(1).lasting(float("nan")), "lasting: nan is not valid"),
        (lambda: kill("controller").entry(load()), 'kill("controller"): it has no time, expected .at(SECONDS)'),
        (lambda: partition("broker:1", direction="up"), "direction: expected 'both', 'in' or 'out', got 'up'"),
        (lambda: partition("broker:1", port="client"), "port: expected 'replication' or 'control', got 'client'"),
        (lambda: load(rate=0), "rate: 0 is not valid: expected a whole number, at least 1"),
        (lambda: load(rate=True), "rate: True is not valid"),
        (lambda: load(seconds=0), "seconds: 0 is not valid"),
        (lambda: load(record_size=19), "record_size: 19 is not valid: expected a whole number, at least 20"),
        (lambda: lane(""), "name: '' is not valid"),
        (lambda: lane("orders", acks=2), "acks: 2 is not valid: expected 0, 1 or 'all'"),
    ],
)
def test_a_refusal_names_the_argument_and_what_was_expected(make: Callable[[], Any], expected: str) -> None:
    with pytest.raises(ValueError) as refusal:
        make()
    assert expected in str(refusal.value)


def test_what_is_no_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'kil'"):
        kafka_chaos.kil  # noqa: B018
