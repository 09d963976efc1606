"""Configuration that decides what a lane may show does so on brokers: flushes, retention, unclean elections of offsets,
verification of transactions. What becomes of a late record without verification: `test_late_record_on_cluster.py`."""

import json
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.runner import run_experiment

SETTINGS = Path(__file__).with_name("settings.yaml")


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_four_settings_have_the_status_that_brokers_show(tmp_path: Path) -> None:
    result = run_experiment(parse_experiment(SETTINGS.read_text(), "settings.yaml"), root=tmp_path)
    flushed, unflushed, expiring, read, unverified = result.verdict.lanes
    # One loss of power hits both: what was flushed is there, what was not is gone.
    assert flushed.predicted[Anomaly.LOST_WRITE] == Status.FORBIDDEN
    assert unflushed.predicted[Anomaly.LOST_WRITE] == Status.PERMITTED
    assert unflushed.observed[Anomaly.LOST_WRITE].count > 0
    assert flushed.verdict == unflushed.verdict == Verdict.CONFORMS, (flushed.reasons, unflushed.reasons)
    # Most of what was acknowledged has expired, and nobody counts it as lost.
    assert expiring.ledger.rows.log < expiring.acknowledged / 2
    assert expiring.not_judged[Anomaly.LOST_WRITE] == "cleanup.policy=delete removes records"
    assert expiring.verdict != Verdict.VIOLATION, expiring.reasons
    assert read.predicted[GroupAnomaly.COMMIT_LOST] == Status.PERMITTED
    assert read.verdict == unverified.verdict == Verdict.CONFORMS, (read.reasons, unverified.reasons)
    lanes = json.loads((result.path / "lanes.json").read_text())["lanes"]
    assert [lane["lane"] for lane in lanes if lane.get("verifies_transactions") is False] == ["unverified"]
    for lane in result.verdict.lanes:
        assert {*RecoveryAnomaly} & {*lane.predicted} >= {RecoveryAnomaly.STALLED_PRODUCER}, lane.not_judged
