"""What a lane may show, must show and can never show, before anything is broken.

Every status comes from an exhausted search of the lane's state space (`lane_steps`), never from a table. A
search that could not be exhausted raises `ScopeNotExhausted`: there is no answer without it.

Scope: one partition, two records of one idempotent or plain producer, of which the first may be retried once,
consumers that read all they are shown. It leaves out what `lane_protocol` names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_chaos.reference_model.anomalies import Anomaly, Status
from kafka_chaos.reference_model.courses import Course, CourseStep
from kafka_chaos.reference_model.lane import Lane, LaneError
from kafka_chaos.reference_model.lane_anomalies import CHECKS, NEVER, is_resolved, shown
from kafka_chaos.reference_model.lane_state import ATTEMPTS, RECORDS, LaneState, canonical, initial_state
from kafka_chaos.reference_model.lane_steps import steps
from kafka_chaos.reference_model.lane_story import tell
from kafka_chaos.reference_model.search import ScopeNotExhausted, Search, breadth_first

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
    steps_of_course = None if course is None else tuple(course)
    findings = _Findings(lane, steps_of_course)
    search = breadth_first(
        canonical(initial_state(lane), lane), findings.successors, findings.visit, max_states=MAX_STATES
    )
    if not search.complete:
        raise ScopeNotExhausted(f"more than {MAX_STATES} states for {lane}")
    return findings.prediction(search)


class _Findings:
    """Collects, while a search runs, which anomalies it meets first where, and which it can't avoid."""

    def __init__(self, lane: Lane, course: Course | None) -> None:
        self.lane = lane
        self.course = course
        self.first: dict[Anomaly, LaneState] = {}
        self.unavoidable: frozenset[Anomaly] | None = None

    def successors(self, state: LaneState) -> list[LaneState]:
        """The canonical states one step further."""
        lane = self.lane
        return [canonical(after, lane) for _, after in steps(state, lane, self.course)]

    def visit(self, state: LaneState) -> bool:
        """Take note of what a run that ends here shows."""
        if self.course is not None and state.position < len(self.course):
            return False
        for anomaly in shown(state):
            self.first.setdefault(anomaly, state)
        if self.course is not None and is_resolved(state):
            unread = shown(state._replace(reads=0))
            self.unavoidable = unread if self.unavoidable is None else self.unavoidable & unread
        return False

    def prediction(self, search: Search[LaneState]) -> Prediction:
        """The statuses, once the search is exhausted."""
        states = len(search.parents)
        if self.course is not None and self.unavoidable is None:
            raise ScopeNotExhausted(f"no run gets through the course {', '.join(self.course)}")
        anomalies: dict[Anomaly, AnomalyPrediction] = {}
        for anomaly in Anomaly:
            if anomaly in self.first:
                required = anomaly in (self.unavoidable or ())
                status = Status.REQUIRED if required else Status.PERMITTED
                story = tell(search.path(self.first[anomaly]), self.lane, self.course)
                anomalies[anomaly] = AnomalyPrediction(status, story)
            else:
                reason = f"scope exhausted: none of {states} states shows it"
                anomalies[anomaly] = AnomalyPrediction(Status.FORBIDDEN, (NEVER.get(anomaly, reason),))
        return Prediction(anomalies, states, search.complete, _bounds(self.lane, self.course))


def _bounds(lane: Lane, course: Course | None) -> dict[str, Any]:
    return {
        "brokers": lane.replication_factor,
        "records": RECORDS,
        "attempts": list(ATTEMPTS),
        "faults": list(lane.faults),
        "course": None if course is None else [str(step) for step in course],
    }


assert set(CHECKS) | set(NEVER) == set(Anomaly), "every anomaly is judged or excluded"
