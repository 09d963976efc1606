"""A nightly run: what is repeated, what is counted, and with which intervals."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ENOSPC
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from docker.errors import APIError
from requests.exceptions import ReadTimeout
from ruamel.yaml import YAML

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure, UsageFailure
from kafka_chaos.faults.storage.slow_disk import SlowDisk
from kafka_chaos.harness.campaign import commands
from kafka_chaos.harness.campaign.cells import ShareOfRuns
from kafka_chaos.harness.campaign.commands import EXPERIMENTS
from kafka_chaos.harness.campaign.counted_campaign import CountedCampaign
from kafka_chaos.harness.campaign.in_turn import experiments_in, in_turn, load_for_cluster
from kafka_chaos.harness.campaign.loop import Budget
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run import runner
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.verification import Observation, RunVerdict
from tests.commands import ended
from tests.verification.samples.verdicts import lane_verdict

TEXT = """\
name: {name}
lanes:
  - {{lane: one, acks: "1"}}
schedule:
  - {{fault: pause, target: leader(one), at: 1, duration: 5}}
"""


NO_MEMORY = EnvironmentFailure("3 brokers need more memory")


class Runs:
    """Replaces real runs: 100 s each, with the given losses."""

    def __init__(self, losses: Sequence[int | BaseException], status: Status = Status.PERMITTED) -> None:
        self.losses = list(losses)
        self.status = status
        self.now = 0.0
        self.seeds: list[int] = []

    def __call__(self, experiment: Experiment, root: Path, listeners: Sequence[Listener], **_: Any) -> RunResult:
        self.now += 100
        self.seeds.append(experiment.seed)
        lost = self.losses.pop(0) if self.losses else 0
        if isinstance(lost, BaseException):
            raise lost
        path = root / f"run-{len(self.seeds)}"
        path.mkdir(parents=True)
        (path / "report.html").touch()
        broken = self.status is Status.FORBIDDEN and lost > 0
        verdict = Verdict.VIOLATION if broken else Verdict.CONFORMS
        lane = lane_verdict(
            "one",
            verdict,
            predicted=dict.fromkeys(Anomaly, Status.FORBIDDEN) | {Anomaly.LOST_WRITE: self.status},
            observed={Anomaly.LOST_WRITE: Observation(count=lost)},
            not_judged={Anomaly.REPLICA_DIVERGENCE: "there are no replica logs"},
            reasons=("lost_write is forbidden and was found",) if broken else (),
        )
        return RunResult(path, RunVerdict(path, verdict, (lane,)), {})


@dataclass
class InTurn(CountedCampaign):
    """A campaign that has its experiments."""

    files: Sequence[Path] = ()

    def run(self) -> dict[str, Any]:
        self.follow(in_turn(self.files, partial(load_for_cluster, None), self.seeds))
        return self.to_json()


def nightly_of(tmp_path: Path, runs: Runs, *names: str, minutes: float = 60, repeats: int | None = None) -> InTurn:
    files = []
    for name in names or ("a",):
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(TEXT.format(name=name))
    return InTurn(
        files=files,
        out=tmp_path / "out",
        budget=Budget(minutes, repeats and repeats * len(files), clock=lambda: runs.now),
        seed=1,
        record=None,
        say=lambda text: None,
        run_experiment=runs,
    )


def test_experiments_are_repeated_in_turn_until_the_next_run_would_not_fit(tmp_path: Path) -> None:
    runs = Runs([0] * 10)
    summary = nightly_of(tmp_path, runs, "a", "b", minutes=10).run()
    # 600 s hold six runs of 100 s.
    assert [run["experiment"] for run in summary["runs"]] == ["a", "b", "a", "b", "a", "b"]
    assert len(set(runs.seeds)) == 6


def test_counts_and_intervals_per_lane_and_anomaly(tmp_path: Path) -> None:
    nightly_run = nightly_of(tmp_path, Runs([0, 30, 0, 12, 0]), repeats=5)
    nightly_run.run()
    summary = json.loads((nightly_run.folder / "summary.json").read_text())
    (lane,) = summary["lanes"]
    low, high = ShareOfRuns([1, 1, 0, 0, 0]).interval
    assert lane["anomalies"]["lost_write"] == {
        "status": "permitted", "runs": 5, "hits": 2, "records": 42, "low": round(low, 4), "high": round(high, 4),
    }  # fmt: skip
    assert lane["anomalies"]["duplicate"]["hits"] == 0
    assert "replica_divergence" not in lane["anomalies"], "what was not judged is not counted as clean"
    assert lane["verdicts"] == {"conforms": 5, "unknown": 0, "violation": 0}
    assert summary["verdict"] == "conforms"
    assert "| a | one | lost_write | permitted | 2 of 5 | 40% | 12% – 77% | 42 |" in nightly_run.to_markdown()


def test_a_violation_is_told_with_its_seed_and_run_and_a_run_that_failed_with_its_reason(tmp_path: Path) -> None:
    runs = Runs([0, 3, ClusterFailure("broker-1 ended\nand more")], Status.FORBIDDEN)
    nightly_run = nightly_of(tmp_path, runs, repeats=3)
    summary, text = nightly_run.run(), nightly_run.to_markdown()
    assert (summary["verdict"], summary["lanes"][0]["anomalies"]["lost_write"]["runs"]) == ("violation", 2)
    assert f"- a, lane one, seed {runs.seeds[1]} (`runs/run-2`): lost_write is forbidden and was found" in text
    assert ("broker-1 ended" in text, "and more" in text) == (True, False)


def test_an_interrupted_night_leaves_what_was_counted(tmp_path: Path) -> None:
    nightly_run = nightly_of(tmp_path, Runs([5, KeyboardInterrupt()]), repeats=2)
    with pytest.raises(KeyboardInterrupt):
        nightly_run.run()
    summary = json.loads((nightly_run.folder / "summary.json").read_text())
    assert [run["verdict"] for run in summary["runs"]] == ["conforms"]


def test_the_nightly_experiments_cross_every_setting_with_every_fault() -> None:
    """In KRaft mode the faults are drawn: every kind that may be drawn counts. Those of six families are another
    experiment's (tests/harness/experiment/test_shared_lanes.py)."""
    crossed = set()
    for path in experiments_in([EXPERIMENTS]):
        written = YAML(typ="safe").load(path)
        if "schedule" not in written:
            continue
        experiment = load_experiment(path, overrides={"seed": 1})
        drawn = written["schedule"]["generate"]["faults"]
        for _, _, lane in experiment.lanes:
            settings = (lane.acks, lane.idempotence, lane.min_insync_replicas, lane.unclean_leader_election)
            assert lane.faults
            assert set(lane.faults) <= {*drawn, "session-expiry"}
            crossed |= {(experiment.cluster.metadata_mode, fault, *settings) for fault in drawn}
    assert crossed == {
        (mode, fault, acks, idempotent, min_isr, unclean)
        for mode in ("zookeeper", "kraft")
        for fault in ("kill", "stop", "pause", "partition")
        for acks, idempotent in (("0", False), ("1", False), ("all", False), ("all", True))
        for min_isr in (1, 2)
        for unclean in (False, True)
    }


