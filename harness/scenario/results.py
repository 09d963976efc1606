"""Results of scenarios as one JSON document: written whole or not at all, read back checked, runs counted.

A stored document may be condensed: a scenario then stands there once, with the counts of all its runs (`runs`), and a
step's replica that is as in the step before is only named (`as_before`). Both forms are read, and add up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from kafka_chaos.harness.errors import UsageFailure
from kafka_chaos.harness.scenario.record import (
    FORMAT_VERSION,
    ActRecord,
    Expectation,
    ScenarioRecord,
    StepRecord,
)
from kafka_chaos.reference_model.anomalies import Verdict
from kafka_chaos.reference_model.cluster_observation import Difference, Observation, ReplicaObservation


@dataclass(frozen=True, slots=True)
class Tally:
    """All runs of a scenario: how many came to which verdict, and how many seconds each took."""

    conforms: int
    violation: int
    unknown: int
    seconds: tuple[float, ...]

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return self.conforms + self.violation + self.unknown

    @property
    def verdict(self) -> Verdict:
        """The verdict over all runs; of none: unknown."""
        return merged([verdict for verdict in Verdict if getattr(self, verdict.value)])

    def plus(self, other: Tally) -> Tally:
        """Both tallies as one."""
        return Tally(
            self.conforms + other.conforms,
            self.violation + other.violation,
            self.unknown + other.unknown,
            (*self.seconds, *other.seconds),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the least, median and most seconds."""
        counts = {"runs": self.runs, "conforms": self.conforms, "violation": self.violation, "unknown": self.unknown}
        times = (min(self.seconds), median(self.seconds), max(self.seconds)) if self.seconds else (None, None, None)
        rounded = [None if time is None else round(time, 1) for time in times]
        return {**counts, "seconds": dict(zip(("min", "median", "max"), rounded, strict=True))}


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The runs of a scenario, and one of them with the verdict of all."""

    record: ScenarioRecord
    tally: Tally

    def plus(self, other: ScenarioResult) -> ScenarioResult:
        """Both results as one; of the runs with the gravest verdict, the later is shown."""
        tally = self.tally.plus(other.tally)
        shown = other if other.record.verdict == tally.verdict else self
        return ScenarioResult(shown.record, tally)


def merged(verdicts: Iterable[str]) -> Verdict:
    """The gravest of verdicts, violation > unknown > conforms; of none: unknown."""
    found = [Verdict(verdict) for verdict in verdicts]
    if not found:
        return Verdict.UNKNOWN
    gravest = Verdict.CONFORMS
    for verdict in found:
        gravest = gravest.merge(verdict)
    return gravest


def result_of(record: ScenarioRecord) -> ScenarioResult:
    """One run as a result."""
    counts = {verdict.value: int(record.verdict == verdict) for verdict in Verdict}
    return ScenarioResult(record, Tally(seconds=(round(record.seconds, 1),), **counts))


def collect(results: Iterable[ScenarioResult]) -> dict[str, ScenarioResult]:
    """Results by scenario, in the order in which each scenario first came, runs counted together."""
    found: dict[str, ScenarioResult] = {}
    for result in results:
        name = result.record.scenario
        found[name] = found[name].plus(result) if name in found else result
    return found


def results_json(records: Sequence[ScenarioRecord], *, seconds: float, not_run: Sequence[str] = ()) -> dict[str, Any]:
    """All runs as JSON values. `not_run`: ids of runs that were to be and were not; each counts as `unknown`."""
    verdict = merged([*(record.verdict for record in records), *(Verdict.UNKNOWN for _ in not_run)])
    found = collect(map(result_of, records))
    return {
        "format_version": FORMAT_VERSION,
        "verdict": verdict.value,
        "seconds": round(seconds, 1),
        **({"not_run": list(not_run)} if not_run else {}),
        "counts": [{"scenario": name, **result.tally.to_json()} for name, result in found.items()],
        "scenarios": [record.to_json() for record in records],
    }


def condensed_json(results: Iterable[ScenarioResult]) -> dict[str, Any]:
    """Results as JSON values, each scenario once, without what a step has as the one before."""
    entries = []
    for result in results:
        entry = result.record.to_json()
        for act in entry["acts"]:
            _condense(act["steps"])
        runs = {verdict.value: getattr(result.tally, verdict.value) for verdict in Verdict}
        entries.append({**entry, "runs": {**runs, "seconds": list(result.tally.seconds)}})
    return {"format_version": FORMAT_VERSION, "scenarios": entries}


def _condense(steps: list[dict[str, Any]]) -> None:
    before: dict[str, Any] = {}
    for step in steps:
        replicas = step["observed"]["replicas"]
        same = [broker for broker, replica in replicas.items() if before.get(broker) == replica]
        before = replicas
        if same:
            step["observed"]["as_before"] = [int(broker) for broker in same]
            step["observed"]["replicas"] = {b: replica for b, replica in replicas.items() if b not in same}


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises `UsageFailure` where it can't be written."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise UsageFailure(f"{path}: can't be written: {error.strerror}") from error


def dump(document: Mapping[str, Any]) -> str:
    """JSON with a line per step, so that a change of one step is a change of one line."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for opening in ('{"scenario":', '{"name":', '{"step":', '{"text":', '"facts":'):
        text = text.replace(opening, "\n" + opening)
    return text + "\n"


