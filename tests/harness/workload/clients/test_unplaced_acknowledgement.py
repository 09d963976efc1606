"""An acknowledgement that names no offset: an idempotent producer's retry, of a record that was stored long ago."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.lane_load import LaneLoad
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables


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
