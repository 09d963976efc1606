import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.campaign.loop import OutOfBudget, Policy
from kafka_chaos.harness.campaign.realised import realised_experiment
from kafka_chaos.harness.campaign.shrinking import SHORTEST, Schedule, Shrinking
from tests.harness.campaign.runs import EVENTS, EXPERIMENT, ended, requested, write_run

EIGHT: Schedule = tuple({"fault": f"f{number}", "target": "all", "at": number, "duration": 8.0} for number in range(8))


def names(schedule: Schedule) -> set[str]:
    return {str(entry["fault"]) for entry in schedule}


def shrunk(trial: Callable[[Schedule], bool], *, schedule: Schedule = EIGHT) -> tuple[Shrinking, int]:
    runs: list[Schedule] = []

    def counted(candidate: Schedule) -> Policy[bool]:
        yield from ()
        runs.append(candidate)
        return trial(candidate)

    shrinking = Shrinking(counted, say=lambda _: None)
    assert ended(shrinking.confirm(schedule, wanted=2))
    ended(shrinking.shrink())
    return shrinking, len(runs)


@pytest.mark.parametrize("named", ["f0", "f7", "f2 f5", "f0 f3 f7", "f0 f1 f2 f3 f4 f5 f6 f7"])
def test_what_a_finding_needs_is_kept_and_nothing_else(named: str) -> None:
    needed = set(named.split())
    shrinking, runs = shrunk(lambda candidate: needed <= names(candidate))
    assert names(shrinking.smallest) == needed
    assert runs < 160


def test_faults_are_as_short_as_the_finding_allows_and_not_shorter_than_the_shortest() -> None:
    def shows(candidate: Schedule) -> bool:
        return any(entry["fault"] == "f3" and entry["duration"] >= 1.7 for entry in candidate)

    shrinking, _ = shrunk(shows)
    assert [(entry["fault"], entry["duration"]) for entry in shrinking.smallest] == [("f3", 2.0)]
    shrinking, _ = shrunk(lambda candidate: True)
    assert [entry["duration"] for entry in shrinking.smallest] == [SHORTEST]


@pytest.mark.parametrize("seed", range(20))
def test_a_finding_that_shows_four_times_out_of_five_is_still_shrunk(seed: int) -> None:
    chance = random.Random(seed)
    shrinking, _ = shrunk(lambda candidate: {"f2", "f5"} <= names(candidate) and chance.random() < 0.8)
    # A miss by luck may keep a fault that is not needed; what is needed is never left out.
    assert {"f2", "f5"} <= names(shrinking.smallest)
    assert len(shrinking.smallest) <= 4


def test_a_candidate_that_shows_the_finding_once_by_luck_is_not_taken() -> None:
    """All faults show it always, one alone in every third run."""
    turns = itertools.cycle((True, False, False))
    shrinking, _ = shrunk(lambda candidate: len(candidate) > 1 or next(turns), schedule=EIGHT[:2])
    assert len(shrinking.smallest) == 2


def test_the_smallest_so_far_is_kept_when_no_time_is_left() -> None:
    left = iter(range(8))

    def trial(candidate: Schedule) -> bool:
        if next(left, None) is None:
            raise OutOfBudget
        return "f7" in names(candidate)

    shrinking, _ = shrunk(trial)
    assert "f7" in names(shrinking.smallest)
    assert len(shrinking.smallest) < len(EIGHT)


def test_the_realised_schedule_names_times_and_containers(tmp_path: Path) -> None:
    experiment = realised_experiment(write_run(tmp_path / "run"))
    entries = [entry.model_dump() for entry in experiment.phases[0].schedule]
    assert [(entry["fault"], entry["target"], entry["at"], entry["duration"]) for entry in entries] == [
        ("kill", "broker:2", 5.25, 3.0),
        ("partition", "brokers:1,3", 12.25, 4.0),
    ]
    assert entries[1]["action"] == "reject"
    assert experiment.seed == 7
    late = requested("kill-1", ["broker-2"], at=29.9, duration=3.0)
    assert realised_experiment(write_run(tmp_path / "late", events=[EVENTS[1], late])).phases[0].schedule[1].at < 30


def test_a_run_on_an_attached_cluster_is_not_repeated_on_containers(tmp_path: Path) -> None:
    file = write_run(tmp_path / "run") / "experiment.yaml"
    replay = "kafka-chaos run experiment.yaml --attach BOOTSTRAP_SERVERS"
    file.write_text(json.dumps({**EXPERIMENT, "recorded": {"replay": replay}}))
    with pytest.raises(UsageFailure, match="a run on an attached cluster can't be repeated"):
        realised_experiment(file.parent)


@pytest.mark.parametrize(
    ("resolved", "target"),
    [
        (["zookeeper-1"], "zookeeper:1"),
        (["zookeeper-1", "zookeeper-2", "zookeeper-3"], "zookeeper"),
        (["controller-1", "controller-3"], "controllers:1,3"),
        (["broker-3"], "broker:3"),
    ],
)
def test_containers_become_the_target_that_names_them(tmp_path: Path, resolved: list[str], target: str) -> None:
    run = write_run(tmp_path / "run", events=[requested("kill-1", resolved, at=1.0, duration=1.0), EVENTS[1]])
    of_controllers = target.startswith("controllers")
    cluster = '{"metadata_mode": "kraft", "controllers": 3}' if of_controllers else '{"zookeepers": 3}'
    document = (run / "experiment.yaml").read_text().replace('"seed": 7', f'"seed": 7, "cluster": {cluster}')
    (run / "experiment.yaml").write_text(document)
    assert realised_experiment(run).phases[0].schedule[0].target == target


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (EVENTS[:1], "1 of 2 faults of the schedule were injected"),
        ([requested("kill-1", [], at=1.0, duration=1.0), EVENTS[1]], "the fault hit nothing"),
        (
            [requested("kill-1", ["broker-1", "zookeeper-1"], at=1.0, duration=1.0), EVENTS[1]],
            "no target names exactly",
        ),
        ([requested("kill-1", ["broker-1"]), EVENTS[1]], "kill-1 has no times"),
    ],
)
def test_what_a_run_did_not_record_is_refused(tmp_path: Path, events: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(UsageFailure, match=r"experiment\.yaml: missing"):
        realised_experiment(tmp_path)
    with pytest.raises(UsageFailure, match=message):
        realised_experiment(write_run(tmp_path / "run", events=events))


def test_steps_of_a_lock_step_phase_are_no_faults_of_a_schedule(tmp_path: Path) -> None:
    step = requested("kill-3", ["broker-1"], at=None, duration=None, late=None)
    assert len(realised_experiment(write_run(tmp_path / "run", events=[*EVENTS, step])).phases[0].schedule) == 2
