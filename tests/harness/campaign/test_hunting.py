from __future__ import annotations

import random
from collections import Counter
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.storage.slow_disk import SlowDisk
from kafka_chaos.harness.campaign import hunting
from kafka_chaos.harness.campaign.commands import hunt_command
from kafka_chaos.harness.campaign.hunting import Hunt, discoveries
from kafka_chaos.harness.campaign.loop import Attempt, Budget, Outcome, follow
from kafka_chaos.harness.campaign.record import findings_in
from kafka_chaos.harness.clients.kinds import ClientKind
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run import runner, shared_cluster
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.shared_cluster import ClusterOfRuns
from kafka_chaos.reference_model.search import ScopeNotExhausted
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from tests.harness.campaign.runs import write_run
from tests.verification.samples.verdicts import lane_verdict

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
HUNTS = Path(__file__).parents[3] / "experiments/hunts"
NO_DISK = EnvironmentFailure("the disk is full")
LOST = {"lost_write": {"count": 9, "status": "forbidden", "examples": []}}


class Clusters:
    """Stands in for clusters and for runs on them; the runs in `lost` show a loss, those in `broken` fail."""

    def __init__(self) -> None:
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

    def run(self, experiment: Any, *, root: Path, listeners: Any = (), cluster: Any = None, **_: Any) -> Any:
        self.runs += 1
        if self.runs in self.broken:
            raise NO_DISK
        found = LOST if self.runs in self.lost or cluster is None else {}
        root.mkdir(parents=True, exist_ok=True)
        path = write_run(root / f"run-{self.runs}", found=found)
        reasons = ["lost_write is forbidden and was found: 9"] if found else []
        verdict = Verdict.VIOLATION if found else Verdict.CONFORMS
        judged = tuple(_judged(lane.lane, reasons, verdict=verdict) for lane in experiment.phases[0].lanes)
        return RunResult(path, RunVerdict(path, verdict, judged), {})


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    clusters = Clusters()
    monkeypatch.setattr(shared_cluster, "Cluster", clusters)
    monkeypatch.setattr(shared_cluster, "run_experiment", clusters.run)
    monkeypatch.setattr(runner, "run_experiment", clusters.run)
    monkeypatch.setattr(shared_cluster, "restore", lambda cluster: None)
    monkeypatch.setattr(shared_cluster, "delete_topics", lambda cluster, topics: clusters.deleted.extend(topics))
    return clusters


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "hunted.yaml"
    path.write_text(EXPERIMENT)
    return path


def hunted(experiment: Path, root: Path, runs: int, record: Path | None = None) -> tuple[Hunt, list[Experiment]]:
    """A hunt after so many runs, and what it drew."""
    hunt, drawn = Hunt.from_file(experiment, record), list[Experiment]()
    with ClusterOfRuns("hunt") as cluster:

        def perform(attempt: Attempt) -> Outcome:
            drawn.append(attempt.experiment)
            try:
                return cluster.run(attempt.experiment, root=root, listeners=[])
            except EnvironmentFailure as failure:
                return failure

        follow(hunt.policy(random.Random(1)), Budget(60, runs), perform)
    return hunt, drawn


def test_runs_share_a_cluster_and_leave_no_topic(experiment: Path, clusters: Clusters, tmp_path: Path) -> None:
    _, drawn = hunted(experiment, tmp_path, 3)
    topics = [one.phases[0].lanes[0].topic_name for one in drawn]
    assert (clusters.started, clusters.removed) == (1, 1)
    assert clusters.deleted == topics
    assert len(set(topics)) == 3


@pytest.mark.parametrize(("broken", "repairs"), [({2}, repeat(None)), ((), chain([None], [NO_DISK], repeat(None)))])
def test_a_cluster_on_which_a_run_or_the_repair_failed_is_not_used_again(
    experiment: Path, clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any, repairs: Any
) -> None:
    clusters.broken = set(broken)
    monkeypatch.setattr(shared_cluster, "restore", Mock(side_effect=repairs))
    hunt, _ = hunted(experiment, tmp_path, 3)
    assert len(hunt.rounds) == 2
    assert (clusters.started, clusters.removed) == (2, 2)


