"""An application's producers on fake clients, and the rows that they wrote."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.handles import ProducerHandle
from kafka_chaos.harness.workload.application.producer import ProducerRecorder
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import TRANSACTIONS_SCHEMA, HistoryWriter, RowBuffer
from kafka_chaos.harness.workload.settings import producer_configs
from tests.parquet import rows_in

LANE = LaneSpec(lane="orders", topic="orders-1", partitions=2, acks="all")
NEVER = threading.Event()


class Producing:
    made: ClassVar[list[Producing]] = []

    def __init__(self, folder: Path, lane: LaneSpec = LANE) -> None:
        self.made.append(self)
        self.writer, self.reservations = HistoryWriter(folder / "produced"), Reservations(folder)
        self.transactions = HistoryWriter(folder / "transactions")
        self.folder = folder
        configs = producer_configs(lane, "127.0.0.1:1")
        self.recorder = ProducerRecorder(
            lane=lane.lane,
            topic=lane.topic_name,
            answered=lane.acks != "0",
            retries=True,
            writer=self.writer,
            reservations=self.reservations,
            transactions=None if lane.transactional is None else RowBuffer(TRANSACTIONS_SCHEMA, self.transactions),
        )
        self.handle = ProducerHandle(lane, "127.0.0.1:1", self.recorder, configs)

    def rows(self) -> list[dict[str, Any]]:
        self.recorder.finish(0.0, NEVER)
        self.writer.close()
        self.reservations.close()
        self.transactions.close()
        return sorted(rows_in(self.folder / "produced"), key=lambda row: (row["producer_id"], row["seq"]))
