"""A stall that is planted in brokers or in a client breaks its promise of recovery; a lane without one recovers."""

from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Verdict
from tests.harness.run.planted.stalls import SOUND, STALLS, run_with_stalls


@pytest.mark.cluster
@pytest.mark.slow
def test_what_never_goes_on_is_a_violation_and_what_recovers_is_none(tmp_path: Path) -> None:
    verdict = run_with_stalls(tmp_path)
    for name, anomaly in STALLS.items():
        assert verdict.lane(name).verdict == Verdict.VIOLATION, verdict.lane(name).reasons
        assert verdict.lane(name).count(anomaly), verdict.lane(name).reasons
    assert verdict.lane(SOUND).verdict == Verdict.CONFORMS, verdict.lane(SOUND).reasons
