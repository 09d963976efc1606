"""An executable specification of Kafka's replication, and the judge of every run. Pure Python, no I/O
(but for `prediction_cache`, which keeps answers on disk)."""

from kafka_chaos.reference_model.anomalies import Anomaly, Status, Verdict
from kafka_chaos.reference_model.courses import Course, CourseStep, parse_course
from kafka_chaos.reference_model.lane import Lane, LaneError
from kafka_chaos.reference_model.predict import AnomalyPrediction, Prediction, predict
from kafka_chaos.reference_model.prediction_cache import predict_cached
from kafka_chaos.reference_model.search import ScopeNotExhausted

__all__ = [
    "Anomaly",
    "AnomalyPrediction",
    "Course",
    "CourseStep",
    "Lane",
    "LaneError",
    "Prediction",
    "ScopeNotExhausted",
    "Status",
    "Verdict",
    "parse_course",
    "predict",
    "predict_cached",
]
