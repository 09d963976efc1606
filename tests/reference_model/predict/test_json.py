"""A prediction's JSON form: what is written is read back, with and without transactions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kafka_chaos.contract.transactions import TransactionAnomaly
from kafka_chaos.reference_model import Anomaly, Prediction, Status
from kafka_chaos.reference_model.predict import answers
from kafka_chaos.reference_model.predict.prediction import AnomalyPrediction

PLAIN = Prediction({a: AnomalyPrediction(Status.FORBIDDEN, ("none",)) for a in Anomaly}, 1, True, {"records": 2})
TOLD = {a: AnomalyPrediction(Status.PERMITTED, (f"the way to {a}", "the end")) for a in TransactionAnomaly}
WITH_TRANSACTIONS = Prediction(PLAIN.anomalies, 1, True, PLAIN.bounds, TOLD)


@pytest.mark.parametrize("prediction", [PLAIN, WITH_TRANSACTIONS])
def test_what_is_written_is_read_back(prediction: Prediction) -> None:
    assert Prediction.from_json(json.loads(json.dumps(prediction.to_json()))) == prediction


def test_a_lane_without_transactions_has_no_such_part() -> None:
    assert "transactions" not in PLAIN.to_json()


def test_all_anomalies_of_transactions_are_named_or_none() -> None:
    body: dict[str, Any] = WITH_TRANSACTIONS.to_json()
    del body["transactions"]["aborted_read"]
    with pytest.raises(ValueError, match="every anomaly of transactions, or none"):
        Prediction.from_json(body)


@pytest.mark.parametrize("prediction", [PLAIN, WITH_TRANSACTIONS])
def test_a_shipped_answer_carries_transactions(prediction: Prediction, monkeypatch: pytest.MonkeyPatch) -> None:
    content: Mapping[str, Any] = json.loads(answers.as_file("model", [("key", prediction)]))
    monkeypatch.setattr(answers, "_content", lambda: content)
    assert answers.shipped("key", "model") == prediction
