"""No run without a verdict: anomalies alone and in pairs, in histories of each size, with and without explanations, on
each engine.

How Spark plans a statement depends on the size of the history. All goes through the public checker; only `SIZES` knows
where Spark's sizes begin. DuckDB, which knows few sizes, says what the verdict is.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.verification import by_statements
from kafka_chaos.verification.spark import tuning
from tests.verification.detection.test_planted import PLANTS, RECORDS, planted
from tests.verification.oracle.rows import LaneHistory, Produced, Read, Stored
from tests.verification.samples import planted_groups, planted_transactions
from tests.verification.samples.engines import counted, verified_by_both
from tests.verification.samples.run_dirs import Rows, write_histories

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("everything_forbidden")]

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


def explain(run_dir: Path) -> Path:
    """Let the run have a fault and two leaders of each partition 0, so that every cause is looked for."""
    lanes = [lane["lane"] for lane in json.loads((run_dir / "lanes.json").read_text())["lanes"]]
    rows = Rows().event("fault_requested", ts_ns=1, fault_id="f", kind="kill", lanes=lanes, resolved=["broker-1"])
    rows.event("fault_proven", ts_ns=1, fault_id="f").event("fault_healed", ts_ns=10**12, fault_id="f")
    for lane, epoch in product(lanes, (0, 1)):
        leader = {"broker": epoch + 1, "leader_epoch": epoch, "start_offset": 50 * epoch, "isr": [1, 2]}
        rows.event("leader_elected", ts_ns=10 + epoch, lane=lane, partition=0, **leader)
    (run_dir / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in rows.events or ()))
    return run_dir


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


def of_transactions() -> dict[str, LaneHistory]:
    return {plant.__name__: plant()[0] for plant in planted_transactions.PLANTS}


@pytest.mark.slow
@pytest.mark.parametrize("beside", [30_000, 300_000])
def test_lanes_beside_a_clean_one_of_real_size(tmp_path: Path, spark: Any, beside: int) -> None:
    run_dir = write_histories(tmp_path / "run", of_records(beside))
    verdict = verified_by_both(explain(run_dir), spark=spark)
    assert counted(verdict).keys() >= {plant.__name__ for plant in PLANTS}
    assert not verdict.lane("clean").observed


BY_DAY = (True, "medium")


@pytest.mark.parametrize(
    ("explained", "size"),
    [pytest.param(*case, marks=[] if case == BY_DAY else pytest.mark.slow) for case in product((True, False), SIZES)],
)
def test_anomalies_alone_and_in_pairs(tmp_path: Path, spark: Any, explained: bool, size: str) -> None:
    run_dir = write_histories(tmp_path / "run", of_records())
    with of_size(size):
        verified_by_both(explain(run_dir) if explained else run_dir, spark=spark)


@pytest.mark.slow
@pytest.mark.parametrize("explained", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_anomalies_of_transactions(tmp_path: Path, spark: Any, explained: bool, size: str) -> None:
    run_dir = write_histories(tmp_path / "run", of_transactions())
    with of_size(size):
        verified_by_both(explain(run_dir) if explained else run_dir, spark=spark)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("plant", planted_groups.PLANTS)
def test_anomalies_of_groups(tmp_path: Path, spark: Any, plant: Callable[[], planted_groups.Plant], size: str) -> None:
    run, _ = plant()
    run_dir = write_histories(tmp_path / "run", run.lanes, run.clients, run.committed)
    with of_size(size):
        verified_by_both(explain(run_dir), spark=spark)
