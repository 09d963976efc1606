"""The input of verification: the run's tables as DataFrames, and the session's settings while reading them.

Guarantee: every table is read under its explicit schema, from exactly the files that were checked, and only with the
necessary columns. No setting of a given session makes Spark skip a file or a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafka_chaos.verification import schemas
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, exact
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.tables.facts import CommittedEnds
from kafka_chaos.verification.tables.history import gathered, local_frame

ROWS_PER_SHUFFLE_PARTITION = 5_000_000
SMALL = 60_000
"""Below this many rows, the number of jobs matters: one shuffle partition, no sampling."""
INTERPRETED = 60_000
"""Below this many rows, compiling code takes longer than interpreting."""
LARGE = 20_000_000
"""From this many rows on, the largest tables that verification makes do not fit into memory side by side."""
MOST_FILES = 1_000_000
"""No table has more files than this."""
MOST_PARALLEL = 100_000
"""No Spark runs more tasks than this at once."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables as DataFrames; all but `produced` and `consumed` are None if the run has none.

    `replica_sums`: of `replicas` (`replicas.block_sums`); `markers`: those in `replicas`. `ends`: of the partitions of
    transactional lanes.
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

    @property
    def is_plain(self) -> bool:
        """Whether no table of transactions or groups rests on what was sent and read."""
        return self.transactions is None and self.assignments is None and self.commits is None

    def tables(self) -> dict[str, DataFrame]:
        """The tables that the run has, by name."""
        found = {name: getattr(self, name) for name in schemas.TABLES}
        return {name: table for name, table in found.items() if table is not None}


_FIXED = {
    # A lane may be called `${env:HOME}`.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # A footer may say what its pages do not hold: no row is left out by it.
    "spark.sql.parquet.filterPushdown": "false",
    # Sums of hashes are meant to wrap around.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",
    # A task groups hundreds of thousands of runs: past the usual 2^16 keys, each row is looked up in a slower map.
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "20",
    # Sizes are known in advance: adaptive planning of each stage costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
}
_BY_SIZE = ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")

_LISTED_BY_A_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_PARALLELISM = "spark.kafka-chaos.parallelism"


def is_small(run: RunDirectory) -> bool:
    """Whether the run is so small that the number of jobs matters."""
    return run.rows < SMALL


def is_large(run: RunDirectory) -> bool:
    """Whether the run is so large that its tables do not fit into memory."""
    return run.rows >= LARGE


@contextmanager
def tuned(spark: SparkSession, rows: int) -> Iterator[None]:
    """Set the session up for a history of `rows` rows while the block runs."""
    # What is so already is left alone: Spark Connect warns of a deprecated setting even then.
    changed = {key: value for key, value in _FIXED.items() if spark.conf.get(key) != value}
    before = {key: spark.conf.get(key, None) for key in (*changed, *_BY_SIZE, _LISTED_BY_A_JOB)}
    for key, value in changed.items():
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
    """Adapt the settings to the number of rows in the jobs that follow."""
    partitions = 1
    if rows >= SMALL:
        parallel = _parallelism(spark)
        wanted = -(-rows // ROWS_PER_SHUFFLE_PARTITION)
        partitions = parallel * max(1, -(-wanted // parallel))
    interpreted = rows < INTERPRETED
    values = (str(partitions), "false" if interpreted else "true", "NO_CODEGEN" if interpreted else "FALLBACK")
    for key, value in zip(_BY_SIZE, values, strict=True):
        spark.conf.set(key, value)


def _parallelism(spark: SparkSession) -> int:
    """How many tasks run side by side, counted once a session: Spark Connect has no sparkContext to ask."""
    known = spark.conf.get(_PARALLELISM, None)
    if known is None:
        tasks = spark.range(MOST_PARALLEL).select(F.spark_partition_id().alias("task"))
        known = str(tasks.agg(F.max("task")).collect()[0][0] + 1)
        spark.conf.set(_PARALLELISM, known)
    return int(known)


def read(spark: SparkSession, run: RunDirectory) -> Frames:
    """The run's tables, lazily, under their explicit schemas."""
    if isinstance(run.path, Path):
        # A job that asks for the files' sizes pays off only for remote ones.
        spark.conf.set(_LISTED_BY_A_JOB, str(MOST_FILES))
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
    return Frames(produced, consumed, table("log"), table("replicas"), reports, transactions, assignments, commits)


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
