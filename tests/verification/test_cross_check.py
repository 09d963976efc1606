"""DuckDB looks at every run beside Spark; where the two disagree, nothing conforms."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.ledger import CrossCheck
from kafka_chaos.verification import cross_check
from kafka_chaos.verification.checker import verify
from kafka_chaos.verification.cross_check import Checked, cross_checked, with_cross_check
from kafka_chaos.verification.inputs.run_directory import open_run
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from tests.verification.samples.run_dirs import Rows
from tests.verification.test_engines import SAMPLES

ONE_LOST = Checked({("a", Anomaly.LOST_WRITE): 1})


def rows_of(count: int, *, lost: tuple[int, ...] = (), lanes: tuple[str, ...] = ("a",), producers: int = 1) -> Rows:
    rows = Rows(lanes=[{"lane": lane} for lane in lanes])
    for lane in lanes:
        for number in range(count):
            where = {"lane": lane, "producer_id": number % producers}
            if number in lost:
                rows.send(number // producers, number, **where)
            else:
                rows.all(number, number // producers, **where)
    return rows


def judged(lane: str = "a", not_judged: tuple[Anomaly, ...] = (), **counts: int) -> RunVerdict:
    entry = LaneVerdict(
        lane=lane,
        verdict=Verdict.CONFORMS,
        produced=10,
        acknowledged=10,
        consumed=10,
        predicted={},
        observed={Anomaly(name): Observation(count) for name, count in counts.items()},
        not_judged=dict.fromkeys(not_judged, "no"),
    )
    return RunVerdict(Path("run"), Verdict.CONFORMS, (entry,))


def test_lost_records_and_missing_offsets_are_counted(tmp_path: Path) -> None:
    run = open_run(rows_of(10, lost=(7,)).write(tmp_path / "run"))
    assert cross_checked(run) == Checked({("a", Anomaly.LOST_WRITE): 1, ("a", Anomaly.OFFSET_GAP): 1})


@pytest.mark.parametrize(
    "sample",
    [pytest.param(one, marks=[] if "every" in one.__name__ else [pytest.mark.slow]) for one in SAMPLES],
    ids=lambda one: one.__name__,
)
def test_what_duckdb_judged_alone_it_counts_again(tmp_path: Path, sample: Any) -> None:
    folder = sample(tmp_path / "run")
    run = open_run(folder)
    verdict = with_cross_check(verify(folder, engine="duckdb"), cross_checked(run), run.rows)
    assert verdict.cross_check.problem is None
    assert verdict.cross_check.disagreements == ()
    assert verdict.cross_check.lanes == len(run.lanes)
    assert verdict.cross_check.rows == run.rows


def test_offsets_far_apart_are_not_counted_one_by_one(tmp_path: Path) -> None:
    rows = rows_of(2).all(10**12, 2)
    assert cross_checked(open_run(rows.write(tmp_path / "run"))).counts["a", Anomaly.OFFSET_GAP] == 10**12 - 2


def test_a_run_that_is_too_large_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_check, "MOST_ROWS", 5)
    run = open_run(rows_of(2).write(tmp_path / "run"))
    assert cross_checked(run).problem == "the run has more than 5 rows"
    monkeypatch.setattr(cross_check, "MOST_ROWS", 6)
    assert cross_checked(run).problem is None


def test_what_is_no_local_file_is_left_alone(tmp_path: Path) -> None:
    run = open_run(rows_of(2).write(tmp_path / "run"))
    assert cross_checked(replace(run, path=None)).problem == "only local run directories are looked at twice"
    counted = {**run.tables, "log": replace(run.tables["log"], counted=2)}
    problem = cross_checked(replace(run, tables=counted)).problem
    assert problem == "not all tables are files of the run directory"


def test_a_damaged_file_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    folder = rows_of(2000).write(tmp_path / "run")
    run = open_run(folder)
    (file,) = (folder / "log").iterdir()
    content = bytearray(file.read_bytes())
    content[4:-2000] = b"\xff" * len(content[4:-2000])
    file.write_bytes(content)
    problem = cross_checked(run).problem
    assert problem is not None
    assert re.match(r"it failed: (\w*Error|Arrow\w+): ", problem)
    file.unlink()
    assert "can't be read" in str(cross_checked(run).problem)


@pytest.mark.parametrize("found", [{}, {"lost_write": 2}, {"lost_write": 1, "duplicate": 1}])
def test_counts_that_differ_make_lane_and_run_unknown(found: dict[str, int]) -> None:
    verdict = with_cross_check(judged(**found), ONE_LOST, 10)
    assert (verdict.verdict, verdict.lanes[0].verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert len(verdict.cross_check.disagreements) == 1
    assert verdict.lanes[0].reasons[0].startswith("the cross-check disagrees on ")


def test_equal_counts_change_nothing() -> None:
    verdict = with_cross_check(judged(lost_write=1), ONE_LOST, 30)
    assert verdict.verdict == Verdict.CONFORMS
    assert verdict.cross_check == CrossCheck(lanes=1, rows=30)
    assert str(verdict.cross_check) == "cross-check: 1 lane, 30 rows"


def test_what_is_not_judged_is_not_compared() -> None:
    not_judged = judged(not_judged=(Anomaly.LOST_WRITE,))
    assert with_cross_check(not_judged, ONE_LOST, 10).verdict == Verdict.CONFORMS


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_on_which_both_agree_says_what_was_looked_at(tmp_path: Path, spark: Any) -> None:
    run_dir = rows_of(50, lanes=("a", "b")).write(tmp_path / "run")
    verdict = verify(run_dir, spark=spark)
    assert verdict.verdict == Verdict.CONFORMS
    assert json.loads((run_dir / "verdict.json").read_text())["cross_check"] == {
        "lanes": 2, "rows": 300, "disagreements": [], "problem": None,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
def test_a_bug_in_spark_makes_the_run_unknown(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka_chaos.verification.engines.spark_engine import Spark

    run_dir = rows_of(1000, lost=tuple(range(0, 1000, 2))).write(tmp_path / "run")
    define = Spark.define

    def wrong(self: Spark, name: str, sql: str, *, keep: bool) -> None:
        few = f"SELECT * FROM ({sql}) q WHERE seq > 900 OR anomaly <> 'lost_write'"
        define(self, name, few if name == "findings" else sql, keep=keep)

    monkeypatch.setattr(Spark, "define", wrong)
    verdict = verify(run_dir, spark=spark)
    assert verdict.verdict == Verdict.UNKNOWN
    (disagreement,) = verdict.cross_check.disagreements
    assert (disagreement.lane, disagreement.anomaly) == ("a", "lost_write")
    assert disagreement.duckdb > disagreement.spark
    assert verdict.lane("a").reasons[0] == str(disagreement)
    assert json.loads((run_dir / "verdict.json").read_text())["verdict"] == "unknown"
