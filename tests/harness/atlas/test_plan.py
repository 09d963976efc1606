from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.atlas.command import STANDARD_PLAN
from kafka_chaos.harness.atlas.plan import Atlas
from kafka_chaos.harness.clients.kinds import ClientKind
from kafka_chaos.reference_model.forecast.lane_runs import Cell

PLAN = """\
clusters: [3.9.1/zookeeper, 4.3.1/kraft]
clients: [librdkafka, sarama]
lanes:
  - {acks: all, idempotence: true, min_insync_replicas: 2}
  - {acks: "1"}
families:
  kill: [{fault: kill, target: "broker:1", at: 1, duration: 2}]
  both:
    - {fault: kill, target: "broker:1", at: 1, duration: 2}
    - {fault: pause, target: "broker:2", at: 5, duration: 2}
workload: {rate: 50, duration: 10}
lanes_per_run: 3
"""


@pytest.fixture(autouse=True)
def no_program_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientKind, "lacks", lambda kind: [])


def plan_of(tmp_path: Path, text: str = PLAN) -> Atlas:
    path = tmp_path / "atlas.yaml"
    path.write_text(text)
    return Atlas.of(path)


def test_the_plan_has_every_combination(tmp_path: Path) -> None:
    trials = plan_of(tmp_path).trials
    assert len({trial.cell for trial in trials}) == len(trials) == 2 * 2 * 2 * 2
    assert {trial.cell.faults for trial in trials} == {"kill", "kill+pause"}


def test_an_idempotent_producer_has_as_many_requests_in_flight_as_it_can(tmp_path: Path) -> None:
    settings = {trial.cell.settings for trial in plan_of(tmp_path).trials if trial.cell.client.startswith("sarama")}
    assert any('"max_in_flight":1' in text for text in settings)


def test_runs_take_what_was_tried_least_until_all_was(tmp_path: Path) -> None:
    atlas, tried = plan_of(tmp_path), Counter[Cell]()
    for seed in range(16):
        experiment = atlas.next_run(tried, seed)
        clusters = {experiment.cluster.kafka_version}
        cells = cells_of_run(atlas, experiment)
        assert 1 <= len(cells) <= 3
        assert len(clusters) == 1
        tried.update(cells)
        if len(tried) == 16:
            break
    assert len(tried) == 16
    # Four combinations of cluster and family with four cells each, three of which fit into a run.
    assert max(tried.values()) <= 2


def cells_of_run(atlas: Atlas, experiment: object) -> list[Cell]:
    lanes = {spec.lane for _, spec, _ in experiment.lanes()}  # type: ignore[attr-defined]
    version = experiment.cluster.kafka_version  # type: ignore[attr-defined]
    family = experiment.name.removeprefix("atlas-")  # type: ignore[attr-defined]
    return [
        trial.cell
        for trial in atlas.trials
        if trial.family == family and trial.cell.cluster.startswith(version) and trial.lane["lane"] in lanes
    ]


def test_the_same_seed_draws_the_same_run(tmp_path: Path) -> None:
    atlas = plan_of(tmp_path)
    names = [[spec.lane for _, spec, _ in atlas.next_run({}, 7).lanes()] for _ in range(2)]
    assert names[0] == names[1]


def test_topics_of_runs_differ(tmp_path: Path) -> None:
    atlas = plan_of(tmp_path)
    one, other = ({spec.topic_name for _, spec, _ in atlas.next_run({}, 7).lanes()} for _ in range(2))
    assert not one & other


def test_clients_that_the_machine_can_t_run_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientKind, "lacks", lambda kind: ["go is missing"] if kind.name == "sarama" else [])
    atlas = plan_of(tmp_path)
    assert dict(atlas.left_out) == {"sarama": ["go is missing"]}
    assert {trial.lane["client"] for trial in atlas.trials} == {"librdkafka"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lanes_per_run: 3", "lanes_per_run: 0", r"atlas.yaml:12: lanes_per_run: expected .*1"),
        ("lanes_per_run: 3", "lane_per_run: 3", r"atlas.yaml:12: lane_per_run: no such key"),
        ("4.3.1/kraft", "4.3.1/zookeeper", r"4.3.1/zookeeper, kill.*cluster"),
        ("4.3.1/kraft", "9.9.9/kraft", r"9.9.9/kraft, kill.*9.9.9"),
        ("sarama]", "srama]", "'srama' is no client.*sarama"),
        ("fault: pause", "fault: puse", "atlas.yaml .*both.*puse"),
        ('acks: "1"', 'acks: "7"', "acks"),
        ("clients: [librdkafka, sarama]", "clients: []", "clients: expected"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_starts(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in PLAN
    with pytest.raises(UsageFailure, match=message):
        plan_of(tmp_path, PLAN.replace(old, new))


def test_the_plan_of_this_project_is_one() -> None:
    assert len(Atlas.of(STANDARD_PLAN).trials) >= 60
