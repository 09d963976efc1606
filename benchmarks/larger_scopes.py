"""Whether a larger scope changes an answer: each bound enlarged by one, the others as they are.

More records or attempts should change nothing: otherwise the usual scope is too small. Where a lane has transactions or
a group, so should more transactions, late requests or members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.groups.examine import GROUPS
from kafka_chaos.reference_model.lane.lockstep_phase import LockstepStep, usual_scope
from kafka_chaos.reference_model.lane.state import Scope
from kafka_chaos.reference_model.machine import Machine, Question
from kafka_chaos.reference_model.predict.cache import question_key
from kafka_chaos.reference_model.predict.grouped import questions_of
from kafka_chaos.reference_model.predict.prediction import predict, still_shown
from kafka_chaos.reference_model.predict.result import Prediction, PredictionNotExhausted
from kafka_chaos.reference_model.predict.transactional import question_of
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS

Name = TypeVar("Name")

_BOUNDS: Mapping[str, Mapping[str, tuple[str, int]]] = {
    TRANSACTIONS.name: {
        "transactions": ("transactions", 1),
        "records of a transaction": ("size", 2),
        "late requests": ("late_requests", 1),
        "failovers": ("failovers", 1),
        "losses": ("losses", 1),
    },
    GROUPS.name: {
        "records": ("records", 1),
        "members": ("slots", 1),
        "crashes": ("crashes", 1),
        "removals": ("removals", 1),
        "joins": ("joins", 1),
        "leaves": ("leaves", 1),
        "failovers": ("failovers", 1),
        "losses": ("losses", 1),
    },
}
"""The bounds of each machine's searches: the field of its `Setup`, which is enlarged where it is at least so much. What
a lane does not have, one more of would be another lane."""
AnyMachine = Machine[Any, Any, Any, Any, Any]
AnyQuestion = Question[Any, Any]


@dataclass(frozen=True, slots=True)
class Enlarged:
    """One bound enlarged by one: the anomalies whose status changes, with the new one; `reason` says why the search was
    not exhausted, if it was not: then an anomaly without a change may still have one."""

    bound: str
    changes: Mapping[AnyAnomaly, Status]
    states: int
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Its entry in the record."""
        changes = {str(anomaly): str(status) for anomaly, status in self.changes.items()}
        return {"changes": changes, "states": self.states, "complete": not self.reason}


def sensitivity_of_phase(
    prediction: Prediction, lane: Lane, lockstep: Sequence[LockstepStep], max_states: int
) -> Iterator[Enlarged]:
    """The changes in a lane's prediction for a lock-step phase with each bound enlarged."""
    for bound, scope in larger_scopes(lane, usual_scope(lane, lockstep)):
        budget = Budget(max_states)
        try:
            found = predict(lane, lockstep=lockstep, budget=budget, scope=scope)
            statuses = {anomaly: answer.status for anomaly, answer in found.anomalies.items()}
        except PredictionNotExhausted as error:
            statuses = dict.fromkeys(error.unfinished.stories, Status.PERMITTED)
        changes: dict[AnyAnomaly, Status] = {
            anomaly: status for anomaly, status in statuses.items() if status != prediction.status(anomaly)
        }
        yield Enlarged(bound, changes, budget.states, budget.reason)


def sensitivity_together(
    prediction: Prediction, lanes: Sequence[Lane], max_states: int = 1_000_000
) -> Iterator[Enlarged]:
    """The changes with one more record, and with one more attempt, in some of the lanes of one of `searched_together`.

    `prediction` is that of any of them.
    """
    for bound, scope in larger_scopes(lanes[0], usual_scope(lanes[0], None)):
        yield _searched_besides(bound, prediction, lanes, scope, Budget(max_states))


def machines_of(
    prediction: Prediction, lane: Lane, lockstep: Sequence[LockstepStep] | None = None
) -> Iterator[tuple[AnyMachine, tuple[AnyQuestion, ...], frozenset[AnyAnomaly]]]:
    """The machines that a lane's transactions, and its group or loop, ask; each with what they ask of it, and what the
    answers forbid."""
    fails = bool(lane.faults or lockstep)
    if lane.transactional is not None:
        scope = prediction.bounds["transactions"]
        data, states = scope["data_may_lose"], scope["transaction_state_may_lose"]
        question = question_of(
            lane, lane.transactional, brokers_fail=fails, data_may_be_lost=data, states_may_be_lost=states
        )
        yield TRANSACTIONS, (question,), _forbidden_in(prediction, TransactionAnomaly)
    if lane.group_anomalies:
        lossy = prediction.bounds["groups"][0]["offsets_may_be_lost"]
        asked = tuple(questions_of(lane, prediction, brokers_fail=fails, offsets_may_be_lost=lossy))
        yield GROUPS, asked, _forbidden_in(prediction, GroupAnomaly)


def sensitivity_of_machine(
    machine: AnyMachine, questions: Iterable[AnyQuestion], forbidden: frozenset[AnyAnomaly], max_states: int = 1_000_000
) -> Iterator[Enlarged]:
    """Those of the forbidden anomalies that become reachable with each bound of the searches enlarged."""
    searches = [one for question in questions for one in question.searches() if one[1] & forbidden]
    for bound, (name, least) in _BOUNDS[machine.name].items():
        budget = Budget(max_states)
        shown: set[AnyAnomaly] = set()
        enlarged = [(setup, answers) for setup, answers in searches if getattr(setup, name) >= least]
        for setup, answers in enlarged:
            larger = replace(setup, **{name: getattr(setup, name) + 1})
            shown.update(machine.search(answers & forbidden, larger, budget)[1])
        if enlarged:
            changes = dict.fromkeys(sorted(shown), Status.PERMITTED)
            yield Enlarged(f"{machine.name}: {bound}", changes, budget.states, budget.reason)


def searched_together(predicted: Iterable[tuple[Lane, Prediction]]) -> list[list[Lane]]:
    """The lanes in groups that share a search: the model tells them apart by their faults alone, of which they
    have as many, and their predictions forbid the same."""
    groups: dict[tuple[str, int, frozenset[Anomaly]], list[Lane]] = {}
    for lane, prediction in predicted:
        without_faults = question_key(replace(lane, faults=()), None)
        groups.setdefault((without_faults, len(lane.faults), _forbidden_in(prediction, Anomaly)), []).append(lane)
    return list(groups.values())


def larger_scopes(lane: Lane, usual: Scope) -> Iterator[tuple[str, Scope]]:
    """Each bound of a lane's scope, and the scope with this one enlarged."""
    yield "records", replace(usual, records=usual.records + 1)
    if lane.acks != "0":
        yield "attempts", replace(usual, attempts=usual.attempts + 1)


def _forbidden_in(prediction: Prediction, kind: type[Name]) -> frozenset[Name]:
    return frozenset(
        anomaly
        for anomaly, answer in prediction.anomalies.items()
        if isinstance(anomaly, kind) and answer.status is Status.FORBIDDEN
    )


def _searched_besides(
    bound: str, prediction: Prediction, lanes: Sequence[Lane], scope: Scope, budget: Budget
) -> Enlarged:
    try:
        shown = still_shown(_forbidden_in(prediction, Anomaly), lanes, scope, budget)
    except PredictionNotExhausted as error:
        shown = _forbidden_in(prediction, Anomaly) & error.unfinished.stories.keys()
    changes: dict[AnyAnomaly, Status] = dict.fromkeys(shown, Status.PERMITTED)
    return Enlarged(bound, changes, budget.states, budget.reason)