def test_what_was_tried_least_is_drawn_most_often(experiment: Path, clusters: Clusters) -> None:
    hunt = Hunt.from_file(experiment)
    hunt.times_tried.update({"pause": 999, "random": 999})
    drawn = [entry for seed in range(20) for entry in hunt.draw(seed).phases[0].schedule]
    assert sum(entry.fault == "kill" for entry in drawn) > 35
    assert sum(entry.target == "leader(acks1)" for entry in drawn) > 35


@pytest.mark.parametrize("refusal", [ScopeNotExhausted("not done"), UsageFailure("not done")])
def test_a_schedule_that_is_refused_or_takes_too_long_to_predict_is_not_run(
    refusal: Exception, experiment: Path, clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = {"kill"}

    def predict(lane: Lane, *, budget: Any) -> None:
        if not accepted.issuperset(lane.faults):
            raise refusal

    monkeypatch.setattr(hunting, "predict_cached", predict)
    hunt, _ = hunted(experiment, tmp_path, 1)
    assert hunt.times_tried.keys() & {"kill", "pause"} == {"kill"}
    assert hunt.skipped_schedules
    assert all("pause" in schedule and schedule.endswith(": not done") for schedule in hunt.skipped_schedules)
    accepted.clear()
    with pytest.raises(UsageFailure, match="none of 50 schedules can run: not done"):
        hunted(experiment, tmp_path, 1)


def test_a_client_that_the_machine_lacks_is_left_out(
    experiment: Path, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment.write_text(EXPERIMENT + "    clients: [java, librdkafka]\n")
    monkeypatch.setattr(ClientKind, "install_hints", lambda kind: ["install a JRE"] if kind.name == "java" else [])
    hunt = Hunt.from_file(experiment)
    assert hunt.unavailable == {"java": "install a JRE"}
    assert {hunt.draw(seed).phases[0].lanes[0].client for seed in range(9)} == {"librdkafka"}
    experiment.write_text(EXPERIMENT + "    clients: [java]\n")
    with pytest.raises(UsageFailure, match="clients: expected at least one that this machine"):
        Hunt.from_file(experiment)


def test_a_hunt_goes_on_where_the_last_one_stopped(
    experiment: Path, clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hunting, "observations_of", lambda path: {path.name[:3]})
    record = tmp_path / "out" / "hunted.jsonl"
    clusters.lost = {2}
    for _ in range(3):
        hunt, _drawn = hunted(experiment, tmp_path, 1, record)
    again = Hunt.from_file(experiment, record)
    assert (again.rounds, again.times_tried, again.times_new) == (hunt.rounds, hunt.times_tried, hunt.times_new)
    assert again.observations == {"run"}
    [(found, when, number)] = again.first_discoveries()
    assert (found.name, number) == ("lost_write of librdkafka", 1)
    assert when == "after 0 minutes and 2 rounds, in 1 of 3 rounds"
    with record.open("a") as file:
        file.write("{}\n")
    with pytest.raises(UsageFailure, match=r"hunted.jsonl:4: expected a round of a hunt"):
        Hunt.from_file(experiment, record)


def test_discoveries_have_the_names_of_what_explains_them() -> None:
    duplicate = "duplicate is forbidden and was found: 9 (known defect: librdkafka-4953)"
    lost = "lost_write is forbidden and was found: 1"
    lanes = [
        _judged("a", [duplicate, lost], explained={duplicate: (("librdkafka-4953",),)}),
        _judged("b", ["reordered is forbidden and was found: 2", "no evidence of broker 2"]),
        _judged("c", ["no evidence of broker 2"], verdict=Verdict.UNKNOWN),
        _judged("d", ["its producer KafkaError{Unable to reconstruct MessageSet (of 9)}"], verdict=Verdict.UNKNOWN),
    ]
    verdict = RunVerdict(Path("run"), Verdict.VIOLATION, tuple(lanes))
    found = list(discoveries(verdict, {"a": "librdkafka 2.3.0", "b": "kafkajs 2.2.4", "c": "java 3.9.1"}))
    assert [(one.name, one.is_explained) for one in found] == [
        ("librdkafka-4953", True), ("lost_write of librdkafka 2.3.0", False),
        ("reordered of kafkajs 2.2.4", False), ("librdkafka-4736", True),
    ]  # fmt: skip


def _judged(
    lane: str, reasons: list[str], *, verdict: Verdict = Verdict.VIOLATION, explained: Any = None
) -> LaneVerdict:
    lost = Observation(9 if any(reason.startswith("lost") for reason in reasons) else 0)
    return lane_verdict(
        lane, verdict, predicted={Anomaly.LOST_WRITE: Status.FORBIDDEN},
        observed={Anomaly.LOST_WRITE: lost}, reasons=tuple(reasons), explained=explained or {},
    )  # fmt: skip


def test_the_command_shrinks_what_nothing_explains_and_drafts_a_report(
    experiment: Path, clusters: Clusters, tmp_path: Path
) -> None:
    clusters.lost = {2}
    out = tmp_path / "hunts"
    result = CliRunner().invoke(hunt_command, [str(experiment), "--runs", "2", "--out", str(out), "--seed", "3"])
    assert "found: lost_write of librdkafka after 0 minutes and 2 rounds, in 1 of 2 rounds" in result.output
    [draft] = out.glob("*/acks1-lost_write.md")
    assert str(draft.with_suffix(".yaml")) in result.output or str(draft) in result.output
    assert len(load_experiment(draft.with_suffix(".yaml")).phases[0].schedule) == 1
    # The folders of two calls are named by the second.
    draft.parent.rename(out / "first")
    again = CliRunner().invoke(hunt_command, [str(experiment), "--runs", "1", "--out", str(out)])
    assert "after 2 rounds" in again.output
    assert "found: lost_write of librdkafka after 0 minutes and 2 rounds, in 1 of 3 rounds" in again.output
    assert len(list(out.glob("*/acks1-lost_write.md"))) == 1


@pytest.mark.parametrize(
    "schedule", ["", "schedule: [{fault: kill, target: random, at: 1}]"], ids=["none", "written out"]
)
def test_an_experiment_whose_schedule_is_not_generated_is_refused(experiment: Path, schedule: str) -> None:
    experiment.write_text(EXPERIMENT.partition("schedule:")[0] + schedule)
    with pytest.raises(UsageFailure, match=r"expected an experiment with one phase and `schedule: \{generate"):
        Hunt.from_file(experiment)


def test_what_is_forbidden_in_a_run_alone_is_a_finding_to_hunt_for_too() -> None:
    anomalies = {
        "duplicate": {"count": 2, "status": "permitted"},
        "lost_write": {"count": 1, "status": "permitted", "in_this_run": "forbidden"},
        "phantom": {"count": 1, "status": "forbidden"},
    }
    verdict = {"lanes": [{"lane": "a", "anomalies": anomalies}]}
    found = [(str(one), is_forbidden) for one, is_forbidden in findings_in(verdict).items()]
    assert found == [("a:lost_write", True), ("a:phantom", True), ("a:duplicate", False)]


@pytest.mark.slow
def test_random_schedules_draw_every_kind_that_the_machine_and_the_cluster_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SlowDisk, "unavailable", staticmethod(lambda: "no root"))
    hunt = Hunt.from_file(HUNTS / "schedules.yaml")
    assert hunt.unavailable == {"slow-disk": "no root"}
    drawn: dict[str, Counter[str]] = {"zookeeper": Counter(), "kraft": Counter()}
    for seed in range(200):
        experiment = hunt.draw(seed)
        drawn[experiment.cluster.metadata_mode].update(fault.kind for fault in experiment.phases[0].faults)
    kinds = fault_kinds().keys() - {"slow-disk", "controller-move", "reassignment", "client-kill", "client-pause"}
    kinds -= {"stale"}  # It is only proven where a leader moves meanwhile.
    # The clusters of this hunt have no remote store.
    kinds -= {kind for kind in kinds if "remote" in kind}
    assert drawn["zookeeper"].keys() == kinds
    assert drawn["kraft"].keys() == kinds - {"session-expiry"}
