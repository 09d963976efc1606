"""An application's producers on fake clients, and the rows that they wrote."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.handles import ProducerHandle
from kafka_chaos.harness.workload.application.producer import ApplicationProducers
from kafka_chaos.harness.workload.calls import Calls
from tests.harness.workload.loads import load_of
from tests.parquet import rows_in

LANE = LaneSpec(lane="orders", topic="orders-1", partitions=2, acks="all")
NEVER = threading.Event()


class Producing:
    made: ClassVar[list[Producing]] = []

    def __init__(self, folder: Path, lane: LaneSpec = LANE, calls: Calls | None = None) -> None:
        self.made.append(self)
        self.folder = folder
        self.load = load_of(folder, lane, calls=calls or Calls())
        self.recorder = ApplicationProducers(lane, self.load)
        self.handle = ProducerHandle(lane, self.load, self.recorder)

    def rows(self) -> list[dict[str, Any]]:
        self.recorder.finish(0.0, NEVER)
        self.load.tables.close()
        return sorted(rows_in(self.folder / "produced"), key=lambda row: (row["producer_id"], row["seq"]))
