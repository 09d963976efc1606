"""Recorded clients on fakes."""

from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.harness.workload.application import consumer as application_consumer
from kafka_chaos.harness.workload.application import producer as application_producer
from tests.plugin.application.fakes import FakeConsumer, FakeProducer
from tests.plugin.application.producing import Producing


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(application_producer, "Producer", FakeProducer)
    monkeypatch.setattr(application_consumer, "Consumer", FakeConsumer)
    yield tmp_path
    for producing in Producing.made:
        producing.load.tables.close()
    Producing.made.clear()
