"""What verification reads: the run's tables as DataFrames, and the settings of the session while it reads them.

Guarantee: every table is read under its explicit schema, from the very files that were checked, and only with the
columns that are needed. No setting of a session that was given makes Spark leave a file or a row out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from kafka_chaos.verification import schemas
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.storage import RunPath, exact
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.tables.history import gathered, local_frame

ROWS_PER_SHUFFLE_PARTITION = 5_000_000
SMALL = 60_000
"""Below so many rows the number of jobs counts: one shuffle partition, no generated code, no sample of strides."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables as DataFrames; `log`, `replicas` and `reports` are None where the run has none."""

    produced: DataFrame
    consumed: DataFrame
    log: DataFrame | None
    replicas: DataFrame | None
    reports: DataFrame | None

    def tables(self) -> dict[str, DataFrame]:
        """The tables that the run has, by name."""
        found = {name: getattr(self, name) for name in schemas.TABLES}
        return {name: table for name, table in found.items() if table is not None}


_FIXED = {
    # A lane may be called `${env:HOME}`.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # Sums of hashes are meant to wrap around.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",
    # Sizes are known beforehand; planning each stage anew costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
}
_BY_SIZE = ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")


def is_small(run: RunDirectory) -> bool:
    """Whether what counts is the number of jobs."""
    return run.rows < SMALL


@contextmanager
def tuned(spark: SparkSession, rows: int) -> Iterator[None]:
    """The session's settings as a history of `rows` rows needs them, for as long as the block runs."""
    before = {key: spark.conf.get(key, None) for key in (*_FIXED, *_BY_SIZE)}
    for key, value in _FIXED.items():
        spark.conf.set(key, value)
    tune(spark, rows)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def tune(spark: SparkSession, rows: int) -> None:
    """Set what depends on the number of rows at hand, for the jobs that follow."""
    parallel = spark.sparkContext.defaultParallelism
    wanted = -(-rows // ROWS_PER_SHUFFLE_PARTITION)
    small = rows < SMALL
    partitions = 1 if small else parallel * max(1, -(-wanted // parallel))
    # A little data is interpreted in less time than its code is compiled.
    values = (str(partitions), "false" if small else "true", "NO_CODEGEN" if small else "FALLBACK")
    for key, value in zip(_BY_SIZE, values, strict=True):
        spark.conf.set(key, value)


def read(spark: SparkSession, run: RunDirectory) -> Frames:
    """The run's tables, lazily, under their explicit schemas."""
    frames = {name: read_files(spark, run.tables[name].files, schema) for name, schema in schemas.TABLES.items()}
    return chosen(spark, run, {name: frame for name, frame in frames.items() if run.has(name)})


def read_files(spark: SparkSession, files: Sequence[RunPath], schema: StructType) -> DataFrame:
    """These Parquet files, whatever the session is set to: one that can't be read ends the job."""
    if not files:
        return local_frame(spark, schema, [])
    reader = spark.read.schema(schema).option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    return reader.parquet(*map(exact, files))


def chosen(spark: SparkSession, run: RunDirectory, tables: Mapping[str, DataFrame]) -> Frames:
    """The columns that are needed of the tables, which are DataFrames by name, and the high watermarks reported."""

    def table(name: str) -> DataFrame | None:
        return chosen_table(run, name, tables[name]) if name in tables else None

    produced, consumed = table("produced"), table("consumed")
    assert produced is not None
    assert consumed is not None
    reports = None
    if run.events.reports:
        rows = [dataclasses.astuple(report) for report in run.events.reports]
        reports = local_frame(spark, schemas.HIGH_WATERMARKS, rows)
    return Frames(produced, consumed, table("log"), table("replicas"), reports)


def chosen_table(run: RunDirectory, name: str, table: DataFrame) -> DataFrame:
    """The columns that are needed of one table."""
    return gathered(table.select(*_NEEDED[name]), small=is_small(run))


_NEEDED: Mapping[str, tuple[str, ...]] = {
    "produced": (*IDENTITY, "partition", "offset", "outcome", "complete_ns"),
    "consumed": tuple(schemas.POLLS.names),
    "log": (*POSITION, "producer_id", "seq"),
    "replicas": tuple(schemas.REPLICAS.names),
}
