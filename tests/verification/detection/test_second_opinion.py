"""Spark and the oracle agree, row by row, on random histories."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.verification.oracle.rows import LaneHistory
from tests.verification.samples.engines import counted, verified_by_both
from tests.verification.samples.random_histories import random_history, random_unplaced_history
from tests.verification.samples.run_dirs import write_histories

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def assert_agreement(histories: dict[str, LaneHistory], folder: Path, spark: Any) -> int:
    """Both engines judge the histories alike; return how many cases there were."""
    clients = {lane: {"acks": "0"} for lane in histories if lane.startswith("acks0")}
    return counted(verified_by_both(write_histories(folder, histories, clients), spark=spark)).total()


@pytest.mark.parametrize("final_log", [True, False])
def test_agreement_on_many_lanes(tmp_path: Path, spark: Any, final_log: bool) -> None:
    random = Random(20)
    lanes = {f"lane-{i}": random_history(random, final_log=final_log) for i in range(100)}
    if final_log:
        lanes |= {f"acks0-{i}": random_unplaced_history(random) for i in range(30)}
    assert assert_agreement(lanes, tmp_path / "run", spark) > 1000


@pytest.mark.parametrize("final_log", [True, False])
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_agreement_shrinks(
    tmp_path_factory: pytest.TempPathFactory, spark: Any, final_log: bool, random: Random
) -> None:
    lanes = {f"lane-{i}": random_history(random, final_log=final_log) for i in range(3)}
    assert_agreement(lanes, tmp_path_factory.mktemp("runs") / "run", spark)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("final_log", [True, False])
def test_agreement_on_thousands_of_lanes(tmp_path: Path, spark: Any, final_log: bool, seed: int) -> None:
    random = Random(1000 + seed)
    lanes = {f"lane-{i}": random_history(random, final_log=final_log) for i in range(1500)}
    assert_agreement(lanes, tmp_path / "run", spark)
