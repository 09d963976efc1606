"""The documented behaviours of Kafka, each as a scenario for the model and for real brokers."""

from __future__ import annotations

from pathlib import Path

from kafka_chaos.conformance.scenario.registry import read_documents

SOURCES, DIFFERENCES = read_documents(Path(__file__).with_name("documents.toml"))