def read_results(path: Path) -> list[ScenarioResult]:
    """The results in a file. Raises `UsageFailure` with the file, the place in it and what was expected there."""
    try:
        found = _Results.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageFailure(f"{path}: can't be read: {error.strerror}") from error
    except ValidationError as error:
        lines = [f"{path}: {_place(entry['loc'])}{entry['msg']}" for entry in error.errors()[:5]]
        raise UsageFailure("\n".join(lines)) from error
    return [_result(entry) for entry in found.scenarios]


def _place(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return f"{path.lstrip('.')}: " if path else ""


class _Partition(BaseModel):
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    controller_epoch: int | None = None


class _Observed(BaseModel):
    partition: _Partition
    replicas: dict[int, ReplicaObservation]
    acknowledged: tuple[tuple[str, int | None], ...] | None = None
    as_before: tuple[int, ...] = ()


class _Step(BaseModel):
    step: int
    sentence: str
    seconds: float
    observed: _Observed
    allowed_states: int
    matching_states: int
    differences: tuple[Difference, ...]


class _Act(BaseModel):
    name: str
    cluster: str
    protocol: str
    replicas: tuple[int, ...]
    names: dict[int, str]
    steps: list[_Step]
    expectations: list[Expectation]
    facts: dict[str, Any]


class _Runs(BaseModel):
    conforms: int
    violation: int
    unknown: int
    seconds: tuple[float, ...]


class _Scenario(BaseModel):
    scenario: str
    document: str
    title: str
    verdict: Verdict
    reason: str | None
    seconds: float
    acts: list[_Act]
    runs: _Runs | None = None


class _Results(BaseModel):
    format_version: Literal[1]
    scenarios: list[_Scenario]


def _result(entry: _Scenario) -> ScenarioResult:
    record = ScenarioRecord(
        entry.scenario,
        entry.document,
        entry.title,
        entry.verdict.value,
        entry.reason,
        entry.seconds,
        [_act(act) for act in entry.acts],
    )
    if entry.runs is None:
        return result_of(record)
    return ScenarioResult(record, Tally(**entry.runs.model_dump()))


def _act(act: _Act) -> ActRecord:
    steps: list[StepRecord] = []
    for step in act.steps:
        before = steps[-1].observation.replicas if steps else {}
        observation = _observation(step.observed, before, act.replicas)
        steps.append(
            StepRecord(
                step.step,
                step.sentence,
                step.seconds,
                observation,
                (),
                step.allowed_states,
                step.matching_states,
                step.differences,
            )
        )
    return ActRecord(act.name, act.cluster, act.protocol, act.replicas, act.names, steps, act.expectations, act.facts)


def _observation(observed: _Observed, before: Mapping[int, ReplicaObservation], order: Sequence[int]) -> Observation:
    replicas = {**{broker: before[broker] for broker in observed.as_before if broker in before}, **observed.replicas}
    in_order = [broker for broker in order if broker in replicas] + [b for b in replicas if b not in order]
    partition = observed.partition
    return Observation(
        replicas={broker: replicas[broker] for broker in in_order},
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        controller_epoch=partition.controller_epoch,
        acknowledged=observed.acknowledged,
    )
