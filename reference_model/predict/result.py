"""A prediction: a status for every anomaly of a lane, each with its reason, and the scope that was searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import OF_GROUPS, GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import ShareAnomaly
from kafka_chaos.contract.lane.transactions import PREDICTED_IN, TransactionAnomaly
from kafka_chaos.reference_model.machine import Story
from kafka_chaos.reference_model.predict.defects import DefectTrace
from kafka_chaos.reference_model.search import ScopeNotExhausted

_FAMILIES: Mapping[str, Any] = dict(
    zip(PREDICTED_IN, (Anomaly, TransactionAnomaly, GroupAnomaly, ShareAnomaly), strict=True)
)
"""By part of an answer, the anomalies that it has."""
NOT_EXHAUSTED = "not exhausted"
"""Stands for a status where the search ended early and has not found the anomaly."""


@dataclass(frozen=True, slots=True)
class AnomalyPrediction:
    """One anomaly's status, and why: the steps of a shortest way to it, or the reason there is none.

    `known_defects` names defects that make it reachable although it is forbidden.
    """

    status: Status
    why: Story
    known_defects: tuple[DefectTrace, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json`."""
        defects = [defect.to_json() for defect in self.known_defects]
        return {"status": str(self.status), "why": list(self.why), "known_defects": defects}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> AnomalyPrediction:
        """Read back what `to_json` gave; raises `KeyError` or `ValueError` for anything else."""
        return cls(
            Status(entry["status"]),
            tuple(map(str, entry["why"])),
            tuple(DefectTrace.from_json(defect) for defect in entry["known_defects"]),
        )


def answers_from(
    anomalies: Iterable[AnyAnomaly],
    stories: Mapping[Any, Story],
    none: str,
    defects: Mapping[Any, tuple[DefectTrace, ...]],
) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The answers of an exhausted search: an anomaly with a story is permitted, any other forbidden, as `none` says."""
    return {
        anomaly: AnomalyPrediction(Status.PERMITTED, stories[anomaly])
        if anomaly in stories
        else AnomalyPrediction(Status.FORBIDDEN, (none,), defects.get(anomaly, ()))
        for anomaly in anomalies
    }


@dataclass(frozen=True, slots=True)
class Prediction:
    """A lane's predictions, one for every anomaly that it may show, and the scope that was searched for them.

    Those of transactions are among them where its producers use these, those of groups where it has a group or a loop,
    those of share groups where it has one.
    """

    anomalies: Mapping[AnyAnomaly, AnomalyPrediction]
    states: int
    complete: bool
    bounds: Mapping[str, Any]

    def assuming(self, assumed: Mapping[AnyAnomaly, str]) -> Prediction:
        """The same prediction, without a status where what is assumed may make it wrong; by anomaly, the reason."""
        unjudged = {one: AnomalyPrediction(Status.NOT_JUDGED, (why,)) for one, why in assumed.items()}
        return replace(self, anomalies={one: unjudged.get(one, answer) for one, answer in self.anomalies.items()})

    def status(self, anomaly: AnyAnomaly) -> Status:
        """The status of one anomaly."""
        return self.anomalies[anomaly].status

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json` and of `prediction.json`."""
        parts = _in_parts({anomaly: answer.to_json() for anomaly, answer in self.anomalies.items()})
        return {**parts, "scope": {"states": self.states, "complete": self.complete, **self.bounds}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Prediction:
        """Read back what `to_json` gave; raises `KeyError` or `ValueError` for anything else."""
        anomalies: dict[AnyAnomaly, AnomalyPrediction] = {}
        for part, kind in _FAMILIES.items():
            entries = value.get(part, {})
            answers = {kind(name): AnomalyPrediction.from_json(entry) for name, entry in entries.items()}
            if set(answers) not in (set(kind), set(OF_GROUPS) if kind is GroupAnomaly else set(), set()):
                raise ValueError(f"a prediction names every anomaly of {part}, or none")
            anomalies |= answers
        if Anomaly.LOST_WRITE not in anomalies:
            raise ValueError("a prediction names the anomalies of every lane")
        bounds = dict(value["scope"])
        states, complete = int(bounds.pop("states")), bool(bounds.pop("complete"))
        return cls(anomalies, states, complete, bounds)


def _in_parts(entries: Mapping[AnyAnomaly, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The entries by part of an answer; a part that a lane does not have is left out."""
    parts = {
        part: {str(anomaly): entry for anomaly, entry in entries.items() if isinstance(anomaly, kind)}
        for part, kind in _FAMILIES.items()
    }
    return {part: of_part for part, of_part in parts.items() if of_part}


@dataclass(slots=True)
class Unfinished:
    """The result of a search so far: the way to each anomaly that is permitted at least; of the others that are `asked`
    for nothing is known."""

    stories: Mapping[AnyAnomaly, Story]
    asked: Iterable[AnyAnomaly]
    states: int
    reason: str
    bounds: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json`; no `Prediction` can be read from it."""
        permitted, unknown = str(Status.PERMITTED), {"status": NOT_EXHAUSTED, "why": [], "known_defects": []}
        told = {one: {**unknown, "status": permitted, "why": list(story)} for one, story in self.stories.items()}
        parts = _in_parts({anomaly: told.get(anomaly, unknown) for anomaly in self.asked})
        return {**parts, "scope": {"states": self.states, "complete": False, "reason": self.reason, **self.bounds}}


class PredictionNotExhausted(ScopeNotExhausted):
    """The budget ended the search for a prediction; `found` is what it had found by then."""

    def __init__(self, lane: Lane, found: Unfinished) -> None:
        self.found = found
        faults = ", ".join(lane.faults) or "no fault"
        super().__init__(f"the prediction of lane {lane.lane} ({faults}) is not exhausted: {found.reason}")
