"""Answers of the model, asked once: tests whose subject is the answer, and not the search, share one.

Answers that ship count only while the model's sources are those that gave them: a changed model is searched.
"""

from typing import TypeVar

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model import Lockstep, Prediction, predict
from kafka_chaos.reference_model.predict.cache import MODEL_VERSION, question_key, shipped_answer
from kafka_chaos.reference_model.predict.result import AnomalyPrediction

Name = TypeVar("Name")
_ANSWERS: dict[str, Prediction] = {}


def answer(lane: Lane, lockstep: Lockstep | None = None) -> Prediction:
    """From the shipped answers or from the model, never from a cache on disk."""
    key = question_key(lane, lockstep)
    if key not in _ANSWERS:
        _ANSWERS[key] = shipped_answer(key, MODEL_VERSION) or predict(lane, lockstep=lockstep)
    return _ANSWERS[key]


def shown(prediction: Prediction, kind: type[Name]) -> set[Name]:
    """The anomalies of one family that are not forbidden."""
    return {one for one, answer in of_family(prediction, kind).items() if answer.status is not Status.FORBIDDEN}


def of_family(prediction: Prediction, kind: type[Name]) -> dict[Name, AnomalyPrediction]:
    """The answers for the anomalies of one family."""
    return {one: answer for one, answer in prediction.anomalies.items() if isinstance(one, kind)}
