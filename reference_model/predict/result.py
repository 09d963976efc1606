"""A prediction: a status for every anomaly of a lane, each with its reason, and the scope that was searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.families import FAMILY_KEYS, AnyAnomaly
from kafka_chaos.contract.lane.groups import GROUP_ANOMALIES, GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import Share, ShareAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.machine import Story
from kafka_chaos.reference_model.predict.defects import DefectTrace
from kafka_chaos.reference_model.search import ScopeNotExhausted

_FAMILIES: Mapping[str, Any] = dict(
    zip(FAMILY_KEYS, (Anomaly, TransactionAnomaly, GroupAnomaly, ShareAnomaly), strict=True)
)
"""The family of the anomalies below each key of a prediction's JSON."""
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
    why_forbidden: str,
    defects: Mapping[Any, tuple[DefectTrace, ...]],
) -> dict[AnyAnomaly, AnomalyPrediction]:
    """The answers of an exhausted search: anomalies with a story are permitted, all others forbidden.

    `why_forbidden`: the reason for all forbidden ones. `defects`: the known defects that make each of them reachable.
    """
    return {
        anomaly: AnomalyPrediction(Status.PERMITTED, stories[anomaly])
        if anomaly in stories
        else AnomalyPrediction(Status.FORBIDDEN, (why_forbidden,), defects.get(anomaly, ()))
        for anomaly in anomalies
    }


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predictions for a lane, one for each anomaly, and the scope that was searched for them.

    The anomalies of transactions are among them if the lane's producers use transactions, those of groups if it has a
    group or a loop, and those of share groups if it has a share group. `states`: how many states were searched.
    `bounds`: the other keys of `scope` in `predict --json`.
    """

    anomalies: Mapping[AnyAnomaly, AnomalyPrediction]
    states: int
    complete: bool
    bounds: Mapping[str, Any]

    def assuming(self, reasons: Mapping[AnyAnomaly, str]) -> Prediction:
        """The same prediction, but `not judged` for the anomalies that it may be wrong about because of an assumption.

        `reasons`: by such an anomaly, why the prediction may be wrong about it.
        """
        unjudged = {anomaly: AnomalyPrediction(Status.NOT_JUDGED, (why,)) for anomaly, why in reasons.items()}
        return replace(self, anomalies={key: unjudged.get(key, answer) for key, answer in self.anomalies.items()})

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
        for part, family in _FAMILIES.items():
            entries = value.get(part, {})
            answers = {family(name): AnomalyPrediction.from_json(entry) for name, entry in entries.items()}
            # A group without a loop has no anomalies of loops, and a share group may have no dead letters.
            fewer = {GroupAnomaly: GROUP_ANOMALIES, ShareAnomaly: Share().anomalies}.get(family, ())
            if set(answers) not in (set(), set(family), set(fewer)):
                raise ValueError(f"{part}: some anomalies are missing, expected all or none")
            anomalies |= answers
        if Anomaly.LOST_WRITE not in anomalies:
            raise ValueError("the anomalies that every lane has are missing")
        bounds = dict(value["scope"])
        states, complete = int(bounds.pop("states")), bool(bounds.pop("complete"))
        return cls(anomalies, states, complete, bounds)


def _in_parts(entries: Mapping[AnyAnomaly, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The entries of each family of anomalies by its key; a family without entries is left out."""
    parts = {
        part: {str(anomaly): entry for anomaly, entry in entries.items() if isinstance(anomaly, family)}
        for part, family in _FAMILIES.items()
    }
    return {part: entries_of_family for part, entries_of_family in parts.items() if entries_of_family}


@dataclass(slots=True)
class Unfinished:
    """The result of a search that ended early.

    Anomalies with a story are permitted. Nothing is known of the other `anomalies`.
    """

    stories: Mapping[AnyAnomaly, Story]
    anomalies: Iterable[AnyAnomaly]
    states: int
    reason: str
    bounds: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json`; no `Prediction` can be read from it."""
        permitted, unknown = str(Status.PERMITTED), {"status": NOT_EXHAUSTED, "why": [], "known_defects": []}
        shown = {key: {**unknown, "status": permitted, "why": list(story)} for key, story in self.stories.items()}
        parts = _in_parts({anomaly: shown.get(anomaly, unknown) for anomaly in self.anomalies})
        return {**parts, "scope": {"states": self.states, "complete": False, "reason": self.reason, **self.bounds}}


class PredictionNotExhausted(ScopeNotExhausted):
    """The budget ended the search for a prediction; `unfinished` is what the search had found by then."""

    def __init__(self, lane: Lane, unfinished: Unfinished) -> None:
        self.unfinished = unfinished
        faults = ", ".join(lane.faults) or "no fault"
        super().__init__(f"the prediction of lane {lane.lane} ({faults}) is not exhausted: {unfinished.reason}")
