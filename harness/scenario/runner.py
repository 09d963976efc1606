"""Runs scenarios one after the other on shared clusters, and says of each whether Kafka and the model agreed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka_chaos.harness.errors import KafkaChaosError
from kafka_chaos.harness.scenario.house import Houses
from kafka_chaos.harness.scenario.record import CONFORMS, UNKNOWN, VIOLATION, ScenarioRecord
from kafka_chaos.harness.scenario.registry import Scenario
from kafka_chaos.harness.scenario.stage import ModelOf, Play, ScenarioViolation, _model_of

Listener = Callable[[str, Any], None]


def run_scenario(
    scenario: Scenario,
    houses: Houses,
    *,
    tell: Listener = lambda kind, what: None,
    model_of: ModelOf = _model_of,
) -> ScenarioRecord:
    """Run one scenario. A disagreement or a broken expectation is a violation, a failure of the machine unknown."""
    record = ScenarioRecord(scenario.id, scenario.document, scenario.title)
    start = time.monotonic()
    tell("scenario", scenario)
    try:
        scenario.play(Play(houses, record, tell, model_of))
        record.verdict = CONFORMS
    except ScenarioViolation as violation:
        record.verdict, record.reason = VIOLATION, str(violation)
    except KafkaChaosError as error:
        record.verdict, record.reason = UNKNOWN, str(error)
    record.seconds = time.monotonic() - start
    tell("verdict", record)
    return record


def run_scenarios(
    scenarios: Iterable[Scenario], *, repeat: int = 1, tell: Listener = lambda kind, what: None
) -> list[ScenarioRecord]:
    """Run scenarios, each `repeat` times; clusters are shared and removed at the end."""
    with Houses() as houses:
        return [run_scenario(scenario, houses, tell=tell) for scenario in scenarios for _ in range(repeat)]
