"""The anomalies of groups and loops: planted ones are found alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.groups import GroupAnomaly
from tests.night import a_third_by_day
from tests.verification.oracle.groups import FOUND
from tests.verification.samples.engines import Verified
from tests.verification.samples.planted_groups import PLANTS, Plant, expected
from tests.verification.samples.run_dirs import read_cases, read_causes

pytestmark = pytest.mark.usefixtures("everything_forbidden")


CAUSES = {
    "processed_twice": {"input of lane in, with 2 outputs"},
    "not_processed": {"input of lane in", "input of lane in, with 2 outputs"},
    "commit_lost": {"committed by in-group-2-1; in the end, 3 is committed"},
    "began_behind": {"committed by in-group-2-0; behind began at 2"},
    "commit_regressed": {"in-group-1-0 committed behind 6, by in-group-2-0"},
    "owned_twice": {"in-group-2-0 and twin in generation 2"},
    "owned_twice_in_two_epochs": {"in-group-1-0 and in-group-2-0, in epochs 1 and 2"},
}
"""By plant what its findings say of why."""


@pytest.mark.parametrize("plant", a_third_by_day(PLANTS), ids=lambda plant: plant.__name__)
def test_planted_anomalies_are_found_and_nothing_else(
    tmp_path: Path, verified: Verified, plant: Callable[[], Plant]
) -> None:
    made = plant()
    run_dir = made[0].write(tmp_path / "run")
    verdict = verified(run_dir)
    found = read_cases(run_dir)
    assert {lane: found.get(lane, []) for lane in made[0].lanes} == {
        lane: expected(made, lane) for lane in made[0].lanes
    }
    verdicts = {lane.lane: (lane.verdict, lane.reasons) for lane in verdict.lanes}
    for lane, (given, reasons) in verdicts.items():
        assert given == (Verdict.VIOLATION if expected(made, lane) else Verdict.CONFORMS), reasons
    if causes := CAUSES.get(plant.__name__):
        assert {cause for _, _, cause in read_causes(run_dir)} == causes


def test_every_anomaly_is_planted_and_looked_for() -> None:
    planted = {case.anomaly for plant in PLANTS for cases in plant()[1].values() for case in cases}
    assert planted >= set(GroupAnomaly) == set(FOUND)
