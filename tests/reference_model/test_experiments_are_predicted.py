"""`predict` answers every lane used anywhere in experiments/, and the benchmark measures every mix of faults there."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from dataclasses import fields
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kafka_chaos.contract.fault_kinds import FAULT_KINDS
from kafka_chaos.reference_model import Anomaly, Lane, parse_lockstep, predict
from kafka_chaos.reference_model.predict.sensitivity import sensitivity

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
LOCKSTEP_NOT_KEPT = ("partition", "kill")
"""What a run predicts for instead, once a step of its lock-step phase did not come about."""
KEYS = {field.name for field in fields(Lane)}


def phases() -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, phase) for every phase of every experiment, whether or not its file names phases."""
    for path in sorted(EXPERIMENTS.rglob("*.yaml")):
        experiment = YAML(typ="safe").load(path)
        for number, phase in enumerate(experiment.get("phases", [experiment])):
            if "lanes" in phase:
                yield f"{path.stem}-{phase.get('phase', number)}", phase


def fault_mixes(schedule: Any) -> Iterator[tuple[str, ...]]:
    """The faults of a written schedule, or every mix that a generated one may come to."""
    if isinstance(schedule, dict):
        generate = schedule["generate"]
        kinds = sorted(kind for kind in generate["faults"] if kind in FAULT_KINDS)
        yield from combinations_with_replacement(kinds, generate["count"])
    else:
        yield tuple(fault["fault"] for fault in schedule if fault["fault"] in FAULT_KINDS)


def questions() -> Iterator[Any]:
    for name, phase in phases():
        mixes = list(fault_mixes(phase.get("schedule", ())))
        lockstep = parse_lockstep(phase["lockstep"]["steps"]) if "lockstep" in phase else None
        for entry in phase["lanes"]:
            settings = {key: value for key, value in entry.items() if key in KEYS}
            settings["acks"] = str(settings.get("acks", "all"))
            if lockstep:
                lane = Lane.from_json(settings)
                yield pytest.param(lane, lockstep, id=f"{name}-{lane.lane}-in-lock-step")
            for faults in [LOCKSTEP_NOT_KEPT] if lockstep else mixes:
                lane = Lane.from_json({**settings, "faults": faults})
                yield pytest.param(lane, None, id=f"{name}-{lane.lane}-{'+'.join(faults)}")


def test_there_are_lanes_to_predict() -> None:
    assert list(questions())


def test_the_benchmark_measures_every_mix() -> None:
    measured = runpy.run_path(str(EXPERIMENTS.parent / "benchmarks" / "model_explore.py"))["FAULTS"]
    used = {tuple(sorted(question.values[0].faults)) for question in questions()}
    assert used <= {tuple(sorted(faults)) for faults in measured}


@pytest.mark.slow
@pytest.mark.parametrize(("lane", "lockstep"), list(questions()))
def test_every_lane_has_its_predictions(lane: Lane, lockstep: Any) -> None:
    prediction = predict(lane, lockstep=lockstep)
    assert prediction.complete
    assert set(prediction.anomalies) == set(Anomaly)


@pytest.mark.slow
@pytest.mark.parametrize(("lane", "lockstep"), list(questions()))
def test_one_more_record_or_attempt_changes_no_prediction(lane: Lane, lockstep: Any) -> None:
    """As far as a search of 300,000 states gets: most are exhausted by then."""
    prediction = predict(lane, lockstep=lockstep)
    for larger in sensitivity(prediction, lane, lockstep, max_states=300_000):
        if larger.bound in ("records", "attempts"):
            assert larger.changes == {}, larger
