"""Fault kinds by name."""

from __future__ import annotations

import pytest

from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.registry import fault_kind


def test_a_kind_is_found_by_its_name() -> None:
    assert fault_kind("kill") is Kill


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("klil", "'klil' is not a fault kind: expected kill, or another that `kafka-chaos faults` lists"),
        ("", "'' is not a fault kind: expected one that `kafka-chaos faults` lists"),
    ],
)
def test_another_name_is_refused_with_those_that_are_near(name: str, expected: str) -> None:
    with pytest.raises(ValueError, match="is not a fault kind") as refusal:
        fault_kind(name)

    assert str(refusal.value) == expected
