"""An executable specification of Kafka's replication in pure Python; only `predict/cache.py` writes files."""

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.lockstep_phase import Lockstep, LockstepStep, parse_lockstep
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.predict.prediction import predict
from kafka_chaos.reference_model.predict.result import AnomalyPrediction, Prediction
from kafka_chaos.reference_model.search import ScopeNotExhausted

__all__ = [
    "Anomaly",
    "AnomalyPrediction",
    "Lockstep",
    "LockstepStep",
    "Lane",
    "LaneError",
    "Prediction",
    "ScopeNotExhausted",
    "Status",
    "Verdict",
    "parse_lockstep",
    "predict",
    "predict_cached",
]
