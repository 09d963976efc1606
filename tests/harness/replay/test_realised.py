from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.replay.realised import realised_experiment
from tests.harness.replay.runs import EVENTS, requested, write_run


def test_the_realised_schedule_names_times_and_containers(tmp_path: Path) -> None:
    experiment = realised_experiment(write_run(tmp_path / "run"))
    entries = [entry.model_dump() for entry in experiment.phases[0].schedule]
    assert [(entry["fault"], entry["target"], entry["at"], entry["duration"]) for entry in entries] == [
        ("kill", "broker:2", 5.25, 3.0),
        ("partition", "brokers:1,3", 12.25, 4.0),
    ]
    assert entries[1]["action"] == "reject"
    assert experiment.seed == 7


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
        ([requested("kill-1", [], at=1.0, duration=1.0), EVENTS[1]], "the fault hit nobody"),
        ([requested("kill-1", ["broker-1", "zookeeper-1"], at=1.0, duration=1.0), EVENTS[1]], "no target names just"),
        ([requested("kill-1", ["broker-1"]), EVENTS[1]], "kill-1 has no times"),
    ],
)
def test_what_a_run_did_not_record_is_refused(tmp_path: Path, events: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        realised_experiment(write_run(tmp_path / "run", events=events))


def test_steps_of_a_lock_step_phase_are_no_faults_of_a_schedule(tmp_path: Path) -> None:
    step = requested("kill-3", ["broker-1"], at=None, duration=None, late=None)
    assert len(realised_experiment(write_run(tmp_path / "run", events=[*EVENTS, step])).phases[0].schedule) == 2


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match=r"experiment\.yaml: can't be read"):
        realised_experiment(tmp_path)
