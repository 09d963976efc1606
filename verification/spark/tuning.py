"""The settings of a Spark session while it verifies a run, by the run's size.

Guarantee: no setting of a given session makes Spark skip a file or a row, and each gets its value back.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.command.files import package_toml

ROWS_PER_SHUFFLE_PARTITION = 5_000_000
SMALL = 60_000
"""Below this many rows, the number of jobs matters: one shuffle partition."""
LARGE = 20_000_000
"""From this many rows on, the largest tables that verification makes do not fit into memory side by side."""
MOST_BROADCAST = "1MB"
"""Spark itself sends no larger file to all tasks as a whole: compressed, it may have a million rows. Of tables that
verification computes, the engine knows the rows (`spark_engine.MOST_BROADCAST_ROWS`)."""
MOST_FILES = 1_000_000
"""No table has more files than this."""
MOST_PARALLEL = 100_000
"""No Spark runs more tasks than this at once."""
_FIXED: Mapping[str, str] = package_toml(__package__, "fixed.toml")
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For few rows, to compile classes for a query takes longer than the query."""
_PARALLELISM = "spark.kafka-chaos.parallelism"


@contextmanager
def tuned(spark: SparkSession, rows: int, *, local: bool) -> Iterator[None]:
    """Set the session up for a history of `rows` rows while the block runs. `local`: its files are."""
    wanted = {
        **_FIXED,
        **(_INTERPRETED if rows < SMALL else {}),
        "spark.sql.shuffle.partitions": str(_partitions(spark, rows)),
        "spark.sql.autoBroadcastJoinThreshold": "-1" if rows < SMALL else MOST_BROADCAST,
    }
    if local:
        # A job that asks for the files' sizes pays off only for remote ones.
        wanted["spark.sql.sources.parallelPartitionDiscovery.threshold"] = str(MOST_FILES)
    before = {key: spark.conf.get(key, None) for key in wanted}
    # What is so already is left alone: Spark Connect warns of a deprecated setting even then.
    changed = {key: old for key, old in before.items() if old != wanted[key]}
    for key in changed:
        spark.conf.set(key, wanted[key])
    try:
        yield
    finally:
        for key, old in changed.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _partitions(spark: SparkSession, rows: int) -> int:
    """How many partitions a shuffle of so many rows has: a multiple of the tasks that run side by side."""
    if rows < SMALL:
        return 1
    known = spark.conf.get(_PARALLELISM, None)
    if known is None:
        # Counted once a session: Spark Connect has no sparkContext to ask.
        tasks = spark.range(MOST_PARALLEL).select(F.spark_partition_id().alias("task"))
        known = str(tasks.agg(F.max("task")).collect()[0][0] + 1)
        spark.conf.set(_PARALLELISM, known)
    wanted, parallel = -(-rows // ROWS_PER_SHUFFLE_PARTITION), int(known)
    return parallel * max(1, -(-wanted // parallel))
