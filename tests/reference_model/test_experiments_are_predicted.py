"""`predict` answers every lane used anywhere in experiments/."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kafka_chaos.reference_model import Anomaly, Lane, parse_course, predict
from kafka_chaos.reference_model.lane import FAULT_KINDS

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
KEYS = {field.name for field in fields(Lane)}


def phases() -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, phase) for every phase of every experiment, whether or not its file names phases."""
    for path in sorted(EXPERIMENTS.rglob("*.yaml")):
        experiment = YAML(typ="safe").load(path)
        for number, phase in enumerate(experiment.get("phases", [experiment])):
            if "lanes" in phase:
                yield f"{path.stem}-{phase.get('phase', number)}", phase


def questions() -> Iterator[Any]:
    for name, phase in phases():
        faults = [fault["fault"] for fault in phase.get("schedule", ()) if fault["fault"] in FAULT_KINDS]
        course = parse_course(phase["course"]["steps"]) if "course" in phase else None
        for entry in phase["lanes"]:
            settings = {key: value for key, value in entry.items() if key in KEYS}
            settings["acks"] = str(settings.get("acks", "all"))
            lane = Lane.from_json({**settings, "faults": [] if course else faults})
            yield pytest.param(lane, course, id=f"{name}-{lane.lane}")


def test_there_are_lanes_to_predict() -> None:
    assert list(questions())


@pytest.mark.slow
@pytest.mark.parametrize(("lane", "course"), list(questions()))
def test_every_lane_has_its_predictions(lane: Lane, course: Any) -> None:
    prediction = predict(lane, course=course)
    assert prediction.complete
    assert set(prediction.anomalies) == set(Anomaly)
