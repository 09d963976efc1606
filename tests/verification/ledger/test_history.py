"""The history: a clean one says so, and none conforms of which too little is known."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.lane.recovery import USUAL_TIMINGS
from kafka_chaos.verification import LaneVerdict, RunDirectoryError, RunVerdict
from tests.verification.ledger.evidence import reasons, with_replicas
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows, prediction, rows_of
from tests.verification.samples.together import Together, together


def test_the_ledger_of_a_conforming_run(tmp_path: Path, verified: Verified) -> None:
    rows = with_replicas(rows_of(faults=["kill"]))
    rows.event("fault_requested", fault_id="k", kind="kill").event("fault_proven", fault_id="k")
    rows.event("fault_healed", fault_id="k")
    for mark in (5, 20):
        rows.event("high_watermark", lane="a", partition=0, broker=1, leader_epoch=0, high_watermark=mark)
    rows.event("isr_changed", lane="a", partition=0, isr=[1, 2, 3])
    rows.timings = {"a": USUAL_TIMINGS.to_json()}
    verdict = verified(rows.write(tmp_path / "run"))
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


def test_a_client_that_failed_leaves_its_lane_unknown(tmp_path: Path, verified: Verified) -> None:
    rows = with_replicas(rows_of())
    rows.event("client_failed", lane="a", role="producer", problem="said 'red', which is no event", last_lines=["red"])
    verdict = verified(rows.write(tmp_path / "run"))
    assert verdict.verdict == Verdict.UNKNOWN
    assert "its producer said 'red', which is no event" in reasons(verdict)


TOGETHER = Together()
UNPLACED = (Verdict.UNKNOWN, True)


@TOGETHER.cases(*((acks, read, UNPLACED) for acks in ("0", "1", "all") for read in (0, 10)))
@TOGETHER.cases(("0", 20, (Verdict.CONFORMS, False)))
def acknowledged_without_offsets(acks: str, read: int) -> Rows:
    rows = rows_of(acks=acks)
    rows.log = None
    for row in rows.produced:
        row["offset"] = None
    del rows.consumed[read:]
    return rows


@TOGETHER.each(acknowledged_without_offsets)
def test_acknowledgements_without_offsets_are_judged_as_far_as_their_records_were_read(
    lane: LaneVerdict, expected: tuple[Verdict, bool]
) -> None:
    assert (lane.verdict, Anomaly.LOST_WRITE in lane.not_judged) == expected
    assert lane.ledger is not None
    assert lane.ledger.acknowledged.judged == lane.consumed


def test_a_cleaned_log_shows_what_nobody_read(tmp_path: Path, verified: Verified) -> None:
    read = rows_of(cleanup_policy="delete")
    assert read.log is not None
    del read.log[:5]
    unread = replace(read, consumed=read.consumed[5:])
    verdict = verified(together({"read": read, "unread": unread}).write(tmp_path / "run"))
    assert verdict.lane("read").verdict == Verdict.CONFORMS
    assert verdict.lane("unread").verdict == Verdict.UNKNOWN
    removed = "5 of 20 acknowledged records are not in the log, from which records are removed"
    assert removed in "; ".join(verdict.lane("unread").reasons)
    assert verified(replace(unread, log=None).write(tmp_path / "without-log")).verdict == Verdict.UNKNOWN


@pytest.mark.parametrize(("status", "verdict"), [("permitted", Verdict.CONFORMS), ("forbidden", Verdict.UNKNOWN)])
def test_what_nobody_can_place_in_a_cleaned_log_is_a_doubt_where_nothing_may_be_lost(
    tmp_path: Path, verified: Verified, status: str, verdict: Verdict
) -> None:
    rows = rows_of(acks="0", cleanup_policy="compact", faults=["kill"])
    rows.prediction = prediction(["a"], lost_write=status)
    rows.produced = [row | {"offset": None} for row in rows.produced]
    assert rows.log is not None
    del rows.log[:5], rows.consumed[:5]
    lane = verified(rows.write(tmp_path / "run")).lanes[0]
    assert (lane.verdict, Anomaly.LOST_WRITE in lane.not_judged) == (verdict, True), lane.reasons


@pytest.mark.parametrize("mark", [0, None])
def test_a_broker_without_a_high_watermark_hides_nothing(tmp_path: Path, verified: Verified, mark: int | None) -> None:
    alike, diverging = with_replicas(rows_of()), with_replicas(rows_of())
    for row in (diverging.replicas or [])[45:]:
        row["seq"] += 100
    for rows in (alike, diverging):
        assert rows.checkpoints is not None
        rows.checkpoints["brokers"]["3"]["a/0"]["high_watermark"] = mark
    verdict = verified(together({"alike": alike, "diverging": diverging}).write(tmp_path / "run"))
    assert verdict.lane("alike").verdict == Verdict.UNKNOWN
    assert Anomaly.REPLICA_DIVERGENCE in verdict.lane("alike").not_judged
    assert verdict.lane("diverging").count(Anomaly.REPLICA_DIVERGENCE) == 15
    assert verdict.lane("diverging").verdict == Verdict.VIOLATION


NAMES = ("${env:HOME}", "it's", 'a"b', "a\\b", "${spark:spark.master}")


@pytest.fixture(scope="module")
def with_any_names(tmp_path_factory: pytest.TempPathFactory, verified: Verified) -> RunVerdict:
    """In each lane with such a name a record is lost; others begin or end like it."""
    histories = {name: rows_of() for name in ("b", "c", "a", "it")}
    histories |= {name: rows_of().send(999, 40) for name in NAMES}
    return verified(together(histories).write(tmp_path_factory.mktemp("names")))


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_of_any_name(with_any_names: RunVerdict, name: str) -> None:
    assert with_any_names.lane(name).count(Anomaly.LOST_WRITE) == 1
    assert all(with_any_names.lane(other).verdict == Verdict.CONFORMS for other in ("b", "c", "a", "it"))


def test_a_prediction_that_is_stricter_than_the_model(tmp_path: Path, verified: Verified) -> None:
    rows = rows_of(acks="1", faults=["kill"])
    rows.send(20, None).event("fault_requested", fault_id="k", kind="kill").event("fault_proven", fault_id="k")
    rows.event("fault_healed", fault_id="k")
    run_dir = rows.write(tmp_path / "run")
    assert verified(run_dir).verdict == Verdict.VIOLATION
    (run_dir / "prediction.json").unlink()
    lenient = verified(run_dir)
    assert lenient.verdict == Verdict.CONFORMS, reasons(lenient)
    assert lenient.lanes[0].ledger.prediction.source == "model"  # type: ignore[union-attr]


def test_a_failed_verification_leaves_no_verdict(tmp_path: Path, verified: Verified) -> None:
    run_dir = rows_of().write(tmp_path / "run")
    verified(run_dir)
    (run_dir / "lanes.json").write_text("{")
    with pytest.raises(RunDirectoryError):
        verified(run_dir)
    assert not (run_dir / "verdict.json").exists()
