"""A producer that has failed for good, as librdkafka does when a log has lost what an idempotent producer wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.lane_load import LaneLoad
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables


class FailingClient:
    """A client that acknowledges nothing and raises `error`, once, when it is polled for the first time."""

    def __init__(self, error: KafkaError) -> None:
        self._error: KafkaError | None = error

    def produce(self, *_: object) -> None:
        if self._error is None:
            raise KafkaException(KafkaError(KafkaError._FATAL))

    def poll(self, timeout: float) -> int:
        error, self._error = self._error, None
        if error is not None:
            raise KafkaException(error)
        return 0

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""


def loaded(tmp_path: Path, error: KafkaError, notices: list[str]) -> LaneLoad:
    """A lane whose producer fails with `error`, until its thread has ended."""
    lane = LaneSpec(lane="orders", idempotence=True)
    tables, reservations = LoadTables(tmp_path, [lane]), Reservations(tmp_path)
    load = LaneLoad(
        lane,
        LoadSettings(
            bootstrap_servers="127.0.0.1:1",
            workload=WorkloadSpec(rate=1_000, settle_timeout=0.1),
            tables=tables,
            reservations=reservations,
            on_notice=notices.append,
            on_change=print,
        ),
    )
    load.producer.producers[0].client = FailingClient(error)
    load.start()
    wait_until(lambda: not load._thread.is_alive(), "the lane's producer to end", timeout=10)
    load.consumer.close()
    tables.close()
    reservations.close()
    return load


def test_a_producer_that_failed_for_good_ends_its_lane_and_not_the_run(tmp_path: Path) -> None:
    notices: list[str] = []
    error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "the broker has lost its records", True)
    load = loaded(tmp_path, error, notices)
    load.raise_error()
    assert notices == ["orders: its producer has failed for good and sends no more: the broker has lost its records"]


def test_any_other_error_ends_the_run(tmp_path: Path) -> None:
    load = loaded(tmp_path, KafkaError(KafkaError._ALL_BROKERS_DOWN), [])
    with pytest.raises(KafkaException):
        load.raise_error()
