"""The input of verification: the run's tables as DataFrames, and the session's settings while reading them.

Guarantee: every table is read under its explicit schema, from exactly the files that were checked, and only with the
necessary columns. No setting of a given session makes Spark skip a file or a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from kafka_chaos.verification import schemas
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, exact
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.spark.tuning import LARGE, local_files_are_listed_at_once
from kafka_chaos.verification.spark.tuning import SMALL as SMALL
from kafka_chaos.verification.spark.tuning import tune as tune
from kafka_chaos.verification.spark.tuning import tuned as tuned
from kafka_chaos.verification.tables.facts import CommittedEnds
from kafka_chaos.verification.tables.history import gathered, local_frame


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables as DataFrames; all but `produced` and `consumed` are None if the run has none.

    `replica_sums`: of `replicas` (`replicas.block_sums`); `markers`: those in `replicas`. `ends`: of the partitions of
    transactional lanes. `whole`: produced and consumed with all of their columns.
    """

    produced: DataFrame
    consumed: DataFrame
    log: DataFrame | None
    replicas: DataFrame | None
    reports: DataFrame | None
    transactions: DataFrame | None = None
    assignments: DataFrame | None = None
    commits: DataFrame | None = None
    replica_sums: DataFrame | None = None
    markers: DataFrame | None = None
    ends: CommittedEnds = field(default_factory=CommittedEnds)
    whole: Mapping[str, DataFrame] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether no table of transactions or groups rests on what was sent and read."""
        return self.transactions is None and self.assignments is None and self.commits is None

    def tables(self) -> dict[str, DataFrame]:
        """The tables that the run has, by name."""
        found = {name: getattr(self, name) for name in schemas.TABLES}
        return {name: table for name, table in found.items() if table is not None}


def is_small(run: RunDirectory) -> bool:
    """Whether the run is so small that the number of jobs matters."""
    return run.rows < SMALL


def is_large(run: RunDirectory) -> bool:
    """Whether the run is so large that its tables do not fit into memory."""
    return run.rows >= LARGE


def read(spark: SparkSession, run: RunDirectory) -> Frames:
    """The run's tables, lazily, under their explicit schemas."""
    if isinstance(run.path, Path):
        local_files_are_listed_at_once(spark)
    frames = {name: read_files(spark, run.tables[name].files, schema) for name, schema in schemas.TABLES.items()}
    return chosen(spark, run, {name: frame for name, frame in frames.items() if run.has(name)})


def read_files(spark: SparkSession, files: Sequence[RunPath], schema: StructType) -> DataFrame:
    """Read these Parquet files. Whatever the session's settings, an unreadable file ends the job."""
    if not files:
        return local_frame(spark, schema, [])
    reader = spark.read.schema(schema).option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    return reader.parquet(*map(exact, files))


def chosen(spark: SparkSession, run: RunDirectory, tables: Mapping[str, DataFrame]) -> Frames:
    """The necessary columns of the tables, given as DataFrames by name, and the reported high watermarks."""

    def table(name: str) -> DataFrame | None:
        return chosen_table(run, name, tables[name]) if name in tables else None

    produced, consumed = table("produced"), table("consumed")
    assert produced is not None
    assert consumed is not None
    reports = None
    if run.events.reports:
        names = schemas.HIGH_WATERMARKS.names
        rows = [tuple(getattr(one, name) for name in names) for of in run.events.reports.values() for one in of]
        reports = local_frame(spark, schemas.HIGH_WATERMARKS, rows)
    transactions, assignments, commits = (table(name) for name in ("transactions", "assignments", "commits"))
    whole = {name: tables[name] for name in ("produced", "consumed")}
    return Frames(
        produced, consumed, table("log"), table("replicas"), reports, transactions, assignments, commits, whole=whole
    )


def chosen_table(run: RunDirectory, name: str, table: DataFrame) -> DataFrame:
    """The necessary columns of one table."""
    return gathered(table.select(*_NEEDED[name]), small=is_small(run))


SOURCE = ("source_producer_id", "source_seq")
"""The input of which a record of a loop was made."""
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "produced": (*IDENTITY, "partition", "offset", "outcome", "invoke_ns", "complete_ns", "transaction", *SOURCE),
    "consumed": tuple(schemas.POLLS.names),
    "log": (*POSITION, "producer_id", "seq"),
    "replicas": tuple(schemas.REPLICAS.names),
    "transactions": tuple(schemas.TRANSACTIONS.names),
    "assignments": tuple(schemas.ASSIGNMENTS.names),
    "commits": tuple(schemas.COMMITS.names),
}
