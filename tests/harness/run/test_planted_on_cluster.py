"""A truncation bug in running brokers is a violation where the lane's faults permit the loss; what brokers lose by
themselves is explained."""

from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from tests.harness.run.planted.runs import PLANTED, SOUND, planted_run


@pytest.mark.cluster
@pytest.mark.slow
def test_what_a_full_isr_loses_is_a_violation_and_what_a_zombie_loses_is_explained(tmp_path: Path) -> None:
    verdict = planted_run(tmp_path)
    for name in PLANTED:
        lane = verdict.lane(name)
        assert lane.predicted[Anomaly.LOST_WRITE] == Status.PERMITTED
        assert lane.verdict == Verdict.VIOLATION, lane.reasons
        assert Status.FORBIDDEN in lane.in_this_run.values()
    for name in SOUND:
        assert verdict.lane(name).verdict == Verdict.CONFORMS, verdict.lane(name).reasons
    zombie = verdict.lane("zombie-acks1")
    assert zombie.count(Anomaly.LOST_WRITE)
    assert zombie.ledger is not None
    assert zombie.ledger.observations is not None
    assert zombie.ledger.observations.searched
