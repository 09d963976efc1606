"""A producer that has failed for good, as librdkafka does when a log has lost what an idempotent producer wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
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


class Acknowledged:
    """A record as a delivery report has it."""

    def __init__(self, value: bytes, offset: int | None) -> None:
        self._value = value
        self._offset = offset

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int | None:
        return self._offset


class Client:
    """Acknowledges everything when it is polled, every other record without its offset."""

    def __init__(self) -> None:
        self._sent: list[tuple[bytes, Callable[..., None]]] = []
        self.acknowledged = 0

    def produce(self, topic: str, value: bytes, key: None, partition: int, delivered: Callable[..., None]) -> None:
        self._sent.append((value, delivered))

    def poll(self, timeout: float) -> int:
        sent, self._sent = self._sent, []
        for value, delivered in sent:
            delivered(None, Acknowledged(value, None if self.acknowledged % 2 else self.acknowledged))
            self.acknowledged += 1
        return len(sent)

    def __len__(self) -> int:
        return len(self._sent)

    def close(self) -> None:
        """Nothing is open."""


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def test_a_record_that_is_acknowledged_without_its_offset_is_a_row_without_one(tmp_path: Path) -> None:
    lane = LaneSpec(lane="orders", idempotence=True)
    tables, reservations = LoadTables(tmp_path, [lane]), Reservations(tmp_path)
    settings = LoadSettings(
        bootstrap_servers="127.0.0.1:1",
        workload=WorkloadSpec(rate=1_000, settle_timeout=0.1),
        tables=tables,
        reservations=reservations,
        on_notice=print,
        on_change=print,
    )
    load = LaneLoad(lane, settings)
    client = Client()
    load.producer.producers[0].client = client
    load.start()
    wait_until(lambda: client.acknowledged >= 4, "some records", timeout=10)
    load.stop_sending()
    load.await_outcomes()
    load.consumer.close()
    tables.close()
    reservations.close()
    produced = sorted(rows(tmp_path / "produced"), key=lambda row: row["seq"])
    assert len(produced) == client.acknowledged
    assert {row["outcome"] for row in produced} == {"ok"}
    assert [row["offset"] for row in produced] == [None if seq % 2 else seq for seq in range(len(produced))]
