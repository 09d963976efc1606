"""What a lane may show, must show and can never show, before anything is broken.

Every status comes from an exhausted search of the lane's state space (`lane_steps`), never from a table. A
search that could not be exhausted raises `ScopeNotExhausted`: there is no answer without it.

Scope: one partition, two records of one idempotent or plain producer, of which the first may be retried once,
consumers that read all they are shown. It leaves out what `lane_protocol` names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from kafka_chaos.reference_model.anomalies import Anomaly, Status
from kafka_chaos.reference_model.courses import Course, CourseStep
from kafka_chaos.reference_model.lane import Lane, LaneError
from kafka_chaos.reference_model.lane_anomalies import CHECKS, NEVER, ending, is_resolved, shown
from kafka_chaos.reference_model.lane_environments import Environments
from kafka_chaos.reference_model.lane_free import FreeBound, kept
from kafka_chaos.reference_model.lane_free_steps import free_ending
from kafka_chaos.reference_model.lane_guide import Guide
from kafka_chaos.reference_model.lane_logs import (
    LogState,
    initial_log,
    initial_logs,
    log_steps,
    logs_diverge,
    one_log_steps,
)
from kafka_chaos.reference_model.lane_state import (
    RECORDS,
    LaneState,
    attempts,
    canonical,
    initial_state,
)
from kafka_chaos.reference_model.lane_steps import steps
from kafka_chaos.reference_model.lane_story import tell
from kafka_chaos.reference_model.search import (
    ScopeNotExhausted,
    Search,
    breadth_first,
    nearest_first,
    no_garbage_collection,
)

MAX_STATES = 2_000_000


@dataclass(frozen=True, slots=True)
class AnomalyPrediction:
    """One anomaly's status, and why: the steps of a shortest way to it, or the reason there is none."""

    status: Status
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """A lane's predictions, one for every anomaly, and the scope that was searched for them."""

    anomalies: Mapping[Anomaly, AnomalyPrediction]
    states: int
    complete: bool
    bounds: Mapping[str, Any]

    def status(self, anomaly: Anomaly) -> Status:
        """The status of one anomaly."""
        return self.anomalies[anomaly].status

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json` and of `prediction.json`."""
        return {
            "anomalies": {
                str(anomaly): {"status": str(prediction.status), "why": list(prediction.why)}
                for anomaly, prediction in self.anomalies.items()
            },
            "scope": {"states": self.states, "complete": self.complete, **self.bounds},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Prediction:
        """Read back what `to_json` gave; raises `KeyError` or `ValueError` for anything else."""
        anomalies = {
            Anomaly(name): AnomalyPrediction(Status(entry["status"]), tuple(map(str, entry["why"])))
            for name, entry in value["anomalies"].items()
        }
        if set(anomalies) != set(Anomaly):
            raise ValueError("a prediction names every anomaly")
        bounds = dict(value["scope"])
        states, complete = int(bounds.pop("states")), bool(bounds.pop("complete"))
        return cls(anomalies, states, complete, bounds)


def predict(lane: Lane, *, course: Sequence[CourseStep] | None = None) -> Prediction:
    """The status of every anomaly in a lane that lives through its faults, or through a course.

    Without a course a status is `forbidden` or `permitted`. With one, an anomaly that every run through the
    course ends with is `required`; what only a consumer's read can show never is, since nothing makes a
    consumer read in time. Raises `LaneError` for a course on a lane that also names free faults, and
    `ScopeNotExhausted` where the search was not exhausted or no run gets through the course.
    """
    if course is not None and lane.faults:
        raise LaneError("faults", list(lane.faults), "no free faults beside a course")
    with no_garbage_collection():
        return _predict_free(lane) if course is None else _predict_course(lane, tuple(course))


def _predict_free(lane: Lane) -> Prediction:
    """Witnesses with few of the faults first, then, for what is still open, with more.

    A witness with fewer faults is one with more, so what is open after the last search is forbidden, and what logs
    alone answer with no for all faults need not be asked for fewer.
    """
    stories: dict[Anomaly, tuple[str, ...]] = {}
    possible, states = _log_bounds(lane, set(CHECKS))
    environments = Environments(lane)
    for faults in _selections(lane):
        states += _add_stories(replace(lane, faults=faults), possible - set(stories), environments, stories)
    anomalies = {
        anomaly: AnomalyPrediction(Status.PERMITTED, stories[anomaly])
        if anomaly in stories
        else AnomalyPrediction(Status.FORBIDDEN, (_reason(anomaly, states),))
        for anomaly in Anomaly
    }
    return Prediction(anomalies, states, True, _bounds(lane, None))


def _add_stories(
    lane: Lane, questions: Set[Anomaly], environments: Environments, stories: dict[Anomaly, tuple[str, ...]]
) -> int:
    """Look in the lane for what has no story yet; returns the number of states reached.

    First come the bounds, which say what is open (`lane_logs`) and how far from it a state is (`lane_guide`).
    """
    wanted, states = _log_bounds(lane, questions)
    if not wanted:
        return states
    guide = Guide(lane, wanted, FreeBound(environments, kept(lane, wanted)), max_states=MAX_STATES)
    states += guide.states
    if guide.open_questions:
        first, search = _witnesses(lane, guide)
        states += len(search.parents)
        stories.update({anomaly: tell(search.path(state), lane, None) for anomaly, state in first.items()})
    return states


def _log_bounds(lane: Lane, open_questions: Set[Anomaly]) -> tuple[set[Anomaly], int]:
    """The open questions without those that logs alone answer with no."""
    left, states = set(open_questions), 0
    of_one_log = left & {Anomaly.DUPLICATE, Anomaly.REORDERED}
    if of_one_log:
        shown_by_one: set[Anomaly] = set()

        def visit_one(state: LaneState) -> bool:
            shown_by_one.update(shown(free_ending(state, lane), of_one_log - shown_by_one))
            return of_one_log <= shown_by_one

        one = breadth_first(initial_log(lane), lambda s: one_log_steps(s, lane), visit_one, max_states=MAX_STATES)
        _require_answer(lane, one.complete or of_one_log <= shown_by_one)
        left -= of_one_log - shown_by_one
        states += len(one.parents)
    if Anomaly.REPLICA_DIVERGENCE in left:
        diverged: list[LogState] = []

        def visit_all(state: LogState) -> bool:
            if logs_diverge(state):
                diverged.append(state)
            return bool(diverged)

        logs = breadth_first(initial_logs(lane), log_steps, visit_all, max_states=MAX_STATES)
        _require_answer(lane, logs.complete or bool(diverged))
        if not diverged:
            left.remove(Anomaly.REPLICA_DIVERGENCE)
        states += len(logs.parents)
    return left, states


def _require_answer(lane: Lane, answered: bool) -> None:
    if not answered:
        raise ScopeNotExhausted(f"more than {MAX_STATES} states for {lane}")


def _witnesses(lane: Lane, guide: Guide) -> tuple[dict[Anomaly, LaneState], Search[LaneState]]:
    """For each open question of the guide, the nearest state that shows it, as far as there are any."""
    first: dict[Anomaly, LaneState] = {}
    missing = set(guide.open_questions)

    def visit(state: LaneState, steps_left: int) -> bool:
        if steps_left == 0:
            for anomaly in shown(ending(state), missing):
                first[anomaly] = state
                missing.remove(anomaly)
        return not missing

    def successors(state: LaneState) -> Iterator[LaneState]:
        return (canonical(after, lane) for _, after in steps(state, lane, None))

    search = nearest_first(
        canonical(initial_state(lane), lane),
        successors,
        visit,
        lambda state: guide.steps_to(state, missing),
        max_states=MAX_STATES,
    )
    _require_answer(lane, search.complete or not missing)
    return first, search


def _selections(lane: Lane) -> list[tuple[str, ...]]:
    """Selections of the faults, those with fewer first, all of them last: the last alone would answer all.

    What a lane can show it mostly shows under one fault; an idempotent producer's copies take two.
    """
    ordered = sorted(lane.faults)
    sizes = [size for size in range(len(ordered) + 1) if size <= 1 or size == len(ordered) or lane.idempotence]
    return list(dict.fromkeys(c for size in sizes for c in combinations(ordered, size)))


def _predict_course(lane: Lane, course: Course) -> Prediction:
    first: dict[Anomaly, LaneState] = {}
    unavoidable: frozenset[Anomaly] | None = None

    def visit(state: LaneState) -> bool:
        nonlocal unavoidable
        if state.position == len(course):
            for anomaly in shown(ending(state)):
                first.setdefault(anomaly, state)
            if is_resolved(state):
                unread = shown(ending(state._replace(reads=0)))
                unavoidable = unread if unavoidable is None else unavoidable & unread
        return False

    search = breadth_first(
        canonical(initial_state(lane), lane),
        lambda state: [canonical(after, lane) for _, after in steps(state, lane, course)],
        visit,
        max_states=MAX_STATES,
    )
    if not search.complete:
        raise ScopeNotExhausted(f"more than {MAX_STATES} states for {lane}")
    if unavoidable is None:
        raise ScopeNotExhausted(f"no run gets through the course {', '.join(course)}")
    states = len(search.parents)
    anomalies: dict[Anomaly, AnomalyPrediction] = {}
    for anomaly in Anomaly:
        if anomaly in first:
            status = Status.REQUIRED if anomaly in unavoidable else Status.PERMITTED
            story = tell(search.path(first[anomaly]), lane, course)
            anomalies[anomaly] = AnomalyPrediction(status, story)
        else:
            anomalies[anomaly] = AnomalyPrediction(Status.FORBIDDEN, (_reason(anomaly, states),))
    return Prediction(anomalies, states, True, _bounds(lane, course))


def _reason(anomaly: Anomaly, states: int) -> str:
    return NEVER.get(anomaly, f"scope exhausted: none of {states} states shows it")


def _bounds(lane: Lane, course: Course | None) -> dict[str, Any]:
    return {
        "brokers": lane.replication_factor,
        "records": RECORDS,
        "attempts": list(attempts(lane)),
        "faults": list(lane.faults),
        "course": None if course is None else [str(step) for step in course],
    }
