"""prediction.json, compared with the model's own prediction.

Guarantee: no lane is judged by a prediction that permits more than the model. Every status is computed again from
lanes.json. A stricter status in prediction.json is used; a more permissive one is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, FAMILY_KEYS, AnyAnomaly, anomaly_named
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import PREDICTION_FILE, RunDirectoryError
from kafka_chaos.verification.inputs.documents.reading import expect, of_lanes
from kafka_chaos.verification.inputs.storage import RunPath

STRICTER: Mapping[Status, frozenset[Status]] = {
    Status.FORBIDDEN: frozenset([Status.FORBIDDEN]),
    Status.REQUIRED: frozenset([Status.REQUIRED, Status.FORBIDDEN]),
    Status.PERMITTED: frozenset([Status.FORBIDDEN, Status.PERMITTED, Status.REQUIRED]),
    Status.NOT_JUDGED: frozenset([Status.NOT_JUDGED]),
}
"""By the model's status, the statuses that a prediction.json may have."""


@dataclass(frozen=True, slots=True)
class GivenPrediction:
    """A lane in prediction.json: those statuses that it has, and the steps of a lock-step phase."""

    statuses: Mapping[AnyAnomaly, Status] = field(default_factory=dict)
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LanePrediction:
    """The statuses that a lane is judged by. `steps`: the steps of the lock-step phase that they hold for.

    `model_digest` is None if the model's search was not exhausted, so that nothing confirms the statuses.
    `known_defects`: the sets of them that make a forbidden anomaly reachable, as the model says.
    """

    statuses: Mapping[AnyAnomaly, Status]
    source: str
    steps: tuple[str, ...] = ()
    model_digest: str | None = None
    known_defects: Mapping[AnyAnomaly, tuple[tuple[str, ...], ...]] = field(default_factory=dict)


def read_predictions(path: RunPath, known: Sequence[Lane] | None = None) -> dict[str, GivenPrediction]:
    """The content of prediction.json by lane; empty if the file does not exist. `known`: refuse other lanes."""
    return {name: _lane_prediction(path, name, entry) for name, entry in of_lanes(path, known).items()}


def _lane_prediction(path: RunPath, name: str, entry: object) -> GivenPrediction:
    if not isinstance(entry, dict):
        raise RunDirectoryError(path, "expected an object", column=f"lanes.{name}.anomalies")
    statuses: dict[AnyAnomaly, Status] = {}
    for part in FAMILY_KEYS:
        # Only the first part has to be there.
        answers: Any = entry.get(part, None if part == FAMILY_KEYS[0] else {})
        expect(isinstance(answers, dict), path, f"lanes.{name}.{part}", "expected an object")
        for anomaly, answer in answers.items():
            key = f"lanes.{name}.{part}.{anomaly}"
            expect(anomaly in ALL_ANOMALIES, path, key, f"no such anomaly; they are {', '.join(ALL_ANOMALIES)}")
            status = answer.get("status") if isinstance(answer, dict) else None
            expect(status in tuple(Status), path, f"{key}.status", f"{status!r}, expected {', '.join(Status)}")
            statuses[anomaly_named(anomaly)] = Status(str(status))
    scope = entry.get("scope")
    steps = scope.get("lockstep") if isinstance(scope, dict) else None
    expect(steps is None or isinstance(steps, list), path, f"lanes.{name}.scope.lockstep", "expected a list of steps")
    return GivenPrediction(statuses, tuple(map(str, steps or ())))


def prediction_of(root: RunPath | None, lane: Lane, given: GivenPrediction | None) -> LanePrediction:
    """The lane's statuses: the model's, or stricter ones of prediction.json; a more permissive one is refused."""
    from kafka_chaos.reference_model.lane.lockstep_phase import parse_lockstep
    from kafka_chaos.reference_model.predict.cache import model_digest, predict_cached
    from kafka_chaos.reference_model.search import ScopeNotExhausted

    path = PREDICTION_FILE if root is None else root / PREDICTION_FILE
    steps = given.steps if given else ()
    try:
        # The lanes of a lock-step phase go through its steps only: they replace the declared faults.
        asked = replace(lane, faults=()) if steps else lane
        computed = predict_cached(asked, lockstep=parse_lockstep(steps) if steps else None)
    except LaneError as error:
        raise RunDirectoryError(path, str(error), column=f"lanes.{lane.lane}.scope.lockstep") from error
    except ScopeNotExhausted:
        if given is None or set(given.statuses) != set(lane.anomalies):
            raise
        return LanePrediction(given.statuses, PREDICTION_FILE, steps)
    answers = computed.anomalies
    statuses = {anomaly: Status(answers[anomaly].status) for anomaly in lane.anomalies if anomaly in answers}
    for anomaly, status in (given.statuses if given else {}).items():
        if anomaly not in statuses:
            problem = f"the model does not predict it for lane {lane.lane!r}"
            raise RunDirectoryError(path, problem, column=f"lanes.{lane.lane}.anomalies.{anomaly}")
        if status not in STRICTER[statuses[anomaly]]:
            problem = f"{status}, but the model says {statuses[anomaly]}: a prediction may be stricter, not looser"
            raise RunDirectoryError(path, problem, column=f"lanes.{lane.lane}.anomalies.{anomaly}.status")
        statuses[anomaly] = status
    source = PREDICTION_FILE if given and given.statuses else "model"
    found = ((anomaly, answers[anomaly].known_defects) for anomaly in lane.anomalies if anomaly in answers)
    defects = {anomaly: tuple(trace.ids for trace in traces) for anomaly, traces in found if traces}
    return LanePrediction(statuses, source, steps, model_digest(), defects)
