"""Brokers that are not Apache Kafka: franz-go's kfake speaks its protocol, keeps one log, and tells less of itself."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.attach import ClusterAccess, run_attached
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.verification.judging.result import RunVerdict

TEXT = """\
name: compatible
cluster: {{brokers: 3, metadata_mode: {mode}}}
workload: {{rate: 200, duration: 1}}
{more}
lanes:
"""
LANES = {
    "plain": "{lane: plain, partitions: 3, acks: '1'}",
    "idempotent": "{lane: idempotent, partitions: 3, acks: all, idempotence: true}",
    "tx": "{lane: tx, partitions: 3, acks: all, transactional: {size: 5}}",
}
pytestmark = pytest.mark.slow

Judge = Callable[..., RunVerdict]


def experiment_of(*lanes: str, more: str = "", mode: str = "kraft, kafka_version: 4.3.1") -> Experiment:
    text = TEXT.format(more=more, mode=mode) + "".join(f"  - {LANES[lane]}\n" for lane in lanes)
    return parse_experiment(text, "a.yaml")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (go := shutil.which("go", path="/usr/local/go/bin:/usr/local/bin:/usr/bin")) is None:
        pytest.skip("there is no Go, which kfake is written in")
    built = tmp_path_factory.mktemp("kfake") / "kfake"
    command = [go, "build", "-o", str(built), "."]
    done = subprocess.run(command, cwd=Path(__file__).parent / "kfake", capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"kfake can't be built: {done.stderr.strip()[-300:]}")
    return built


@pytest.fixture
def judge(program: Path, tmp_path: Path) -> Iterator[Judge]:
    started = []

    def judged(experiment: Experiment, *options: str) -> RunVerdict:
        command = [str(program), *options, *LANES]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        attached = ClusterAccess(process.stdout.readline().strip())
        return run_attached(experiment, attached, root=tmp_path, engine=Engine.DUCKDB).verdict

    yield judged
    for process in started:
        process.communicate()


def test_without_faults_what_clients_see_is_judged_in_full(judge: Judge) -> None:
    verdict = judge(experiment_of(*LANES))
    for lane in ("plain", "idempotent"):
        assert verdict.lane(lane).verdict is Verdict.CONFORMS, verdict.lane(lane).reasons
        assert verdict.lane(lane).produced == verdict.lane(lane).consumed > 50
    assert verdict.lane("tx").verdict is Verdict.UNKNOWN
    assert "replicas/ does not show the markers that end transactions" in verdict.lane("tx").reasons[0]


def test_where_others_break_it_the_lane_does_not_conform_and_one_line_says_why(judge: Judge) -> None:
    (lane,) = judge(experiment_of("plain", more="outside_faults: [kill]")).lanes
    assert lane.verdict is Verdict.UNKNOWN
    assert lane.reasons[0] == (
        "the cluster does not tell its metadata mode, unclean_leader_election of topic plain, "
        "auto.leader.rebalance.enable: the prediction may be that of another cluster"
    )


def test_what_is_acknowledged_and_not_stored_is_a_violation(judge: Judge) -> None:
    (lane,) = judge(experiment_of("plain"), "-lose", "20").lanes
    assert lane.verdict is Verdict.VIOLATION
    assert lane.observed[Anomaly.LOST_WRITE].count > 0


@pytest.mark.parametrize("lane", LANES)
def test_without_faults_no_prediction_depends_on_what_is_not_told(lane: str) -> None:
    """So that it is no doubt: who is elected, and who may be, matters only where something fails."""
    predictions = []
    for mode, unclean in product(("kraft", "zookeeper"), (False, True)):
        ((_, _, known),) = experiment_of(lane, mode=mode).lanes
        predicted = predict(replace(known, unclean_leader_election=unclean)).anomalies
        predictions.append({anomaly: told.status for anomaly, told in predicted.items()})
    assert all(prediction == predictions[0] for prediction in predictions)
