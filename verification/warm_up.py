"""Warms a new Spark session up: the JVM loads and compiles what a verification needs before there is one.

As a program, it does so in a JVM that writes the archive of its classes (`spark/class_archive.py`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANE = "warm-up"
_BATCH, _LOST = 20, 20
_COPIED = 100
"""Of so many batches, one is in the log twice."""


def warm_up(spark: SparkSession, *, rows: int) -> None:
    """Verify a generated history with losses and duplicates once, in a temporary directory.

    `rows`: how many rows will be verified; few are examined in a way of their own (`tuning.is_small`).
    """
    from kafka_chaos.verification.checker import verify
    from kafka_chaos.verification.spark.tuning import SMALL

    with tempfile.TemporaryDirectory(prefix="kafka-chaos-") as folder:
        _write(Path(folder), SMALL // 60 if rows < SMALL else SMALL // 2)
        verify(folder, spark=spark)


def _write(folder: Path, records: int) -> None:
    """A lane's records, of which the log and two brokers lack some and hold others twice."""
    import numpy as np

    seqs = np.arange(records)
    batches = np.split(seqs, range(_BATCH, records, _BATCH))
    log = np.concatenate([batch for at, batch in enumerate(batches) for _ in range(1 + (at % _COPIED == 0))])
    log = np.delete(log, slice(len(log) // 2, len(log) // 2 + _LOST))
    place: dict[str, Any] = {"partition": 0, "offset": np.arange(len(log)), "producer_id": 0, "seq": log}
    sent = {"producer_id": 0, "seq": seqs, "partition": 0, "outcome": "ok"}
    times = {"invoke_ns": seqs * 10_000, "complete_ns": seqs * 10_000 + 3_000_000}
    _write_table(folder / "produced", {**sent, **times})
    _write_table(folder / "log", place)
    _write_table(folder / "consumed", {"consumer": "c", **place, "poll_ns": place["offset"] * 10_000 + 5_000_000})
    _write_table(folder / "replicas", *({"broker": broker, "leader_epoch": 0, **place} for broker in (1, 2)))
    # Without acknowledgements, the model's answer takes no time.
    lanes = {"format_version": 1, "lanes": [{"lane": LANE, "acks": "0"}]}
    (folder / "lanes.json").write_text(json.dumps(lanes), encoding="utf-8")


def _write_table(folder: Path, *files: dict[str, Any]) -> None:
    """Write files of a table; what is given once holds for all of its rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kafka_chaos.contract.columns import TABLES, arrow_schema

    folder.mkdir()
    for number, columns in enumerate(files):
        known = {"lane": LANE, **columns}
        lacking = [column.name for column in TABLES[folder.name] if column.name not in known]
        schema = arrow_schema(TABLES[folder.name], without=lacking)
        arrays = np.broadcast_arrays(*(known[name] for name in schema.names))
        table = pa.table([pa.array(array) for array in arrays], names=schema.names)
        pq.write_table(table.cast(schema), folder / f"{number}.parquet")


def _record(archive: str) -> None:
    """Write the archive of the classes that verifications of either size load."""
    from kafka_chaos.verification.spark.class_archive import recording_options
    from kafka_chaos.verification.spark.session import spark_session
    from kafka_chaos.verification.spark.tuning import SMALL

    spark = spark_session(jvm_options=recording_options(archive))
    for rows in (SMALL - 1, SMALL):
        warm_up(spark, rows=rows)
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    # Spark's JVM ends with its standard input.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    _record(sys.argv[1])
