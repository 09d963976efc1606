from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.replay import hunting, trial
from kafka_chaos.harness.replay.hunting import Hunt
from kafka_chaos.harness.replay.trial import Finding, findings, forbidden
from kafka_chaos.harness.run import shared_cluster
from tests.harness.replay.runs import write_run

EXPERIMENT = """\
name: hunted
workload: {rate: 100, duration: 30}
lanes: [{lane: acks1, acks: "1"}]
schedule:
  generate:
    faults: [kill, pause]
    targets: [leader(acks1), random]
    count: 2
    weights: {pause: 2}
"""
LOST = {"lost_write": {"count": 9, "status": "forbidden", "examples": []}}


class Clusters:
    """Stands in for clusters and for runs on them; the runs in `lost` show a loss, those in `broken` fail."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started = self.removed = self.runs = 0
        self.lost: set[int] = set()
        self.broken: set[int] = set()
        self.deleted: list[str] = []

    def __call__(self, spec: Any, run_id: str) -> Clusters:
        self.spec = spec
        return self

    def __enter__(self) -> Clusters:
        self.started += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.removed += 1

    def run(self, experiment: Any, *, root: Path, listeners: Any = (), cluster: Any = None, engine: str = "") -> Any:
        self.runs += 1
        if self.runs in self.broken:
            raise EnvironmentFailure("the disk is full")
        found = LOST if self.runs in self.lost or cluster is None else {}
        lanes = [{"lane": "acks1", "anomalies": found}]
        verdict = SimpleNamespace(to_json=lambda: {"lanes": lanes}, verdict=Verdict.CONFORMS)
        path = write_run(self.root / f"run-{self.runs}", found=found)
        return SimpleNamespace(path=path, verdict=verdict)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clusters:
    clusters = Clusters(tmp_path)
    monkeypatch.setattr(shared_cluster, "Cluster", clusters)
    monkeypatch.setattr(shared_cluster, "run_experiment", clusters.run)
    monkeypatch.setattr(trial, "run_experiment", clusters.run)
    monkeypatch.setattr(shared_cluster, "restore", lambda cluster: None)
    monkeypatch.setattr(shared_cluster, "delete_topics", lambda cluster, topics: clusters.deleted.extend(topics))
    return clusters


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "hunted.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_runs_share_a_cluster_and_leave_no_topic(experiment: Path, clusters: Clusters, tmp_path: Path) -> None:
    with Hunt.of(experiment) as hunt:
        drawn = [hunt.draw(experiment, seed) for seed in range(3)]
        for one in drawn:
            hunt.run(one, tmp_path, [])
    topics = [one.phases[0].lanes[0].topic_name for one in drawn]
    assert (clusters.started, clusters.removed) == (1, 1)
    assert clusters.deleted == topics
    assert len(set(topics)) == 3


def test_a_cluster_on_which_a_run_failed_is_not_used_again(
    experiment: Path, clusters: Clusters, tmp_path: Path
) -> None:
    clusters.broken = {2}
    with Hunt.of(experiment) as hunt:
        hunt.run(hunt.draw(experiment, 1), tmp_path, [])
        with pytest.raises(EnvironmentFailure):
            hunt.run(hunt.draw(experiment, 2), tmp_path, [])
        assert clusters.removed == 1
        hunt.run(hunt.draw(experiment, 3), tmp_path, [])
    assert (clusters.started, clusters.removed) == (2, 2)


def test_what_was_tried_least_is_drawn_most_often(experiment: Path, clusters: Clusters) -> None:
    hunt = Hunt.of(experiment)
    hunt.tried.update({"pause": 999, "random": 999})
    drawn = [entry for seed in range(20) for entry in hunt.draw(experiment, seed).phases[0].schedule]
    assert sum(entry.fault == "kill" for entry in drawn) > 35
    assert sum(entry.target == "leader(acks1)" for entry in drawn) > 35


def test_what_led_to_a_new_action_of_the_model_keeps_its_weight(
    experiment: Path, clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows = iter([Counter(elect=1), Counter(elect=3), Counter(elect=1, shrink_isr=1)])
    monkeypatch.setattr(hunting, "actions_of", lambda path: {"acks1": next(shows)})
    with Hunt.of(experiment) as hunt:
        drawn = [hunt.draw(experiment, seed) for seed in range(3)]
        for one in drawn:
            hunt.run(one, tmp_path, [])
    assert hunt.shown == {("acks1", "elect"), ("acks1", "shrink_isr")}
    names = [name for one in (drawn[0], drawn[2]) for fault in one.phases[0].schedule for name in _of(fault)]
    assert hunt.led_to == Counter(names)
    hunt.tried, hunt.led_to = Counter(kill=9, pause=9), Counter(pause=9)
    kinds = [entry.fault for seed in range(20) for entry in hunt.draw(experiment, seed).phases[0].schedule]
    assert kinds.count("pause") > 30


def _of(entry: Any) -> tuple[str, str]:
    return entry.fault, entry.target


def test_faults_and_targets_that_were_injected_are_counted(
    experiment: Path, clusters: Clusters, tmp_path: Path
) -> None:
    with Hunt.of(experiment) as hunt:
        drawn = hunt.draw(experiment, 5)
        hunt.run(drawn, tmp_path, [])
    kinds = [entry.fault for entry in drawn.phases[0].schedule]
    assert {kind: hunt.tried[kind] for kind in kinds} == {kind: kinds.count(kind) for kind in kinds}
    assert hunt.tried.total() == 4


def test_the_first_run_with_a_forbidden_finding_is_kept_and_shrunk(
    experiment: Path, clusters: Clusters, tmp_path: Path
) -> None:
    clusters.lost = {2, 3}
    finding = Finding("acks1", Anomaly.LOST_WRITE)
    with Hunt.of(experiment) as hunt:
        for seed in range(3):
            hunt.run(hunt.draw(experiment, seed), tmp_path, [])
    assert hunt.found == {finding: tmp_path / "run-2"}
    small = hunt.shrink(finding, tmp_path, minutes=1, say=lambda _: None)
    assert small == tmp_path / "acks1-lost_write.yaml"
    assert len(load_experiment(small).phases[0].schedule) == 1


@pytest.mark.parametrize(
    "schedule", ["", "schedule: [{fault: kill, target: random, at: 1}]"], ids=["none", "written out"]
)
def test_an_experiment_whose_schedule_is_not_generated_is_refused(experiment: Path, schedule: str) -> None:
    experiment.write_text(EXPERIMENT.partition("schedule:")[0] + schedule)
    with pytest.raises(UsageFailure, match=r"expected an experiment with one phase and `schedule: \{generate"):
        Hunt.of(experiment)


def test_what_is_forbidden_in_a_run_alone_is_a_finding_to_hunt_for_too() -> None:
    anomalies = {
        "duplicate": {"count": 2, "status": "permitted"},
        "lost_write": {"count": 1, "status": "permitted", "in_this_run": "forbidden"},
        "phantom": {"count": 1, "status": "forbidden"},
    }
    verdict = {"lanes": [{"lane": "a", "anomalies": anomalies}]}
    assert [str(one) for one in forbidden(verdict)] == ["a:lost_write", "a:phantom"]
    assert [str(one) for one in findings(verdict)] == ["a:lost_write", "a:phantom", "a:duplicate"]
