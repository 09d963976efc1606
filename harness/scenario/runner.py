"""Runs scenarios one after the other on shared clusters, and says of each whether Kafka and the model agreed.

A scenario that crashed is `unknown`, like one whose machine failed, and those after it still run. Only a machine that
lacks something (no Docker engine, no memory) ends them all: `EnvironmentFailure` is raised.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kafka_chaos.harness.errors import EnvironmentFailure, KafkaChaosError
from kafka_chaos.harness.scenario.house import Houses
from kafka_chaos.harness.scenario.lockstep import ScenarioViolation
from kafka_chaos.harness.scenario.play import ModelOf, Play, model_of_kafka
from kafka_chaos.harness.scenario.record import CONFORMS, UNKNOWN, VIOLATION, ScenarioRecord
from kafka_chaos.harness.scenario.registry import Scenario

Listener = Callable[[str, Any], None]


def run_scenario(
    scenario: Scenario,
    houses: Houses,
    *,
    tell: Listener = lambda kind, what: None,
    model_of: ModelOf = model_of_kafka,
) -> ScenarioRecord:
    """Run one scenario. A disagreement or a broken expectation is a violation, a failure of the machine unknown."""
    record = ScenarioRecord(scenario.id, scenario.document, scenario.title)
    start = time.monotonic()
    tell("scenario", scenario)
    try:
        scenario.play(Play(houses, record, tell, model_of))
        if record.acts and all(act.steps and act.expectations for act in record.acts):
            record.verdict = CONFORMS
        else:
            record.reason = "an act without a step or without an expectation shows nothing"
    except ScenarioViolation as violation:
        record.verdict, record.reason = VIOLATION, str(violation)
    except EnvironmentFailure:
        raise
    except KafkaChaosError as error:
        record.verdict, record.reason = UNKNOWN, str(error)
    except Exception as error:  # noqa: BLE001 -- what a crashed check says is unknown, and the others can still run
        record.verdict, record.reason = UNKNOWN, _crash(error)
    record.seconds = time.monotonic() - start
    tell("verdict", record)
    return record


def run_scenarios(
    scenarios: Iterable[Scenario], *, repeat: int = 1, tell: Listener = lambda kind, what: None
) -> list[ScenarioRecord]:
    """Run scenarios, each `repeat` times; clusters are shared and removed at the end."""
    with Houses() as houses:
        return [run_scenario(scenario, houses, tell=tell) for scenario in scenarios for _ in range(repeat)]


def _crash(error: Exception) -> str:
    """What went wrong, and where in the project's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(own[-4:]))
    return f"crashed with {type(error).__name__}: {error} (at {where})"
