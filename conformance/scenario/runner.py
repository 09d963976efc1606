"""Runs scenarios one after the other on shared clusters, and decides for each whether Kafka and the model agreed.

A scenario that crashes is `unknown`, like one whose cluster fails, and the next ones still run. Only if the environment
lacks something (no Docker engine, no memory) do all of them end, with `EnvironmentFailure`.
"""

import time
import traceback
from collections.abc import Iterable
from pathlib import Path

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.conformance.scenario.lockstep import Listener, ScenarioViolation
from kafka_chaos.conformance.scenario.play import ModelOf, Play, model_of_kafka
from kafka_chaos.conformance.scenario.record import ScenarioRecord
from kafka_chaos.conformance.scenario.registry import Scenario
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure, KafkaChaosError


def run_scenario(
    scenario: Scenario,
    pool: ClusterPool,
    *,
    notify: Listener = lambda kind, what: None,
    model_of: ModelOf = model_of_kafka,
) -> ScenarioRecord:
    """Run one scenario. A disagreement or a broken expectation is a violation, a failure of the cluster is unknown."""
    record = ScenarioRecord(scenario.id, scenario.source.document.title, scenario.title)
    notify("scenario", scenario)

    start = time.monotonic()
    try:
        scenario.play(Play(pool, record, notify, model_of))
        if record.acts and all(act.steps and act.expectations for act in record.acts):
            record.verdict = Verdict.CONFORMS
        else:
            record.reason = "an act without a step or without an expectation shows nothing"
    except ScenarioViolation as violation:
        record.verdict, record.reason = Verdict.VIOLATION, str(violation)
    except EnvironmentFailure:
        raise
    except KafkaChaosError as error:
        record.reason = str(error)
    except Exception as error:  # noqa: BLE001 -- a crashed check is unknown, and the others can still run
        record.reason = _crash(error)
    record.seconds = time.monotonic() - start
    notify("verdict", record)
    return record


def run_scenarios(
    scenarios: Iterable[Scenario],
    *,
    repeat: int = 1,
    notify: Listener = lambda kind, what: None,
    kraft_version: str | None = None,
) -> list[ScenarioRecord]:
    """Run scenarios, each `repeat` times; clusters are shared and removed at the end.

    `kraft_version`: run them in KRaft mode, in this version of Kafka.
    """
    with ClusterPool(kraft_version=kraft_version) as pool:
        return [run_scenario(scenario, pool, notify=notify) for scenario in scenarios for _ in range(repeat)]


def _crash(error: Exception) -> str:
    """The error of a crash, and its place in the project's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(own[-4:]))
    return f"crashed with {type(error).__name__}: {error} (at {where})"
