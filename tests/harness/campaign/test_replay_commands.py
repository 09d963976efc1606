import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from requests.exceptions import ReadTimeout

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.harness.campaign.replay_commands import replay_command, shrink_command
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run import runner
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.verification import RunVerdict
from tests.commands import ended
from tests.harness.campaign.runs import EVENTS, requested, write_run
from tests.verification.samples.verdicts import lane_verdict

LOST = {"lost_write": {"count": 9, "status": "permitted", "examples": []}}


class Cluster:
    """Stands in for runs: they show the loss if broker 1 is cut off."""

    def __init__(self) -> None:
        self.runs: list[Experiment] = []

    def __call__(self, experiment: Experiment, *, root: Path, listeners: Any, **_: Any) -> Any:
        self.runs.append(experiment)
        shown = any("1" in entry.target for entry in experiment.phases[0].schedule if entry.fault == "partition")
        lanes = [{"lane": "acks1", "anomalies": LOST if shown else {}}]
        verdict = SimpleNamespace(
            to_json=lambda: {"lanes": lanes}, outcome=Verdict.CONFORMS, described="conforms", verdict="conforms"
        )
        return SimpleNamespace(path=root / f"run-{len(self.runs)}", verdict=verdict)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(runner, "run_experiment", cluster)
    return cluster


def shrink(*arguments: str) -> Any:
    return CliRunner().invoke(shrink_command, arguments)


def test_a_schedule_is_shrunk_to_what_the_finding_needs(tmp_path: Path, cluster: Cluster) -> None:
    run, into = write_run(tmp_path / "run", found=LOST), tmp_path / "small.yaml"
    result = shrink(str(run), "--finding", "acks1:lost_write", "--into", str(into), "--out", str(tmp_path / "runs"))
    assert result.exit_code == 0, result.output
    assert "1 of 2 faults; shown by 10 of 10 runs" in result.output
    phase = load_experiment(into).phases[0]
    assert [(entry.fault, entry.target, entry.at, entry.duration) for entry in phase.schedule] == [
        ("partition", "brokers:1,3", 2.0, 0.5)
    ]
    # The load ends as long after the faults as it did in the run.
    assert phase.workload.duration == pytest.approx(2.5 + 30 - 16.25, abs=0.06)


def test_the_result_as_json(tmp_path: Path, cluster: Cluster) -> None:
    run = write_run(tmp_path / "run", found=LOST)
    into, runs = str(tmp_path / "small.yaml"), str(tmp_path / "runs")
    result = shrink(
        str(run), "--finding", "acks1:lost_write", "--into", into, "--out", runs, "--json", "--repeats", "2"
    )
    document = json.loads(result.stdout)
    assert (document["finding"], document["shown"], document["runs"]) == ("acks1:lost_write", 2, 2)
    assert len(document["tried"]) == len(cluster.runs)


def test_a_finding_that_does_not_show_again_is_unknown(tmp_path: Path, cluster: Cluster) -> None:
    run = write_run(
        tmp_path / "run", found=LOST, events=[EVENTS[0], requested("pause-2", ["broker-3"], at=9.0, duration=1.0)]
    )
    result = shrink(str(run), "--finding", "acks1:lost_write", "--into", str(tmp_path / "x.yaml"))
    assert result.exit_code == 2
    assert "was shown by only 0 of 5 runs" in result.output
    assert not (tmp_path / "x.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing forbidden was found: name a finding by --finding (found: acks1:lost_write)"),
        (["--finding", "acks1:duplicate"], "--finding acks1:duplicate: not found in "),
        (["--finding", "acks1"], "expected LANE:ANOMALY out of acks1:lost_write"),
        (["--finding", "acks1:lost_write", "--into", "/proc/none/x.yaml"], "--into"),
        (["--finding", "acks1:lost_write", "--minutes", "0"], "0 minutes are too short for the first runs"),
    ],
)
def test_what_cannot_be_shrunk_is_refused(tmp_path: Path, cluster: Cluster, arguments: list[str], message: str) -> None:
    result = shrink(str(write_run(tmp_path / "run", found=LOST)), *arguments)
    assert isinstance(result.exception, KafkaChaosError)
    assert message in str(result.exception)
    assert not cluster.runs


def test_a_replay_says_how_many_runs_show_each_finding(tmp_path: Path, cluster: Cluster) -> None:
    run = write_run(tmp_path / "run", found=LOST)
    result = CliRunner().invoke(replay_command, [str(run), "--times", "3", "--quiet", "--out", str(tmp_path / "runs")])
    assert (result.exit_code, result.output) == (0, "")
    result = CliRunner().invoke(replay_command, [str(run), "--times", "3", "--json", "--out", str(tmp_path / "runs")])
    assert json.loads(result.output) == {"runs": 3, "findings": {"acks1:lost_write": 3}}
    assert [entry.target for entry in cluster.runs[-1].phases[0].schedule] == ["broker:2", "brokers:1,3"]


def test_a_violation_stays_the_result_of_replays_whose_later_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = RunVerdict(tmp_path, Verdict.VIOLATION, (lane_verdict("acks1", Verdict.VIOLATION),))
    monkeypatch.setattr(runner, "run_experiment", Mock(side_effect=[RunResult(tmp_path, verdict, {}), ReadTimeout()]))
    result = ended(replay_command, write_run(tmp_path / "run", found=LOST), "--times", "2", "--out", tmp_path / "runs")
    assert (result.exit_code, "acks1:lost_write: shown by 0 of 1 replay\n" in result.output) == (1, True), result.output
