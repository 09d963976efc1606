"""Whether a larger scope changes an answer: each bound enlarged by one, the others as they are.

More records or attempts should change nothing: otherwise the usual scope is too small. One more broker or one more
fault is another lane, and may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.predict.lockstep_phase import LockstepStep, usual_scope
from kafka_chaos.reference_model.predict.prediction import (
    Prediction,
    PredictionNotExhausted,
    predict,
    shown_besides,
)
from kafka_chaos.reference_model.predict.state import Scope
from kafka_chaos.reference_model.protocol.rules import as_obeyed
from kafka_chaos.reference_model.search import Budget


@dataclass(frozen=True, slots=True)
class Enlarged:
    """One bound enlarged by one: the anomalies whose status changes, with the new one; `reason` says why the search was
    not exhausted, if it was not: then an anomaly without a change may still have one."""

    bound: str
    changes: dict[Anomaly, Status]
    states: int
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --sensitivity --json`."""
        changes = {str(anomaly): str(status) for anomaly, status in self.changes.items()}
        return {"changes": changes, "states": self.states, "complete": not self.reason}

    def __str__(self) -> str:
        said = ", ".join(f"{anomaly} becomes {status}" for anomaly, status in self.changes.items()) or "nothing changes"
        end = f"; not exhausted: {self.reason}" if self.reason else ""
        return f"{self.bound}: {said} ({self.states} states{end})"


def sensitivity(
    prediction: Prediction,
    lane: Lane,
    lockstep: Sequence[LockstepStep] | None = None,
    max_states: int = 1_000_000,
    timeout: float | None = None,
) -> Iterator[Enlarged]:
    """What changes in a lane's prediction with each bound enlarged; each search may take so many states and seconds."""
    lane = as_obeyed(lane)
    usual = usual_scope(lane, lockstep)
    for bound, larger, scope in _enlarged(lane, usual):
        budget = Budget(max_states, timeout)
        statuses: dict[Anomaly, Status]
        try:
            if lockstep is None and larger == lane:
                statuses = dict.fromkeys(shown_besides(prediction, lane, scope, budget), Status.PERMITTED)
            else:
                found = predict(larger, lockstep=lockstep, budget=budget, scope=scope)
                statuses = {anomaly: answer.status for anomaly, answer in found.anomalies.items()}
        except PredictionNotExhausted as error:
            statuses = dict.fromkeys(error.found.stories, Status.PERMITTED)
        changes = {a: status for a, status in statuses.items() if status != prediction.status(a)}
        yield Enlarged(bound, changes, budget.states, budget.reason)


def _enlarged(lane: Lane, usual: Scope) -> Iterator[tuple[str, Lane, Scope]]:
    yield "records", lane, replace(usual, records=usual.records + 1)
    if lane.acks != "0":
        yield "attempts", lane, replace(usual, attempts=usual.attempts + 1)
    yield "brokers", replace(lane, replication_factor=lane.replication_factor + 1), usual
    for kind in dict.fromkeys(lane.faults):
        yield f"faults, one more {kind}", replace(lane, faults=(*lane.faults, kind)), usual
