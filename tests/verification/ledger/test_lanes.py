"""Names of lanes, places of partitions, and predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.verification import RunDirectoryError
from tests.verification.ledger.evidence import reasons, rows_of, with_replicas
from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows


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
