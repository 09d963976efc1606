"""prediction.json is read whole and never believed: the model computes every status again."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.lanes import InternalTopic, Lane
from kafka_chaos.contract.lane.transactions import Transactional, TransactionAnomaly
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.reference_model.predict import cache
from kafka_chaos.reference_model.search import ScopeNotExhausted
from kafka_chaos.verification.inputs.documents.predictions import (
    GivenPrediction,
    LanePrediction,
    prediction_of,
    read_predictions,
)

LANE = Lane.from_json({"lane": "a", "acks": "1", "faults": ["kill"]})
FORBIDDEN = dict.fromkeys(Anomaly, Status.FORBIDDEN)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Lane, Any]]:
    """The questions to the model, which permits lost writes and requires truncated reads."""
    questions: list[tuple[Lane, Any]] = []

    def predicted(lane: Lane, *, lockstep: Any) -> SimpleNamespace:
        questions.append((lane, lockstep))
        answers = {one: SimpleNamespace(status=status, known_defects=()) for one, status in MODEL.items()}
        return SimpleNamespace(anomalies=answers)

    monkeypatch.setattr(cache, "predict_cached", predicted)
    monkeypatch.setattr(cache, "model_digest", lambda: "abc")
    return questions


MODEL = {**FORBIDDEN, Anomaly.LOST_WRITE: Status.PERMITTED, Anomaly.TRUNCATED_READ: Status.REQUIRED}


def test_without_a_file_the_model_says_what_holds(asked: list[Any], tmp_path: Path) -> None:
    assert prediction_of(tmp_path, LANE, None) == LanePrediction(MODEL, "model", (), "abc")
    assert asked == [(LANE, None)]


def test_a_stricter_status_holds(asked: list[Any]) -> None:
    found = prediction_of(None, LANE, GivenPrediction({Anomaly.LOST_WRITE: Status.FORBIDDEN}))
    assert found.statuses == {**MODEL, Anomaly.LOST_WRITE: Status.FORBIDDEN}
    assert (found.source, found.model_digest) == ("prediction.json", "abc")


def test_known_defects_are_the_model_s_and_not_the_file_s() -> None:
    idempotent = Lane.from_json({"lane": "a", "acks": "all", "idempotence": True})
    assert prediction_of(None, idempotent, None).known_defects == {Anomaly.DUPLICATE: (("librdkafka-4953",),)}
    assert prediction_of(None, Lane.from_json({"lane": "a", "acks": "all"}), None).known_defects == {}


LOOSER = "a prediction may be stricter, not looser"


@pytest.mark.parametrize(
    ("anomaly", "status", "problem"),
    [
        (Anomaly.DUPLICATE, Status.PERMITTED, f".status: permitted, but the model says forbidden: {LOOSER}"),
        (Anomaly.DUPLICATE, Status.REQUIRED, f".status: required, but the model says forbidden: {LOOSER}"),
        (Anomaly.TRUNCATED_READ, Status.PERMITTED, f".status: permitted, but the model says required: {LOOSER}"),
        (TransactionAnomaly.ABORTED_READ, Status.FORBIDDEN, ": the model does not predict it for lane 'a'"),
    ],
)
def test_a_status_that_is_looser_or_that_the_model_does_not_give_is_refused(
    asked: list[Any], tmp_path: Path, anomaly: Anomaly | TransactionAnomaly, status: Status, problem: str
) -> None:
    with pytest.raises(RunDirectoryError) as refused:
        prediction_of(tmp_path, LANE, GivenPrediction({anomaly: status}))
    assert str(refused.value) == f"{tmp_path}/prediction.json: lanes.a.anomalies.{anomaly}{problem}"


def test_a_lockstep_phase_takes_the_place_of_the_faults(asked: list[Any]) -> None:
    found = prediction_of(None, LANE, GivenPrediction({}, ("cut-replication",)))
    ((lane, lockstep),) = asked
    assert lane.faults == ()
    assert lockstep is not None
    assert found.steps == ("cut-replication",)


def test_steps_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"prediction\.json: lanes\.a\.scope\.lockstep: "):
        prediction_of(tmp_path, LANE, GivenPrediction({}, ("dance",)))


def test_without_the_model_s_answer_only_a_whole_prediction_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(lane: Lane, *, lockstep: Any) -> Any:
        raise ScopeNotExhausted("too large")

    monkeypatch.setattr(cache, "predict_cached", endless)
    steps = ("cut-replication",)
    whole = LanePrediction(FORBIDDEN, "prediction.json", steps)
    assert prediction_of(None, LANE, GivenPrediction(FORBIDDEN, steps)) == whole
    for given in (None, GivenPrediction({Anomaly.LOST_WRITE: Status.FORBIDDEN})):
        with pytest.raises(ScopeNotExhausted):
            prediction_of(None, LANE, given)


def written(folder: Path, lanes: Any) -> Path:
    path = folder / "prediction.json"
    path.write_text(json.dumps({"format_version": 1, "lanes": lanes}))
    return path


def test_statuses_and_steps_are_read(tmp_path: Path) -> None:
    entry = {
        "anomalies": {"lost_write": {"status": "permitted", "why": []}},
        "scope": {"lockstep": ["cut-replication"]},
    }
    bare = {"anomalies": {}, "scope": None}
    assert read_predictions(written(tmp_path, {"a": entry, "b": bare})) == {
        "a": GivenPrediction({Anomaly.LOST_WRITE: Status.PERMITTED}, ("cut-replication",)),
        "b": GivenPrediction(),
    }
    assert read_predictions(tmp_path / "nowhere.json") == {}


@pytest.mark.parametrize(
    ("lanes", "problem"),
    [
        ([], "lanes: expected an object of lanes"),
        ({"a": []}, "lanes.a.anomalies: expected an object"),
        ({"a": {}}, "lanes.a.anomalies: expected an object"),
        ({"a": {"anomalies": {"loss": {}}}}, "lanes.a.anomalies.loss: no such anomaly; they are lost_write, "),
        ({"a": {"anomalies": {"duplicate": {"status": "maybe"}}}},
         "lanes.a.anomalies.duplicate.status: 'maybe', expected forbidden, permitted, required"),
        ({"a": {"anomalies": {"duplicate": 1}}},
         "lanes.a.anomalies.duplicate.status: None, expected forbidden, permitted, required"),
        ({"a": {"anomalies": {}, "scope": {"lockstep": "cut"}}}, "lanes.a.scope.lockstep: expected a list of steps"),
    ],
)  # fmt: skip
def test_a_prediction_that_makes_no_sense_is_refused(tmp_path: Path, lanes: Any, problem: str) -> None:
    with pytest.raises(RunDirectoryError) as refused:
        read_predictions(written(tmp_path, lanes))
    assert f"prediction.json: {problem}" in str(refused.value)


def test_a_transactional_lane_has_statuses_for_the_anomalies_of_transactions() -> None:
    """By the model itself, with a stricter status from prediction.json, which has them apart."""
    # Its answer ships with the package.
    lane = Lane(
        lane="a",
        replication_factor=2,
        min_insync_replicas=2,
        idempotence=True,
        transactional=Transactional(size=20, abort=0.2, producers=2, timeout_ms=6000),
        transaction_state=InternalTopic(replication_factor=3),
        faults=("pause", "kill"),
    )
    computed = prediction_of(None, lane, None).statuses
    assert set(computed) == set(lane.anomalies)
    read, cycle = TransactionAnomaly.ABORTED_READ, TransactionAnomaly.DEPENDENCY_CYCLE
    assert (computed[read], computed[cycle]) == (Status.FORBIDDEN, Status.PERMITTED)
    stricter = GivenPrediction({cycle: Status.FORBIDDEN})
    assert prediction_of(None, lane, stricter).statuses[cycle] == Status.FORBIDDEN
    looser = GivenPrediction({read: Status.PERMITTED})
    with pytest.raises(RunDirectoryError, match="permitted, but the model says forbidden"):
        prediction_of(None, lane, looser)


def test_the_anomalies_of_transactions_stand_apart_in_the_file(tmp_path: Path) -> None:
    entry = {
        "anomalies": {"lost_write": {"status": "permitted"}},
        "transactions": {"torn_transaction": {"status": "x"}},
    }
    with pytest.raises(RunDirectoryError, match=r"lanes.a.transactions.torn_transaction.status: 'x', expected"):
        read_predictions(written(tmp_path, {"a": entry}))
    entry["transactions"]["torn_transaction"]["status"] = "forbidden"
    statuses = read_predictions(written(tmp_path, {"a": entry}))["a"].statuses
    assert statuses == {Anomaly.LOST_WRITE: Status.PERMITTED, TransactionAnomaly.TORN_TRANSACTION: Status.FORBIDDEN}
