"""The plain checker finds what is planted in lanes with groups and loops, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_chaos.contract.groups import GroupAnomaly
from kafka_chaos.verification.plain.groups import FOUND
from tests.verification.samples.planted_groups import PLANTS, Plant, expected


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planted_anomalies_are_found_and_nothing_else(plant: Callable[[], Plant]) -> None:
    made = plant()
    assert {lane: made[0].checked(lane) for lane in made[0].lanes} == {
        lane: expected(made, lane) for lane in made[0].lanes
    }


def test_every_anomaly_is_planted_and_looked_for() -> None:
    planted = {case.anomaly for plant in PLANTS for cases in plant()[1].values() for case in cases}
    assert planted >= set(GroupAnomaly) == set(FOUND)
