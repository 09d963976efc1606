"""The documented behaviours of Kafka, each as a scenario for the model and for real brokers."""

from __future__ import annotations

from kafka_chaos.experiments.behaviours.differences import DIFFERENCES
from kafka_chaos.experiments.behaviours.sources import SOURCES

__all__ = ["DIFFERENCES", "SOURCES"]
