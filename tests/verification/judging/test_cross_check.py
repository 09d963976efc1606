"""The plain checker looks at every run beside Spark; where the two disagree, nothing conforms."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.columns import FINDINGS, arrow_schema
from kafka_chaos.contract.ledger import CrossCheck
from kafka_chaos.verification.checker import verify
from kafka_chaos.verification.inputs.run_directory import open_run
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.plain import cross_check
from kafka_chaos.verification.plain.cross_check import Checked, LaneChecked, cross_checked, with_cross_check
from kafka_chaos.verification.plain.rows import Case
from tests.verification.samples.run_dirs import Rows
from tests.verification.test_engines import SAMPLES

LOST = Case("lost_write", 0, 7, 0, 7)


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


def test_a_small_run_is_looked_at_whole(tmp_path: Path) -> None:
    run = open_run(rows_of(10, lost=(7,)).write(tmp_path / "run"))
    assert cross_checked(run) == Checked(
        {"a": LaneChecked(10 + 9 + 9, Counter([LOST, Case("offset_gap", 0, 7, None, None)]))}
    )


def test_replicas_are_compared_below_the_lowest_high_watermark(tmp_path: Path) -> None:
    rows = rows_of(2).replica(1, 0, 0).replica(1, 1, 1).replica(2, 0, 0).replica(2, 1, 5)
    found = cross_checked(open_run(rows.write(tmp_path / "run"))).lanes["a"].cases
    assert [case.anomaly for case in found] == ["replica_divergence"]
    rows.checkpoints = {
        "brokers": {str(broker): {"a/0": {"high_watermark": mark}} for broker, mark in ((1, 2), (2, 1), (3, None))}
    }
    assert cross_checked(open_run(rows.write(tmp_path / "again"))).lanes["a"].cases == {}


def test_lanes_that_fit_are_looked_at_whole_and_of_others_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(1000, lost=tuple(range(400, 600)), lanes=("large",))
    rows.lanes.append({"lane": "small"})
    for number in range(10):
        rows.all(number, number, lane="small")
    monkeypatch.setattr(cross_check, "ROWS", 500)
    found = cross_checked(open_run(rows.write(tmp_path / "run"))).lanes
    assert (found["small"].rows, found["small"].identities) == (30, None)
    large = found["large"]
    assert large.identities is not None
    assert 300 < large.rows <= 500
    seqs = sorted(seq for _, seq in large.identities)
    assert seqs[0] == 0
    assert seqs[-1] > 850
    assert {case.seq for case in large.cases} == {seq for seq in seqs if 400 <= seq < 600}
    assert {case.anomaly for case in large.cases} == {"lost_write"}


def test_a_sample_of_many_producers_holds_some_of_them_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_check, "ROWS", 300)
    sample = cross_checked(open_run(rows_of(4000, producers=20).write(tmp_path / "run"))).lanes["a"]
    assert sample.identities is not None
    producers = {producer_id for producer_id, _ in sample.identities}
    assert 1 < len(producers) < 20
    assert producers == set(range(len(producers)))
    assert len(sample.identities) * 3 == sample.rows
    assert sample.cases == {}


def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Rows, most: int) -> Checked:
    monkeypatch.setattr(cross_check, "ROWS", most)
    return cross_checked(open_run(rows.write(tmp_path / "run")))


@pytest.mark.parametrize(
    ("count", "most", "stride", "width"),
    [
        # Records have three rows: 100 of them fit four of each window's, as do 20 none, of which it takes one.
        (95, 100, 11, 4),
        (95, 20, 11, 1),
        (100, 100, 12, 4),
    ],
)
def test_a_sample_has_the_first_records_of_each_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, most: int, stride: int, width: int
) -> None:
    found = sampled(tmp_path, monkeypatch, rows_of(count), most).lanes["a"]
    assert found.identities == {(0, seq) for seq in range(count) if seq % stride < width}
    assert found.rows == 3 * len(found.identities)


def test_a_sample_of_few_sequence_numbers_has_all_of_the_first_producers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sampled(tmp_path, monkeypatch, rows_of(140, producers=20), 40).lanes["a"]
    assert found.identities == {(producer, seq) for producer in range(3) for seq in range(7)}


def test_a_sample_counts_the_rows_of_the_log_of_each_producer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(140, producers=20)
    for number in range(60):
        rows.store(1000 + number, 0)
    found = sampled(tmp_path, monkeypatch, rows, 50).lanes["a"]
    assert found.identities is not None
    assert {producer for producer, _ in found.identities} == {0}


def test_the_smallest_lanes_are_looked_at_whole_as_long_as_they_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(20)
    rows.lanes += [{"lane": "b"}, {"lane": "c"}]
    for lane, count in (("b", 10), ("c", 5)):
        for number in range(count):
            rows.all(number, number, lane=lane)
    found = sampled(tmp_path, monkeypatch, rows, 45).lanes
    assert {lane: one.rows for lane, one in found.items() if one.identities is None} == {"b": 30, "c": 15}
    assert "a" not in found, "no row is left for it"
    monkeypatch.setattr(cross_check, "ROWS", 60)
    found = cross_checked(open_run(tmp_path / "run")).lanes
    assert {lane for lane, one in found.items() if one.identities is None} == {"b", "c"}
    assert found["a"].identities == {(0, seq) for seq in range(0, 20, 2)}


@pytest.mark.parametrize(
    "keys",
    [{"idempotence": True, "transactional": {"producers": 1}}, {"group": {"members": 2}}],
    ids=["transactions", "group"],
)
def test_no_sample_is_taken_of_transactions_and_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    rows = rows_of(100, lanes=("a", "b"))
    rows.lanes[0] |= keys
    rows.transactions, rows.assignments, rows.commits = [], [], []
    found = sampled(tmp_path, monkeypatch, rows, 100)
    assert (found.problem, [*found.lanes]) == (None, ["b"])


def test_a_lane_that_sent_nothing_has_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows()
    for number in range(10):
        rows.store(number, number)
    assert sampled(tmp_path, monkeypatch, rows, 5) == Checked({})


def test_of_a_table_without_sequence_numbers_it_takes_all_rows_of_its_lanes() -> None:
    sample = cross_check._Sample(("b", "c"), np.ones(2, dtype=np.int64), np.ones(2, dtype=np.int64))
    lanes = pa.array(["a", "b", "c", None, "b"])
    assert sample.of(pa.record_batch({"lane": lanes})).to_pydict() == {"lane": ["b", "c", "b"]}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.__name__)
def test_both_count_the_same_in_whole_lanes(tmp_path: Path, sample: Any) -> None:
    folder = sample(tmp_path / "run")
    run = open_run(folder)
    checked = cross_checked(run)
    assert (checked.problem, checked.lanes.keys()) == (None, {lane.lane for lane in run.lanes})
    verdict = with_cross_check(verify(folder, engine="plain"), checked, None, run.rows)
    assert verdict.cross_check.disagreements == ()
    assert verdict.cross_check.whole_lanes == len(run.lanes)
    assert verdict.cross_check.rows == run.rows


def test_offsets_far_apart_are_not_counted_one_by_one(tmp_path: Path) -> None:
    rows = rows_of(2).all(10**12, 2)
    cases = cross_checked(open_run(rows.write(tmp_path / "run"))).lanes["a"].cases
    assert cases == {Case("offset_gap", 0, 2, None, None): 10**12 - 2}


def test_a_run_that_is_too_large_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_check, "MOST_SCANNED", 5)
    run = open_run(rows_of(2).write(tmp_path / "run"))
    assert cross_checked(run).problem == "the run has more than 5 rows"
    monkeypatch.setattr(cross_check, "MOST_SCANNED", 6)
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
    verdict = with_cross_check(judged(**found), Checked({"a": LaneChecked(10, Counter([LOST]))}), None, 10)
    assert (verdict.verdict, verdict.lanes[0].verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert len(verdict.cross_check.disagreements) == 1
    assert verdict.lanes[0].reasons[0].startswith("the cross-check disagrees on ")


def test_equal_counts_change_nothing() -> None:
    verdict = with_cross_check(judged(lost_write=1), Checked({"a": LaneChecked(10, Counter([LOST]))}), None, 30)
    assert verdict.verdict == Verdict.CONFORMS
    assert verdict.cross_check == CrossCheck(lanes=1, whole_lanes=1, rows=10, of_rows=30)
    assert str(verdict.cross_check) == "cross-check: 1 lane, 10 of 30 rows"


def test_cases_of_one_anomaly_add_up() -> None:
    verdict = with_cross_check(judged(lost_write=2), Checked({"a": LaneChecked(10, Counter([LOST, OTHER]))}), None, 30)
    assert verdict.cross_check.disagreements == ()
    far = Counter({Case("offset_gap", 0, 2, None, None): 20_000, Case("offset_gap", 1, 2, None, None): 1})
    assert not with_cross_check(
        judged(offset_gap=20_001), Checked({"a": LaneChecked(9, far)}), None, 9
    ).cross_check.disagreements


def test_what_is_not_judged_is_not_compared() -> None:
    not_judged = judged(not_judged=(Anomaly.LOST_WRITE,))
    assert (
        with_cross_check(not_judged, Checked({"a": LaneChecked(10, Counter([LOST]))}), None, 10).verdict
        == Verdict.CONFORMS
    )


def test_a_sample_without_findings_is_not_compared() -> None:
    sampled = Checked({"a": LaneChecked(10, Counter([LOST]), frozenset({(0, 7)}))})
    assert str(with_cross_check(judged(), sampled, None, 30).cross_check) == "cross-check: 0 lanes, 0 of 30 rows"


def findings(folder: Path, *cases: tuple[str, Case]) -> Path:
    rows = [{"lane": lane, "cause": None, **case._asdict()} for lane, case in cases]
    folder.mkdir()
    for number, row in enumerate(rows):
        pq.write_table(pa.Table.from_pylist([row], schema=arrow_schema(FINDINGS)), folder / f"{number}.parquet")
    return folder


OTHER, UNSEEN = Case("lost_write", 0, 8, 0, 8), Case("unseen", 0, 7, 0, 7)
SAMPLE = Checked({"a": LaneChecked(10, Counter([LOST]), frozenset({(0, 6), (0, 7)}))})


@pytest.mark.parametrize(
    ("found", "differing"),
    [
        ([("a", LOST)], None),
        ([("a", LOST), ("a", OTHER), ("a", UNSEEN), ("b", LOST)], None),
        ([("a", OTHER)], ("lost_write", 0, 1)),
        ([("a", LOST._replace(offset=9))], ("lost_write", 1, 1)),
        ([("a", LOST), ("a", LOST._replace(seq=6))], ("lost_write", 2, 1)),
        ([("a", LOST), ("a", LOST._replace(anomaly="duplicate"))], ("duplicate", 1, 0)),
    ],
)
def test_a_sample_is_compared_record_by_record(
    tmp_path: Path, found: list[tuple[str, Case]], differing: tuple[str, int, int] | None
) -> None:
    verdict = with_cross_check(judged(lost_write=1), SAMPLE, findings(tmp_path / "findings", *found), 30)
    look = verdict.cross_check
    assert (look.lanes, look.whole_lanes, look.rows) == (1, 0, 10)
    assert [(one.anomaly, one.spark, one.plain) for one in look.disagreements] == ([differing] if differing else [])
    assert verdict.verdict == (Verdict.UNKNOWN if differing else Verdict.CONFORMS)


def test_without_a_log_a_sample_tells_nothing_of_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a record was passed, reads of others tell."""
    rows = rows_of(1000, lost=(0, 1))
    rows.log = None
    monkeypatch.setattr(cross_check, "ROWS", 500)
    checked = cross_checked(open_run(rows.write(tmp_path / "run")))
    lost = Case("lost_write", 0, 0, 0, 0)
    assert (0, 0) in (checked.lanes["a"].identities or ())
    found = findings(tmp_path / "findings", ("a", lost))
    assert with_cross_check(judged(lost_write=1), checked, found, 30).cross_check.disagreements == ()
    twice = findings(tmp_path / "twice", ("a", lost._replace(anomaly="duplicate")))
    (one,) = with_cross_check(judged(duplicate=1), checked, twice, 30).cross_check.disagreements
    assert (one.anomaly, one.spark, one.plain) == ("duplicate", 1, 0)


