"""Each acks setting keeps its guarantee on real brokers: a zombie leader, and a leader that is cut off and killed."""

from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.runner import run_experiment
from tests.harness.leftovers import left_of

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

WITH_ZOOKEEPER = Path(__file__).with_name("acks_matrix.yaml")
IN_KRAFT = Path(__file__).parents[1] / "experiments" / "kraft.yaml"
"""The same lanes and phases on brokers of Kafka 4 that are controllers too."""

UNACKNOWLEDGED = ("acks0", "acks1", "cut-acks0", "cut-acks1")
REPLICATED = ("all", "idempotent", "cut-all", "cut-idempotent")


@pytest.fixture(scope="module", params=[WITH_ZOOKEEPER, IN_KRAFT], ids=["zookeeper", "kraft"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run_experiment(load_experiment(request.param), root=tmp_path_factory.mktemp("runs"))


def test_every_lane_conforms_to_its_prediction(run: RunResult) -> None:
    reasons = [f"{lane.lane}: {reason}" for lane in run.verdict.lanes for reason in lane.reasons]
    assert run.verdict.verdict is Verdict.CONFORMS, reasons
    assert {lane.verdict for lane in run.verdict.lanes} == {Verdict.CONFORMS}
    assert left_of(run.path.name) == []


def test_what_is_lost_and_doubled_is_what_was_predicted(run: RunResult) -> None:
    for name in UNACKNOWLEDGED:
        lane = run.verdict.lane(name)
        expected = Status.REQUIRED if name.startswith("cut-") else Status.PERMITTED
        assert (lane.predicted[Anomaly.LOST_WRITE], (lane.count(Anomaly.LOST_WRITE) or 0) > 100) == (expected, True)
    for name in REPLICATED:
        lane = run.verdict.lane(name)
        assert (lane.predicted[Anomaly.LOST_WRITE], lane.count(Anomaly.LOST_WRITE)) == (Status.FORBIDDEN, 0)
        assert lane.acknowledged > 1_000
        if "idempotent" in name:
            assert (lane.predicted[Anomaly.DUPLICATE], lane.count(Anomaly.DUPLICATE)) == (Status.FORBIDDEN, 0)

    # The longest gap without an acknowledgement spans the fault.
    assert min(run.gaps["idempotent"], run.gaps["cut-idempotent"]) > 2
    # What is lost is traced to the truncation that dropped it.
    events = (run.path / "events.jsonl").read_text()
    assert '"type": "log_truncated"' in events
    assert "due to leader epoch and offset" in events
