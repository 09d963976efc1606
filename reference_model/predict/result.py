"""What a prediction is: a status for every anomaly of a lane, each with its reason, and the scope that was searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.groups import OF_GROUPS, GroupAnomaly
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import TransactionAnomaly
from kafka_chaos.reference_model.machine import Story
from kafka_chaos.reference_model.predict.defects import DefectTrace
from kafka_chaos.reference_model.search import ScopeNotExhausted

Name = TypeVar("Name", Anomaly, TransactionAnomaly, GroupAnomaly)

NOT_EXHAUSTED = "not exhausted"
"""What stands for a status where the search ended early and has not found the anomaly."""


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
    anomalies: Iterable[Name],
    stories: Mapping[Name, Story],
    none: str,
    defects: Mapping[Name, tuple[DefectTrace, ...]],
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

    def status(self, anomaly: Anomaly) -> Status:
        """The status of one anomaly."""
        return self.anomalies[anomaly].status

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json` and of `prediction.json`."""
        others: dict[str, Mapping[Any, AnomalyPrediction]] = {"transactions": self.transactions, "groups": self.groups}
        return {
            "anomalies": {str(anomaly): answer.to_json() for anomaly, answer in self.anomalies.items()},
            **{
                part: {str(anomaly): answer.to_json() for anomaly, answer in answers.items()}
                for part, answers in others.items()
                if answers
            },
            "scope": {"states": self.states, "complete": self.complete, **self.bounds},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Prediction:
        """Read back what `to_json` gave; raises `KeyError` or `ValueError` for anything else."""
        anomalies = {Anomaly(name): AnomalyPrediction.from_json(entry) for name, entry in value["anomalies"].items()}
        if set(anomalies) != set(Anomaly):
            raise ValueError("a prediction names every anomaly")
        transactions = {
            TransactionAnomaly(name): AnomalyPrediction.from_json(entry)
            for name, entry in value.get("transactions", {}).items()
        }
        if transactions and set(transactions) != set(TransactionAnomaly):
            raise ValueError("a prediction names every anomaly of transactions, or none")
        groups = {
            GroupAnomaly(name): AnomalyPrediction.from_json(entry) for name, entry in value.get("groups", {}).items()
        }
        if groups and set(groups) not in (set(OF_GROUPS), set(GroupAnomaly)):
            raise ValueError("a prediction names every anomaly of groups, of loops too, or none")
        bounds = dict(value["scope"])
        states, complete = int(bounds.pop("states")), bool(bounds.pop("complete"))
        return cls(anomalies, states, complete, bounds, transactions, groups)


@dataclass(slots=True)
class Unfinished:
    """What a search has found so far: the way to each anomaly that is permitted at least; the rest is not known."""

    stories: dict[Anomaly, Story] = field(default_factory=dict)
    states: int = 0
    reason: str = ""
    bounds: Mapping[str, Any] = field(default_factory=dict)
    transactions: Mapping[TransactionAnomaly, Story] | None = None
    groups: Mapping[GroupAnomaly, Story | None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json`; no `Prediction` can be read from it."""
        transactions = self.transactions
        return {
            "anomalies": {str(anomaly): _unfinished(self.stories.get(anomaly)) for anomaly in Anomaly},
            **(
                {}
                if transactions is None
                else {"transactions": {str(a): _unfinished(transactions.get(a)) for a in TransactionAnomaly}}
            ),
            **({"groups": {str(a): _unfinished(story) for a, story in self.groups.items()}} if self.groups else {}),
            "scope": {"states": self.states, "complete": False, "reason": self.reason, **self.bounds},
        }


def _unfinished(story: Story | None) -> dict[str, Any]:
    status = NOT_EXHAUSTED if story is None else str(Status.PERMITTED)
    return {"status": status, "why": list(story or ()), "known_defects": []}


class PredictionNotExhausted(ScopeNotExhausted):
    """The budget ended the search for a prediction; `found` is what it had found by then."""

    def __init__(self, lane: Lane, found: Unfinished) -> None:
        self.found = found
        faults = ", ".join(lane.faults) or "no fault"
        super().__init__(f"the prediction of lane {lane.lane} ({faults}) is not exhausted: {found.reason}")