@pytest.mark.spark
def test_a_run_on_which_both_agree_says_what_was_looked_at(tmp_path: Path, spark: Any) -> None:
    run_dir = rows_of(50, lanes=("a", "b")).write(tmp_path / "run")
    verdict = verify(run_dir, spark=spark)
    assert verdict.verdict == Verdict.CONFORMS
    assert json.loads((run_dir / "verdict.json").read_text())["cross_check"] == {
        "lanes": 2, "whole_lanes": 2, "rows": 300, "of_rows": 300, "disagreements": [], "problem": None,
    }  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("most_rows", [20_000, pytest.param(1_000, marks=pytest.mark.slow)], ids=["whole", "sample"])
def test_a_bug_in_spark_makes_the_run_unknown(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    from kafka_chaos.verification.detection import anomalies

    monkeypatch.setattr(cross_check, "ROWS", most_rows)
    run_dir = rows_of(1000, lost=tuple(range(0, 1000, 2))).write(tmp_path / "run")
    assert verify(run_dir, spark=spark).verdict == Verdict.VIOLATION
    right = anomalies.FINDERS[Anomaly.LOST_WRITE]
    wrong = replace(right, cases=lambda *given: right.cases(*given).where("seq > 900"))
    monkeypatch.setattr(anomalies, "FINDERS", {**anomalies.FINDERS, Anomaly.LOST_WRITE: wrong})
    verdict = verify(run_dir, spark=spark)
    assert verdict.verdict == Verdict.UNKNOWN
    (disagreement,) = verdict.cross_check.disagreements
    assert (disagreement.lane, disagreement.anomaly) == ("a", "lost_write")
    assert disagreement.plain > disagreement.spark
    assert verdict.lane("a").reasons[0] == str(disagreement)
    assert json.loads((run_dir / "verdict.json").read_text())["verdict"] == "unknown"
