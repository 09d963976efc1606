"""Spark and the oracle agree, row by row, on random histories."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.verification.samples.engines import found_by_both
from tests.verification.samples.random_histories import random_history, random_unplaced_history
from tests.verification.samples.run_dirs import write_histories

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("final_log", [True, False])
def test_agreement_on_thousands_of_lanes(tmp_path: Path, spark: Any, final_log: bool, seed: int) -> None:
    random = Random(1000 + seed)
    lanes = {f"lane-{i}": random_history(random, final_log=final_log) for i in range(1500)}
    unplaced = {f"acks0-{i}": random_unplaced_history(random) for i in range(30 if final_log else 0)}
    run_dir = write_histories(tmp_path / "run", {**lanes, **unplaced}, {lane: {"acks": "0"} for lane in unplaced})
    assert found_by_both(run_dir, spark=spark).total() > 1000
