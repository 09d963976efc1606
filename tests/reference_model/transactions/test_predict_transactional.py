"""Answers of `predict` for a lane whose producers use transactions."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.contract.lane.transactions import TransactionAnomaly as A
from kafka_chaos.reference_model import Anomaly, Lane, LockstepStep, Prediction, Status, predict
from kafka_chaos.reference_model.predict import transactional as module
from kafka_chaos.reference_model.predict.cache import cache_key
from kafka_chaos.reference_model.predict.result import PredictionNotExhausted
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.rules import V1
from tests.reference_model.answers import of_family, shown

pytestmark = pytest.mark.xdist_group("transactions")
"""In one process, which searches once for what the known defects show."""

ONE = Lane(lane="one", idempotence=True, transactional=Transactional(size=1), replication_factor=2)
"""The smallest of its kind: transactions of one record."""
LOST = {A.ABORTED_READ, A.PRECOMMITTED_READ, A.LOST_TRANSACTION, A.HANGING_TRANSACTION}


def test_every_anomaly_of_transactions_is_answered_and_explained_where_there_are_some() -> None:
    prediction = predict(ONE)
    assert of_family(prediction, A).keys() == set(A)
    assert all(answer.why for answer in of_family(prediction, A).values())
    assert shown(prediction, A) == set()
    assert prediction.bounds["transactions"]["protocol"] == "v1"
    assert Prediction.from_json(prediction.to_json()) == prediction
    assert of_family(predict(replace(ONE, transactional=None)), A) == {}


@pytest.mark.parametrize(
    "changes",
    [
        *({"faults": (fault,)} for fault in ("kill", "stop", "pause", "partition", "session-expiry")),
        pytest.param({"transactional": Transactional(size=1, producers=2)}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_transactions_survive_whatever_loses_no_record(changes: dict[str, Any]) -> None:
    assert shown(predict(replace(ONE, **changes)), A) == set()


@pytest.mark.parametrize(
    ("fault", "unclean", "expected"), [("kill", True, LOST), ("power-loss", False, LOST | {A.ZOMBIE_COMMIT})]
)
def test_what_loses_records_costs_transactions_and_a_power_loss_the_coordinator_s_memory_too(
    fault: str, unclean: bool, expected: set[A]
) -> None:
    prediction = predict(replace(ONE, faults=(fault,), unclean_leader_election=unclean))
    assert prediction.status(Anomaly.LOST_WRITE) is Status.PERMITTED
    assert shown(prediction, A) == expected
    assert prediction.bounds["transactions"]["transaction_state_may_lose"] is (fault == "power-loss")


@pytest.mark.parametrize(
    ("size", "ended"),
    [
        (1, {A.ABORTED_READ, A.PRECOMMITTED_READ, A.LOST_TRANSACTION}),
        pytest.param(
            2, {A.ABORTED_READ, A.PRECOMMITTED_READ, A.TORN_TRANSACTION, A.LOST_TRANSACTION}, marks=pytest.mark.slow
        ),
    ],
)
def test_the_late_end_is_a_known_defect_of_every_client_so_far(size: int, ended: set[A]) -> None:
    answers = of_family(predict(replace(ONE, transactional=Transactional(size=size), partitions=size)), A)
    named = {anomaly: ["+".join(trace.ids) for trace in answer.known_defects] for anomaly, answer in answers.items()}
    assert named == {a: ["KAFKA-17754"] if a in ended else [] for a in A}
    assert all(answer.status is Status.FORBIDDEN for answer in answers.values())


@pytest.mark.slow
def test_the_prediction_for_kafka_python_names_the_commits_without_what_expired() -> None:
    by_python = predict(replace(ONE, client="kafka-python 3.0.12", transactional=Transactional(size=2), partitions=2))
    named = {
        anomaly
        for anomaly, answer in of_family(by_python, A).items()
        if any(trace.ids == ("KAFKA-5385",) for trace in answer.known_defects)
    }
    assert named == {A.LOST_TRANSACTION, A.TORN_TRANSACTION}
    assert by_python.anomalies[A.LOST_TRANSACTION].status is Status.FORBIDDEN


def test_the_clients_renewal_of_epochs_does_not_concern_transactions() -> None:
    """A transactional producer aborts what is in doubt instead of sending it again in a new epoch."""
    plain, with_them = predict(replace(ONE, transactional=None)), predict(ONE)
    assert ["+".join(trace.ids) for trace in plain.anomalies[Anomaly.DUPLICATE].known_defects] == ["librdkafka-4953"]
    assert with_them.anomalies[Anomaly.DUPLICATE].known_defects == ()
    assert "librdkafka-4953" not in with_them.bounds["known_defects"]


def test_a_lock_step_phase_may_have_transactions() -> None:
    steps = (LockstepStep.KILL_LEADER, LockstepStep.ELECT, LockstepStep.RESTART)
    prediction = predict(ONE, lockstep=steps)
    assert shown(prediction, A) == set()
    assert prediction.bounds["transactions"]["coordinator_failovers"] == 1


def test_a_search_that_is_not_exhausted_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "v1_in", lambda _: replace(V1, name="asked by no other test"))
    with pytest.raises(PredictionNotExhausted) as raised:
        predict(replace(ONE, transactional=Transactional(size=2, producers=2)), budget=Budget(1_000))
    answer = raised.value.unfinished.to_json()
    assert answer["transactions"].keys() == {str(anomaly) for anomaly in A}
    assert {entry["status"] for entry in answer["transactions"].values()} == {"not exhausted"}


def test_what_does_not_matter_is_not_in_the_key() -> None:
    more = replace(ONE, transactional=Transactional(size=20, abort=0.5, producers=7, timeout_ms=1), partitions=8)
    other = replace(ONE, transactional=Transactional(size=2, producers=2), partitions=2)
    assert cache_key(more, None) == cache_key(other, None)
