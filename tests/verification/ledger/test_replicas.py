"""Replicas, their checkpoints and the events of brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.verification import RunDirectoryError
from tests.verification.ledger.evidence import judged, reasons, rows_of, with_replicas
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows


def test_replicas_under_a_lane_that_is_not_there(tmp_path: Path, verified: Verified) -> None:
    rows = with_replicas(rows_of())
    rows.replica(1, 5, 5, lane="b")
    with pytest.raises(RunDirectoryError, match=r"'b' is not in lanes\.json"):
        judged(rows, tmp_path / "run", verified)


@pytest.mark.parametrize("mark", [0, None])
def test_a_broker_without_a_high_watermark_hides_nothing(tmp_path: Path, verified: Verified, mark: int | None) -> None:
    rows = with_replicas(rows_of())
    assert rows.checkpoints is not None
    assert rows.replicas is not None
    rows.checkpoints["brokers"]["3"]["a/0"]["high_watermark"] = mark
    verdict = judged(rows, tmp_path / "run", verified)
    assert verdict.verdict == Verdict.UNKNOWN
    assert Anomaly.REPLICA_DIVERGENCE in verdict.lanes[0].not_judged
    for row in rows.replicas[45:]:
        row["seq"] += 100
    diverging = judged(rows, tmp_path / "diverging", verified)
    assert diverging.lanes[0].count(Anomaly.REPLICA_DIVERGENCE) == 15
    assert diverging.verdict == Verdict.VIOLATION


@pytest.mark.parametrize("brokers", [(1,), (1, 2)])
@pytest.mark.parametrize("checkpoints", [True, False])
def test_replicas_that_are_not_there(
    tmp_path: Path, verified: Verified, brokers: tuple[int, ...], checkpoints: bool
) -> None:
    rows = with_replicas(rows_of(), brokers=brokers)
    if not checkpoints:
        rows.checkpoints = None
    verdict = judged(rows, tmp_path / "run", verified)
    assert verdict.verdict == Verdict.UNKNOWN
    assert f"{len(brokers)} of 3 replicas" in verdict.lanes[0].not_judged[Anomaly.REPLICA_DIVERGENCE]


def test_a_hole_in_a_replica(tmp_path: Path, verified: Verified) -> None:
    rows = with_replicas(rows_of())
    assert rows.replicas is not None
    del rows.replicas[25:28]
    verdict = judged(rows, tmp_path / "run", verified)
    assert verdict.verdict == Verdict.UNKNOWN
    assert "the replica of broker 2 has 17 rows for 20 offsets" in reasons(verdict)


def test_equal_high_watermarks_are_no_regression(tmp_path: Path, verified: Verified) -> None:
    rows = rows_of()
    for mark in (5, 5, 7):
        rows.event("high_watermark", lane="a", partition=0, broker=1, leader_epoch=0, high_watermark=mark)
    verdict = judged(rows, tmp_path / "run", verified)
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
def test_an_event_with_a_wrong_field(tmp_path: Path, verified: Verified, event: dict[str, Any]) -> None:
    rows = rows_of()
    rows.event(event["type"], **{name: value for name, value in event.items() if name != "type"})
    with pytest.raises(RunDirectoryError, match=r"events\.jsonl: line 1"):
        judged(rows, tmp_path / "run", verified)


@pytest.mark.parametrize("name", ["${env:HOME}", "it's", 'a"b', "a\\b", "${spark:spark.master}"])
def test_a_lane_of_any_name(tmp_path: Path, verified: Verified, name: str) -> None:
    rows = Rows(lanes=[{"lane": name}, {"lane": "b"}, {"lane": "c"}])
    for seq in range(40):
        rows.all(seq, 4 * seq, lane=name)
        rows.all(seq, seq, lane="b").all(seq, seq, lane="c")
    rows.send(999, 40, lane=name)
    verdict = verified(rows.write(tmp_path / "run"), all_methods=True)
    assert verdict.lane(name).count(Anomaly.LOST_WRITE) == 1
    assert verdict.lane("b").verdict == Verdict.CONFORMS


@pytest.mark.parametrize("table", ["produced", "consumed", "log", "replicas"])
def test_a_partition_outside_the_lane(tmp_path: Path, verified: Verified, table: str) -> None:
    rows = with_replicas(rows_of())
    getattr(rows, table)[3]["partition"] = 1
    with pytest.raises(RunDirectoryError, match="lane 'a' has partitions 0 to 0, not 1") as refusal:
        verified(rows.write(tmp_path / "run"), all_methods=True)
    assert refusal.value.path.endswith(f"{table}/part-00000.parquet")


def test_a_prediction_that_permits_more_than_the_model(tmp_path: Path, verified: Verified) -> None:
    rows = rows_of()
    run_dir = rows.write(tmp_path / "run")
    document = json.loads((run_dir / "prediction.json").read_text())
    for looser in ("permitted", "required"):
        document["lanes"]["a"]["anomalies"]["lost_write"]["status"] = looser
        (run_dir / "prediction.json").write_text(json.dumps(document))
        with pytest.raises(RunDirectoryError, match="the model says forbidden") as refusal:
            verified(run_dir)
        assert refusal.value.column == "lanes.a.anomalies.lost_write.status"


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
