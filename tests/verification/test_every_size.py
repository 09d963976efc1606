"""No run without a verdict: anomalies alone and in pairs, in histories of each size, with and without explanations, on
each engine.

How Spark plans a statement depends on the size of the history. All goes through the public checker; only `SIZES` knows
where Spark's sizes begin. DuckDB, which knows few sizes, says what the verdict is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.verification import by_statements
from kafka_chaos.verification.spark import tuning
from tests.verification.detection.test_planted import PLANTS, RECORDS, planted
from tests.verification.oracle.rows import LaneHistory, Produced, Read, Stored
from tests.verification.samples import planted_groups
from tests.verification.samples.engines import counted, verified_by_both
from tests.verification.samples.run_dirs import write_histories
from tests.verification.test_engines import explain, lanes_of_transactions

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.usefixtures("everything_forbidden")]

SIZES: dict[str, dict[str, int]] = {"small": {}, "medium": {"SMALL": 100}, "large": {"SMALL": 100, "LARGE": 200}}
"""By size the borders, in rows, with which a history of some hundred rows is of that size.

A medium one and a large one are filtered first.
"""


@contextmanager
def of_size(size: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, rows in SIZES[size].items():
            patch.setattr(tuning, name, rows)
            patch.setattr(by_statements, "FILTERED_FROM", rows)
        yield


def clean(records: int) -> LaneHistory:
    """Every record is acknowledged, stored and read."""
    numbers = range(records)
    return LaneHistory(
        produced=[Produced(0, i, 0, i, "ok") for i in numbers],
        log=[Stored(0, i, 0, i) for i in numbers],
        consumed=[Read("c", 0, i, 0, i, i) for i in numbers],
    )


def of_records(beside: int = RECORDS) -> dict[str, LaneHistory]:
    """A lane for each plant and for each pair of plants, and a clean one of `beside` records."""
    histories, _ = planted()
    return {**histories, "clean": clean(beside)}


@pytest.mark.parametrize("beside", [30_000, 300_000])
def test_lanes_beside_a_clean_one_of_real_size(tmp_path: Path, spark: Any, beside: int) -> None:
    run_dir = write_histories(tmp_path / "run", of_records(beside))
    verdict = verified_by_both(explain(run_dir), spark=spark)
    assert counted(verdict).keys() >= {plant.__name__ for plant in PLANTS}
    assert not verdict.lane("clean").observed


@pytest.mark.parametrize("explained", [True, False])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("planted_in", [of_records, lanes_of_transactions])
def test_anomalies_alone_and_in_pairs_and_those_of_transactions(
    tmp_path: Path, spark: Any, planted_in: Callable[[], dict[str, LaneHistory]], explained: bool, size: str
) -> None:
    run_dir = write_histories(tmp_path / "run", planted_in())
    with of_size(size):
        verified_by_both(explain(run_dir) if explained else run_dir, spark=spark)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("plant", planted_groups.PLANTS)
def test_anomalies_of_groups(tmp_path: Path, spark: Any, plant: Callable[[], planted_groups.Plant], size: str) -> None:
    run_dir = plant()[0].write(tmp_path / "run")
    with of_size(size):
        verified_by_both(explain(run_dir), spark=spark)
