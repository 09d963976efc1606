"""Runs scenarios one after the other on shared clusters, and decides for each whether Kafka and the model agreed.

A scenario that crashes, or whose cluster fails, is `unknown`, and the next scenarios still run. Only if the environment
lacks something (no Docker engine, no memory) do all scenarios end, with `EnvironmentFailure`. The results are one JSON
document, which is written whole or not at all.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.conformance.scenario.lockstep import Listener, ScenarioViolation
from kafka_chaos.conformance.scenario.play import ModelFactory, Play, make_kafka_model
from kafka_chaos.conformance.scenario.record import FORMAT_VERSION, ScenarioRecord
from kafka_chaos.conformance.scenario.registry import Scenario
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import EnvironmentFailure, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.files import write_whole


@dataclass(frozen=True, slots=True)
class Tally:
    """The runs of a scenario: the number of runs with each verdict, and the seconds that each run took."""

    conforms: int = 0
    violation: int = 0
    unknown: int = 0
    seconds: tuple[float, ...] = ()

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.conforms + self.violation + self.unknown

    @property
    def verdict(self) -> Verdict:
        """The gravest of the runs' verdicts; unknown without any run."""
        verdicts = (verdict for verdict in Verdict if getattr(self, verdict.value))
        return Verdict.gravest(verdicts, default=Verdict.UNKNOWN)

    @property
    def median(self) -> float:
        """The median of the runs' seconds."""
        return median(self.seconds)

    def plus(self, other: Tally) -> Tally:
        """The sum of two tallies."""
        return Tally(
            self.conforms + other.conforms,
            self.violation + other.violation,
            self.unknown + other.unknown,
            (*self.seconds, *other.seconds),
        )

    def to_json(self) -> dict[str, Any]:
        """The tally as JSON values, with the minimum, median and maximum of the seconds."""
        counts = {"runs": self.runs, "conforms": self.conforms, "violation": self.violation, "unknown": self.unknown}
        times = (min(self.seconds), median(self.seconds), max(self.seconds)) if self.seconds else (None, None, None)
        rounded = [None if time is None else round(time, 1) for time in times]
        return {**counts, "seconds": dict(zip(("min", "median", "max"), rounded, strict=True))}


def tallies(records: Iterable[ScenarioRecord]) -> dict[str, Tally]:
    """The tally of each scenario, in the order in which the scenarios first ran."""
    by_scenario: dict[str, Tally] = {}
    for record in records:
        count = {str(record.verdict): 1}
        run = Tally(seconds=(round(record.seconds, 1),), **count)
        by_scenario[record.scenario] = by_scenario.get(record.scenario, Tally()).plus(run)
    return by_scenario


def results_json(records: Sequence[ScenarioRecord], *, seconds: float, not_run: Sequence[str] = ()) -> dict[str, Any]:
    """All runs as JSON values. `not_run`: the scenario of each planned run without a result, counted as `unknown`."""
    verdicts = [*(record.verdict for record in records), *(Verdict.UNKNOWN for _ in not_run)]
    verdict = Verdict.gravest(verdicts, default=Verdict.UNKNOWN)
    return {
        "format_version": FORMAT_VERSION,
        "verdict": verdict.value,
        "seconds": round(seconds, 1),
        **({"not_run": list(not_run)} if not_run else {}),
        "counts": [{"scenario": name, **tally.to_json()} for name, tally in tallies(records).items()],
        "scenarios": [record.to_json() for record in records],
    }


def write_or_refuse(path: Path, text: str) -> None:
    """Write a file, and create its folder if need be. Raises `UsageFailure` if it can't be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise UsageFailure(f"{path}: can't be written: {error.strerror}") from error


def run_scenario(
    scenario: Scenario,
    pool: ClusterPool,
    *,
    notify: Listener = lambda kind, event: None,
    make_model: ModelFactory = make_kafka_model,
) -> ScenarioRecord:
    """Run one scenario. A disagreement or a broken expectation is a violation; a failure of the cluster is unknown."""
    record = ScenarioRecord(scenario.id, scenario.source.document.title, scenario.title)
    notify("scenario", scenario)
    start = time.monotonic()
    try:
        scenario.play(Play(pool, record, notify, make_model))
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
    except Exception as error:  # noqa: BLE001 -- a crashed scenario is unknown, and the others can still run
        record.reason = _crash_text(error)
    record.seconds = time.monotonic() - start
    notify("verdict", record)
    return record


def _crash_text(error: Exception) -> str:
    """The reason of a crashed scenario: the error, and the innermost frames outside of site-packages."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if "site-packages" not in frame.filename] or frames
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(shown[-4:]))
    return f"crashed with {type(error).__name__}: {error} (at {where})"