def test_a_folder_without_experiments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match="no experiment in it"):
        experiments_in([tmp_path])


@pytest.mark.parametrize(
    ("losses", "status", "code"),
    [
        ([0], Status.PERMITTED, 0), ([3], Status.FORBIDDEN, 1), ([ClusterFailure("no")], Status.PERMITTED, 2),
        ([ReadTimeout(), 3, APIError("no"), OSError(ENOSPC, "full", "/x"), 0], Status.FORBIDDEN, 1),
        ([0, ReadTimeout(), 0, APIError("no"), 0], Status.FORBIDDEN, 2),
        ([0, NO_MEMORY, NO_MEMORY], Status.PERMITTED, 3), ([3, NO_MEMORY, NO_MEMORY], Status.FORBIDDEN, 1),
        ([3, ZeroDivisionError()], Status.FORBIDDEN, 70),
    ],
)  # fmt: skip
def test_the_command_ends_with_the_worst_verdict_and_tells_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: list[int | Exception], status: Status, code: int
) -> None:
    runs = Runs(losses, status)
    monkeypatch.setattr(runner, "run_experiment", runs)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "job.md"))
    (tmp_path / "a.yaml").write_text(TEXT.format(name="a"))
    result = ended(cli, "nightly", tmp_path / "a.yaml", "--repeats", "5", "--out", tmp_path / "out")
    assert result.exit_code == code, result.output
    assert "round 1: a, seed " in result.output
    assert (code > 2) != (tmp_path / "job.md").exists()


def test_an_experiment_that_the_machine_cannot_run_is_named_and_left_out_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run_experiment", Runs([0, 0, 0]))
    monkeypatch.setattr(SlowDisk, "unavailable", staticmethod(lambda: "no root"))
    monkeypatch.setattr(commands, "EXPERIMENTS", tmp_path)
    (tmp_path / "can.yaml").write_text(TEXT.format(name="can"))
    (tmp_path / "cannot.yaml").write_text(TEXT.format(name="cannot").replace("pause", "slow-disk"))
    arguments = ["--repeats", "1", "--out"]
    result = CliRunner().invoke(cli, ["nightly", *arguments, str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "cannot.yaml is left out: phase main: slow-disk can't be injected on this machine: no root" in result.output
    assert "round 1: can, " in result.output
    assert "round 1: cannot, " not in result.output
    asked = CliRunner().invoke(cli, ["nightly", str(tmp_path), *arguments, str(tmp_path / "asked")])
    assert "cannot.yaml is left out" not in asked.output
    assert "round 1: cannot, " in asked.output
