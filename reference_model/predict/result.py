"""A prediction: a status for every anomaly of a lane, each with its reason, and the scope that was searched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import OF_GROUPS, GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import PREDICTED_IN, TransactionAnomaly
from kafka_chaos.reference_model.machine import Story
from kafka_chaos.reference_model.predict.defects import DefectTrace
from kafka_chaos.reference_model.search import ScopeNotExhausted

Name = TypeVar("Name", Anomaly, TransactionAnomaly, GroupAnomaly)
Answer = TypeVar("Answer")

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
    anomalies: Iterable[Name], stories: Mapping[Name, Story], none: str, defects: Mapping[Name, tuple[DefectTrace, ...]]
) -> dict[Name, AnomalyPrediction]:
    """The answers of an exhausted search: an anomaly with a story is permitted, any other forbidden, as `none` says."""
    return {
        anomaly: AnomalyPrediction(Status.PERMITTED, stories[anomaly])
        if anomaly in stories
        else AnomalyPrediction(Status.FORBIDDEN, (none,), defects.get(anomaly, ()))
        for anomaly in anomalies
    }


@dataclass(frozen=True, slots=True)
class Prediction:
    """A lane's predictions, one for every anomaly, and the scope that was searched for them.

    `transactions` has one for every anomaly of transactions, in a lane whose producers use them; it is empty otherwise.
    `groups` has those that the lane's group and its loop bring along.
    """

    anomalies: Mapping[Anomaly, AnomalyPrediction]
    states: int
    complete: bool
    bounds: Mapping[str, Any]
    transactions: Mapping[TransactionAnomaly, AnomalyPrediction] = field(default_factory=dict)
    groups: Mapping[GroupAnomaly, AnomalyPrediction] = field(default_factory=dict)

    def assuming(self, assumed: Mapping[AnyAnomaly, str]) -> Prediction:
        """The same prediction, without a status where what is assumed may make it wrong; by anomaly, the reason."""

        def told(answers: Mapping[Name, AnomalyPrediction]) -> dict[Name, AnomalyPrediction]:
            return {
                anomaly: AnomalyPrediction(Status.NOT_JUDGED, (assumed[anomaly],)) if anomaly in assumed else answer
                for anomaly, answer in answers.items()
            }

        return replace(
            self, anomalies=told(self.anomalies), transactions=told(self.transactions), groups=told(self.groups)
        )

    def status(self, anomaly: Anomaly) -> Status:
        """The status of one anomaly."""
        return self.anomalies[anomaly].status

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json` and of `prediction.json`."""
        parts = _parts(self.anomalies, self.transactions, self.groups, AnomalyPrediction.to_json)
        return {**parts, "scope": {"states": self.states, "complete": self.complete, **self.bounds}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Prediction:
        """Read back what `to_json` gave; raises `KeyError` or `ValueError` for anything else."""
        anomalies = _read(value, "anomalies", Anomaly, (set(Anomaly),))
        transactions = _read(value, "transactions", TransactionAnomaly, (set(), set(TransactionAnomaly)))
        groups = _read(value, "groups", GroupAnomaly, (set(), set(OF_GROUPS), set(GroupAnomaly)))
        bounds = dict(value["scope"])
        states, complete = int(bounds.pop("states")), bool(bounds.pop("complete"))
        return cls(anomalies, states, complete, bounds, transactions, groups)


def _read(
    value: Mapping[str, Any], part: str, kind: Callable[[str], Name], complete: Collection[set[Name]]
) -> dict[Name, AnomalyPrediction]:
    found = {kind(name): AnomalyPrediction.from_json(entry) for name, entry in value.get(part, {}).items()}
    if set(found) not in complete:
        raise ValueError(f"a prediction names every anomaly of {part}, or none")
    return found


def _parts(
    anomalies: Mapping[Anomaly, Answer],
    transactions: Mapping[TransactionAnomaly, Answer],
    groups: Mapping[GroupAnomaly, Answer],
    to_json: Callable[[Answer], dict[str, Any]],
) -> dict[str, Any]:
    """The statuses in each part of an answer; a part that a lane does not have is left out."""
    parts: tuple[Mapping[Any, Answer], ...] = (anomalies, transactions, groups)
    return {
        part: {str(anomaly): to_json(answer) for anomaly, answer in answers.items()}
        for part, answers in zip(PREDICTED_IN, parts, strict=True)
        if answers
    }


@dataclass(slots=True)
class Unfinished:
    """The result of a search so far: the way to each anomaly that is permitted at least; the rest is not known.

    `transactions` and `groups` name those that the lane has, with None for what was not found.
    """

    stories: dict[Anomaly, Story] = field(default_factory=dict)
    states: int = 0
    reason: str = ""
    bounds: Mapping[str, Any] = field(default_factory=dict)
    transactions: Mapping[TransactionAnomaly, Story | None] = field(default_factory=dict)
    groups: Mapping[GroupAnomaly, Story | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json`; no `Prediction` can be read from it."""
        anomalies = {anomaly: self.stories.get(anomaly) for anomaly in Anomaly}
        parts = _parts(anomalies, self.transactions, self.groups, _unfinished)
        return {**parts, "scope": {"states": self.states, "complete": False, "reason": self.reason, **self.bounds}}


def _unfinished(story: Story | None) -> dict[str, Any]:
    status = NOT_EXHAUSTED if story is None else str(Status.PERMITTED)
    return {"status": status, "why": list(story or ()), "known_defects": []}


class PredictionNotExhausted(ScopeNotExhausted):
    """The budget ended the search for a prediction; `found` is what it had found by then."""

    def __init__(self, lane: Lane, found: Unfinished) -> None:
        self.found = found
        faults = ", ".join(lane.faults) or "no fault"
        super().__init__(f"the prediction of lane {lane.lane} ({faults}) is not exhausted: {found.reason}")
