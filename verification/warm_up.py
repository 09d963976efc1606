"""Warms a new Spark session up: the JVM loads and compiles what a verification needs before there is one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.importers.writing import RunWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def warm_up(spark: SparkSession, *, rows: int) -> None:
    """Verify a generated history with losses and duplicates once, in a temporary directory.

    `rows`: how many rows will be verified; few are examined in a way of their own (`tuning.SMALL`).
    """
    from kafka_chaos.verification.checker import verify
    from kafka_chaos.verification.spark.tuning import SMALL

    with tempfile.TemporaryDirectory(prefix="kafka-chaos-") as folder:
        _write(Path(folder), SMALL // 60 if rows < SMALL else SMALL // 4)
        verify(folder, spark=spark)


def _write(folder: Path, records: int) -> None:
    """A lane's records, of which the log and two brokers lack some and hold others twice."""
    writer = RunWriter(folder)
    offset = 0
    for seq in range(records):
        record = {"lane": "warm-up", "partition": 0, "producer_id": 0, "seq": seq}
        writer.row("produced", **record, outcome="ok", invoke_ns=seq * 10_000, complete_ns=seq * 10_000 + 3_000_000)
        is_lost, is_copied = 0 <= seq - records // 2 < 20, seq // 20 % 100 == 0
        for _ in range(0 if is_lost else 1 + is_copied):
            writer.row("log", **record, offset=offset)
            writer.row("consumed", **record, offset=offset, consumer="c", poll_ns=offset * 10_000 + 5_000_000)
            for broker in (1, 2):
                writer.row("replicas", **record, offset=offset, broker=broker, leader_epoch=0)
            offset += 1
    # Without acknowledgements, the model's answer takes no time.
    writer.finish([Lane(lane="warm-up", acks="0")])
