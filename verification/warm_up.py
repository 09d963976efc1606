"""Warms a new Spark session up: the JVM loads and compiles what a verification needs before there is one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LANE = "warm-up"


def warm_up(spark: SparkSession, *, rows: int) -> None:
    """Verify a generated history with losses and duplicates once, in a temporary directory.

    `rows`: how many rows will be verified; few are examined in a way of their own (`evidence.is_small`).
    """
    from kafka_chaos.verification.checker import verify
    from kafka_chaos.verification.generate import LaneShape, lane_tables, write_run
    from kafka_chaos.verification.tables.evidence import SMALL

    records = SMALL // 60 if rows < SMALL else SMALL // 2
    # Without acknowledgements, the model's answer takes no time.
    shape = LaneShape(lane=LANE, records=records, acks="0", batch=20, retry_share=0.01, lost_tail=20)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-") as folder:
        run_dir = write_run(Path(folder) / "run", [lane_tables(shape)])
        _add_replicas(run_dir)
        verify(run_dir, spark=spark)


def _add_replicas(run_dir: Path) -> None:
    """Two brokers that hold what is in log/."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kafka_chaos.contract.columns import REPLICAS, arrow_schema

    schema = arrow_schema(REPLICAS, without=("producer_epoch", "kind"))
    (run_dir / "replicas").mkdir()
    for broker in (1, 2):
        log = pq.read_table(run_dir / "log")
        columns = {name: log[name] for name in log.column_names if name in schema.names}
        columns["broker"] = pa.repeat(broker, log.num_rows)
        columns["leader_epoch"] = pa.repeat(0, log.num_rows)
        rows = pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)
        pq.write_table(rows, run_dir / "replicas" / f"broker-{broker}.parquet")
