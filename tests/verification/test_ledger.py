"""No verdict without its evidence: what is missing, hidden, doubled or contradictory never conforms."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.verification import RunDirectoryError, verify
from kafka_chaos.verification.judging.result import RunVerdict
from tests.verification.samples.run_dirs import Rows

pytestmark = pytest.mark.spark


def rows_of(count: int = 20, **lane: Any) -> Rows:
    rows = Rows(lanes=[{"lane": "a", **lane}])
    for seq in range(count):
        rows.all(seq, seq)
    return rows


def with_replicas(rows: Rows, count: int = 20, *, brokers: tuple[int, ...] = (1, 2, 3)) -> Rows:
    for broker in brokers:
        for seq in range(count):
            rows.replica(broker, seq, seq)
    entry = {"high_watermark": count, "log_end_offset": count}
    rows.checkpoints = {"brokers": {str(broker): {"a/0": dict(entry)} for broker in (1, 2, 3)}}
    return rows


def judged(rows: Rows, folder: Path, spark: Any) -> RunVerdict:
    return verify(rows.write(folder), spark=spark)


def reasons(verdict: RunVerdict) -> str:
    return "; ".join(verdict.lanes[0].reasons)


def test_the_ledger_of_a_conforming_run(tmp_path: Path, spark: Any) -> None:
    rows = with_replicas(rows_of(faults=["kill"]))
    rows.event("fault_requested", fault_id="k", kind="kill").event("fault_proven", fault_id="k")
    rows.event("fault_healed", fault_id="k")
    for mark in (5, 20):
        rows.event("high_watermark", lane="a", partition=0, broker=1, leader_epoch=0, high_watermark=mark)
    verdict = judged(rows, tmp_path / "run", spark)
    assert verdict.verdict == Verdict.CONFORMS, reasons(verdict)
    written = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert written["tables"]["log"] == {
        "files": [{"file": "log/part-00000.parquet", "rows": 20}],
        "rows_by_footer": 20,
        "rows_as_read": 20,
    }
    assert written["tables"]["replicas"]["rows_as_read"] == 60
    ledger = written["lanes"][0]["ledger"]
    assert written["lanes"][0]["not_judged"] == {}
    assert ledger["complete"] is True
    assert (ledger["missing"], ledger["left_out"]) == ([], [])
    assert ledger["rows"] == {"produced": 20, "consumed": 20, "log": 20, "replicas": 60}
    assert ledger["acknowledged"] == {"records": 20, "judged": 20}
    assert ledger["partitions"] == [{"partition": 0, "log_end": 19, "read_to": 19, "end_reached": True}]
    assert ledger["faults"]["declared"] == ["kill"]
    assert [event["problem"] for event in ledger["faults"]["events"]] == [None]
    assert ledger["replicas"]["replication_factor"] == 3
    (partition,) = ledger["replicas"]["partitions"]
    assert partition["judged_below"] == 20
    assert partition["brokers"][2] == {"broker": 3, "rows": 20, "first": 0, "last": 19, "high_watermark": 20}
    assert ledger["high_watermark_reports"] == 2
    assert ledger["prediction"]["recomputed"] is True
    assert len(ledger["prediction"]["model_digest"]) == 64


# ------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["run[1]", "run{a,b}", "run*", "ru?n", "run:1", "run 1%20", "back\\slash"])
def test_a_run_directory_is_read_by_its_very_name(tmp_path: Path, spark: Any, name: str) -> None:
    rows_of().write(tmp_path / "run1")
    rows_of().write(tmp_path / "runa")
    lossy = rows_of()
    lossy.send(20, 20)
    verdict = judged(lossy, tmp_path / name, spark)
    assert verdict.lanes[0].count(Anomaly.LOST_WRITE) == 1
    assert verdict.verdict == Verdict.VIOLATION


@pytest.mark.parametrize(
    "name", ["_late.parquet", ".x.parquet", "part-1.parquet.bak", ".p.parquet.part", "deep/part.parquet"]
)
def test_records_in_a_file_that_is_not_read(tmp_path: Path, spark: Any, name: str) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    lost = Rows()
    for seq in range(100, 110):
        lost.send(seq, None)
    other = lost.write(tmp_path / "other")
    target = run_dir / "produced" / name
    target.parent.mkdir(exist_ok=True)
    shutil.copy(next((other / "produced").glob("*.parquet")), target)
    verdict = verify(run_dir, spark=spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert f"produced/{name.split('/')[0]}" in reasons(verdict)
    assert not verdict.lanes[0].ledger.complete  # type: ignore[union-attr]


def test_what_writers_leave_beside_a_table_is_no_evidence(tmp_path: Path, spark: Any) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    for name in ("_SUCCESS", "._SUCCESS.crc", "_committed_123", ".DS_Store"):
        (run_dir / "log" / name).write_text("")
    assert verify(run_dir, spark=spark).verdict == Verdict.CONFORMS


@pytest.mark.parametrize("table", ["consumed", "log"])
def test_a_file_that_is_there_twice(tmp_path: Path, spark: Any, table: str) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    shutil.copy(run_dir / table / "part-00000.parquet", run_dir / table / "copy.parquet")
    verdict = verify(run_dir, spark=spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert f"{table}/part-00000.parquet is a copy of {table}/copy.parquet" in reasons(verdict)


@pytest.mark.parametrize("method", ["rows", "runs"])
def test_rows_of_the_log_that_are_there_twice(tmp_path: Path, spark: Any, method: str) -> None:
    from kafka_chaos.verification.tables.scope import Method

    rows = rows_of()
    rows.store(7, 7)
    verdict = verify(rows.write(tmp_path / "run"), spark=spark, method=Method(method))
    assert (verdict.verdict, reasons(verdict)) == (Verdict.UNKNOWN, "log/ holds 1 rows twice")


def test_settings_of_the_session_hide_nothing(tmp_path: Path, spark: Any) -> None:
    run_dir = rows_of(2000).write(tmp_path / "run", files=2)
    file = run_dir / "produced" / "part-00001.parquet"
    content = bytearray(file.read_bytes())
    content[4:2000] = bytes(1996)
    file.write_bytes(content)
    session = spark.newSession()
    for key in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        session.conf.set(key, "true")
    with pytest.raises(RunDirectoryError, match=r"part-00001\.parquet: can't be read"):
        verify(run_dir, spark=session)
    assert not (run_dir / "verdict.json").exists()


@pytest.mark.parametrize("table", ["log", "replicas"])
@pytest.mark.parametrize("nested", [True, False])
def test_an_empty_or_nested_table_is_not_taken_for_none(tmp_path: Path, spark: Any, table: str, nested: bool) -> None:
    run_dir = with_replicas(rows_of()).write(tmp_path / "run")
    if nested:
        (run_dir / table / "lane=a").mkdir()
        (run_dir / table / "part-00000.parquet").rename(run_dir / table / "lane=a" / "part-00000.parquet")
    else:
        (run_dir / table / "part-00000.parquet").unlink()
    verdict = verify(run_dir, spark=spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert f"{table}/" in reasons(verdict)


@pytest.mark.parametrize(
    ("table", "column"), [("produced", "lane"), ("consumed", "seq"), ("consumed", "poll_ns"), ("log", "offset")]
)
def test_nulls_in_a_file_without_statistics(tmp_path: Path, spark: Any, table: str, column: str) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    file = run_dir / table / "part-00000.parquet"
    rows = pq.read_table(file)
    values = rows.column(column).to_pylist()
    values[3] = None
    import pyarrow as pa

    index = rows.column_names.index(column)
    rows = rows.set_column(index, column, pa.array(values, rows.schema.field(column).type))
    pq.write_table(rows, file, write_statistics=False)
    with pytest.raises(RunDirectoryError, match="1 null values, expected none") as refusal:
        verify(run_dir, spark=spark)
    assert (refusal.value.path, refusal.value.column) == (str(file), column)


def test_files_without_statistics_are_judged(tmp_path: Path, spark: Any) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    for table in ("produced", "consumed", "log"):
        file = run_dir / table / "part-00000.parquet"
        pq.write_table(pq.read_table(file), file, write_statistics=False)
    assert verify(run_dir, spark=spark).verdict == Verdict.CONFORMS


# ----------------------------------------------------------------- history


def nothing_read(rows: Rows) -> None:
    rows.consumed.clear()


def half_read(rows: Rows) -> None:
    del rows.consumed[10:]


def no_offsets(rows: Rows) -> None:
    rows.log = None
    for row in rows.produced:
        row["offset"] = None


@pytest.mark.parametrize("read", [nothing_read, half_read])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements_that_nothing_shows(
    tmp_path: Path, spark: Any, read: Callable[[Rows], None], acks: str
) -> None:
    rows = rows_of(acks=acks)
    no_offsets(rows)
    read(rows)
    verdict = judged(rows, tmp_path / "run", spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert Anomaly.LOST_WRITE in verdict.lanes[0].not_judged
    assert verdict.lanes[0].ledger.acknowledged.judged == len(rows.consumed)  # type: ignore[union-attr]


def test_acknowledgements_without_offsets_that_were_all_read(tmp_path: Path, spark: Any) -> None:
    rows = rows_of(acks="0")
    no_offsets(rows)
    verdict = judged(rows, tmp_path / "run", spark)
    assert verdict.verdict == Verdict.CONFORMS
    assert Anomaly.LOST_WRITE not in verdict.lanes[0].not_judged


@pytest.mark.parametrize("outcome", ["info", "fail"])
def test_a_history_without_acknowledgements(tmp_path: Path, spark: Any, outcome: str) -> None:
    rows = Rows()
    for seq in range(20):
        rows.send(seq, None, outcome)
    assert judged(rows, tmp_path / "run", spark).verdict == Verdict.UNKNOWN


def test_a_cleaned_log_that_is_empty(tmp_path: Path, spark: Any) -> None:
    rows = rows_of(cleanup_policy="delete")
    rows.log = []
    assert judged(rows, tmp_path / "run", spark).verdict == Verdict.UNKNOWN


def test_a_cleaned_log_shows_what_nobody_read(tmp_path: Path, spark: Any) -> None:
    rows = rows_of(cleanup_policy="delete")
    assert rows.log is not None
    del rows.log[:5]
    assert judged(rows, tmp_path / "read", spark).verdict == Verdict.CONFORMS
    del rows.consumed[:5]
    verdict = judged(rows, tmp_path / "unread", spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert "5 of 20 acknowledged records" in reasons(verdict)


def test_a_declared_fault_that_no_event_reports(tmp_path: Path, spark: Any) -> None:
    rows = rows_of(faults=["kill"])
    rows.events = []
    assert judged(rows, tmp_path / "run", spark).verdict == Verdict.UNKNOWN


def test_a_run_that_was_cut_off(tmp_path: Path, spark: Any) -> None:
    """Whatever was read: if a load did not end, or an announced table is absent, evidence is missing."""
    rows = Rows(lanes=[{"lane": "a"}, {"lane": "b"}])
    for seq in range(20):
        rows.all(seq, seq)
        rows.all(seq, seq, lane="b")
    rows.event("run_started", run_id="r", experiment="e", lanes=["a", "b"], collects=["log", "replicas"])
    rows.event("phase_started", phase="one", lanes=["a"])
    rows.event("phase_started", phase="two", lanes=["b"])
    rows.event("phase_ended", phase="two")
    verdict = judged(rows, tmp_path / "run", spark)
    unfinished = "the load of phase one never ended: events.jsonl reports no phase_ended"
    announced = "replicas/ is missing: events.jsonl announces it, so the run ended before it was collected"
    assert verdict.verdict == Verdict.UNKNOWN
    assert {lane.lane: set(lane.reasons) & {unfinished, announced} for lane in verdict.lanes} == {
        "a": {unfinished, announced},
        "b": {announced},
    }


# ------------------------------------------------- names, places, prediction


@pytest.mark.parametrize("name", ["${env:HOME}", "it's", 'a"b', "a\\b", "${spark:spark.master}"])
def test_a_lane_of_any_name(tmp_path: Path, spark: Any, name: str) -> None:
    rows = Rows(lanes=[{"lane": name}, {"lane": "b"}, {"lane": "c"}])
    for seq in range(40):
        rows.all(seq, 4 * seq, lane=name)
        rows.all(seq, seq, lane="b").all(seq, seq, lane="c")
    rows.send(999, 40, lane=name)
    from kafka_chaos.verification.tables.scope import Method

    for method in Method:
        verdict = verify(rows.write(tmp_path / method), spark=spark, method=method)
        assert verdict.lane(name).count(Anomaly.LOST_WRITE) == 1
        assert verdict.lane("b").verdict == Verdict.CONFORMS


@pytest.mark.parametrize("method", ["rows", "runs"])
@pytest.mark.parametrize("table", ["produced", "consumed", "log", "replicas"])
def test_a_partition_outside_the_lane(tmp_path: Path, spark: Any, table: str, method: str) -> None:
    from kafka_chaos.verification.tables.scope import Method

    rows = with_replicas(rows_of())
    getattr(rows, table)[3]["partition"] = 1
    with pytest.raises(RunDirectoryError, match="lane 'a' has partitions 0 to 0, not 1") as refusal:
        verify(rows.write(tmp_path / "run"), spark=spark, method=Method(method))
    assert refusal.value.path.endswith(f"{table}/part-00000.parquet")


def test_a_prediction_that_permits_more_than_the_model(tmp_path: Path, spark: Any) -> None:
    rows = rows_of()
    run_dir = rows.write(tmp_path / "run")
    document = json.loads((run_dir / "prediction.json").read_text())
    for looser in ("permitted", "required"):
        document["lanes"]["a"]["anomalies"]["lost_write"]["status"] = looser
        (run_dir / "prediction.json").write_text(json.dumps(document))
        with pytest.raises(RunDirectoryError, match="the model says forbidden") as refusal:
            verify(run_dir, spark=spark)
        assert refusal.value.column == "lanes.a.anomalies.lost_write.status"


def test_a_prediction_that_is_stricter_than_the_model(tmp_path: Path, spark: Any) -> None:
    rows = rows_of(acks="1", faults=["kill"])
    rows.send(20, None).event("fault_requested", fault_id="k", kind="kill").event("fault_proven", fault_id="k")
    rows.event("fault_healed", fault_id="k")
    run_dir = rows.write(tmp_path / "run")
    assert verify(run_dir, spark=spark).verdict == Verdict.VIOLATION
    (run_dir / "prediction.json").unlink()
    lenient = verify(run_dir, spark=spark)
    assert lenient.verdict == Verdict.CONFORMS, reasons(lenient)
    assert lenient.lanes[0].ledger.prediction.source == "model"  # type: ignore[union-attr]


def test_a_failed_verification_leaves_no_verdict(tmp_path: Path, spark: Any) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    verify(run_dir, spark=spark)
    (run_dir / "lanes.json").write_text("{")
    with pytest.raises(RunDirectoryError):
        verify(run_dir, spark=spark)
    assert not (run_dir / "verdict.json").exists()


# ---------------------------------------------------------------- replicas


def test_replicas_under_a_lane_that_is_not_there(tmp_path: Path, spark: Any) -> None:
    rows = with_replicas(rows_of())
    rows.replica(1, 5, 5, lane="b")
    with pytest.raises(RunDirectoryError, match=r"'b' is not in lanes\.json"):
        judged(rows, tmp_path / "run", spark)


@pytest.mark.parametrize("mark", [0, None])
def test_a_broker_without_a_high_watermark_hides_nothing(tmp_path: Path, spark: Any, mark: int | None) -> None:
    rows = with_replicas(rows_of())
    assert rows.checkpoints is not None
    assert rows.replicas is not None
    rows.checkpoints["brokers"]["3"]["a/0"]["high_watermark"] = mark
    verdict = judged(rows, tmp_path / "run", spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert Anomaly.REPLICA_DIVERGENCE in verdict.lanes[0].not_judged
    for row in rows.replicas[45:]:
        row["seq"] += 100
    diverging = judged(rows, tmp_path / "diverging", spark)
    assert diverging.lanes[0].count(Anomaly.REPLICA_DIVERGENCE) == 15
    assert diverging.verdict == Verdict.VIOLATION


@pytest.mark.parametrize("brokers", [(1,), (1, 2)])
@pytest.mark.parametrize("checkpoints", [True, False])
def test_replicas_that_are_not_there(tmp_path: Path, spark: Any, brokers: tuple[int, ...], checkpoints: bool) -> None:
    rows = with_replicas(rows_of(), brokers=brokers)
    if not checkpoints:
        rows.checkpoints = None
    verdict = judged(rows, tmp_path / "run", spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert f"{len(brokers)} of 3 replicas" in verdict.lanes[0].not_judged[Anomaly.REPLICA_DIVERGENCE]


def test_a_hole_in_a_replica(tmp_path: Path, spark: Any) -> None:
    rows = with_replicas(rows_of())
    assert rows.replicas is not None
    del rows.replicas[25:28]
    verdict = judged(rows, tmp_path / "run", spark)
    assert verdict.verdict == Verdict.UNKNOWN
    assert "the replica of broker 2 has 17 rows for 20 offsets" in reasons(verdict)


def test_equal_high_watermarks_are_no_regression(tmp_path: Path, spark: Any) -> None:
    rows = rows_of()
    for mark in (5, 5, 7):
        rows.event("high_watermark", lane="a", partition=0, broker=1, leader_epoch=0, high_watermark=mark)
    verdict = judged(rows, tmp_path / "run", spark)
    assert verdict.verdict == Verdict.CONFORMS
    assert verdict.lanes[0].count(Anomaly.HIGH_WATERMARK_REGRESSION) == 0


@pytest.mark.parametrize(
    "event",
    [
        {"type": "high_watermark", "lane": "a", "partition": 0, "leader_epoch": 0, "high_watermrak": 5},
        {"type": "high_watermark", "lane": "b", "partition": 0, "leader_epoch": 0, "high_watermark": 5},
        {"type": "high_watermark", "lane": "a", "partition": 1, "leader_epoch": 0, "high_watermark": 5},
        {"type": "high_watermark", "lane": "a", "partition": 0, "leader_epoch": "0", "high_watermark": 5},
        {"type": "fault_proven", "fault_id": "k", "evidnce": {}},
        {"type": "fault_healed"},
        {"type": "phase_ended"},
        {"type": "phase_started", "phase": "one", "lanes": ["b"]},
        {"type": "run_started", "collects": ["logs"]},
    ],
)
def test_an_event_with_a_wrong_field(tmp_path: Path, spark: Any, event: dict[str, Any]) -> None:
    rows = rows_of()
    rows.event(event.pop("type"), **event)
    with pytest.raises(RunDirectoryError, match=r"events\.jsonl: line 1"):
        judged(rows, tmp_path / "run", spark)
