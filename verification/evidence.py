"""Reading a run directory's tables into Spark, and the facts about them that judging needs.

Guarantee: every table is read under its explicit schema and only with the columns that are needed; a row of a
lane that lanes.json does not name, an unknown outcome and an identity produced twice are refused by file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from kafka_chaos.verification import schemas
from kafka_chaos.verification.contract import OUTCOMES, RunDirectoryError
from kafka_chaos.verification.history import OK, OUTCOME_CODE, READ, SENT, STORED, gathered, local_frame
from kafka_chaos.verification.judge import LaneFacts, PartitionFacts
from kafka_chaos.verification.run_directory import RunDirectory
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.storage import open_binary

ROWS_PER_SHUFFLE_PARTITION = 5_000_000
SMALL = 60_000
"""Up to so many rows, one shuffle partition and no screen: what counts then is the number of jobs."""

ENDS = StructType(
    [
        StructField("lane", StringType()),
        StructField("partition", IntegerType()),
        StructField("read_end", LongType()),
        StructField("end_reached", BooleanType()),
    ]
)


@dataclass(frozen=True, slots=True)
class Frames:
    """The tables as DataFrames; `log`, `replicas` and `reports` are None where the run has none."""

    produced: DataFrame
    consumed: DataFrame
    log: DataFrame | None
    replicas: DataFrame | None
    reports: DataFrame | None


_FIXED = {
    # Sums of hashes are meant to wrap around.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",
    # Sizes are known beforehand; planning each stage anew costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
}
_BY_SIZE = ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")


def is_small(run: RunDirectory) -> bool:
    """Whether what counts is the number of jobs."""
    return sum(run.rows.values()) < SMALL


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

    small = is_small(run)

    def table(name: str, schema: StructType, columns: tuple[str, ...]) -> DataFrame:
        files = [str(file) for file in run.files[name]]
        if not files:
            return local_frame(spark, schema, []).select(*columns)
        return gathered(spark.read.schema(schema).parquet(*files).select(*columns), small=small)

    reports = None
    if run.reports_high_watermarks:
        lines = spark.read.schema(schemas.HIGH_WATERMARKS).json(str(run.path / "events.jsonl"))
        reports = lines.where(F.col("type") == "high_watermark")
    return Frames(
        produced=table(
            "produced",
            schemas.PRODUCED,
            (*IDENTITY, "partition", "offset", "outcome", "complete_ns"),
        ),
        consumed=table("consumed", schemas.CONSUMED, tuple(schemas.POLLS.names)),
        log=table("log", schemas.LOG, (*POSITION, "producer_id", "seq")) if run.has_log else None,
        replicas=table("replicas", schemas.REPLICAS, tuple(schemas.REPLICAS.names)) if run.files["replicas"] else None,
        reports=reports,
    )


def gather_facts(run: RunDirectory, frames: Frames) -> dict[str, LaneFacts]:
    """Counts and ends per lane and partition, in one job. Raises `RunDirectoryError` for stray values."""
    rows = _facts(frames).collect()
    lanes = {lane.lane for lane in run.lanes}
    partitions: dict[str, dict[int | None, PartitionFacts]] = {}
    for row in rows:
        if row.lane not in lanes:
            _refuse_lane(run, row.lane)
        if row.bad_outcomes:
            _refuse_outcome(run, frames)
        partitions.setdefault(row.lane, {})[row.partition] = PartitionFacts(
            produced=row.produced,
            acknowledged=row.acknowledged,
            consumed=row.consumed,
            stored=row.stored,
            unplaced_acknowledgements=row.unplaced_acknowledgements,
            first_acknowledged_ns=row.first_acknowledged_ns,
            acknowledged_end=row.acknowledged_end,
            read_end=row.read_end,
            log_end=row.log_end,
        )
    return {lane: LaneFacts(places) for lane, places in partitions.items()}


def _facts(frames: Frames) -> DataFrame:
    nothing = ("cast(NULL AS int)", "cast(NULL AS bigint)")
    place = ("lane", "partition", "offset")
    rows = frames.produced.selectExpr(*place, f"{SENT} AS source", f"{OUTCOME_CODE} AS outcome", "complete_ns AS stamp")
    rows = rows.union(frames.consumed.selectExpr(*place, f"{READ}", *nothing))
    if frames.log is not None:
        rows = rows.union(frames.log.selectExpr(*place, f"{STORED}", *nothing))
    sent, ok = f"source = {SENT}", f"source = {SENT} AND outcome = {OK}"
    columns = {
        "produced": f"count_if({sent})",
        "acknowledged": f"count_if({ok})",
        "consumed": f"count_if(source = {READ})",
        "stored": f"count_if(source = {STORED})",
        "unplaced_acknowledgements": f"count_if({ok} AND (offset IS NULL OR partition IS NULL))",
        "bad_outcomes": f"count_if({sent} AND outcome IS NULL)",
        "first_acknowledged_ns": f"min(IF({ok}, stamp, NULL))",
        "acknowledged_end": f"max(IF({ok}, offset, NULL))",
        "read_end": f"max(IF(source = {READ}, offset, NULL))",
        "log_end": f"max(IF(source = {STORED}, offset, NULL))",
    }
    return rows.groupBy("lane", "partition").agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))


def screened_facts(
    run: RunDirectory, frames: Frames, runs: DataFrame, reads: DataFrame, lanes: DataFrame
) -> dict[str, LaneFacts]:
    """The same facts from the tables of the screen (`screen.log_runs`, `screen.read_order`).

    `lanes`: lane and its `lane_key`. Produced rows are counted by lane only, under no partition: with a final log
    the ends of partitions are those of the log.
    """
    names = {row.lane_key: row.lane for row in lanes.collect()}
    partitions: dict[str, dict[int | None, PartitionFacts]] = {}
    for row in _produced_facts(frames).collect():
        if row.lane not in names.values():
            _refuse_lane(run, row.lane)
        if row.bad_outcomes:
            _refuse_outcome(run, frames)
        partitions.setdefault(row.lane, {})[None] = PartitionFacts(
            produced=row.produced,
            acknowledged=row.acknowledged,
            first_acknowledged_ns=row.first_acknowledged_ns,
        )
    for row in _shown_facts(runs, reads).collect():
        if row.lane_key not in names:
            _refuse_stray_lane(run, frames, list(names.values()))
        partitions.setdefault(names[row.lane_key], {})[row.partition] = PartitionFacts(
            consumed=row.consumed, stored=row.stored, read_end=row.read_end, log_end=row.log_end
        )
    return {lane: LaneFacts(places) for lane, places in partitions.items()}


def _produced_facts(frames: Frames) -> DataFrame:
    code = F.expr(OUTCOME_CODE)
    ok = F.coalesce(code == OK, F.lit(False))
    return (
        frames.produced.select("lane", ok.alias("ok"), code.isNull().alias("bad"), "complete_ns")
        .groupBy("lane")
        .agg(
            F.count(F.lit(1)).alias("produced"),
            F.count(F.when(F.col("ok"), F.lit(1))).alias("acknowledged"),
            F.count(F.when(F.col("bad"), F.lit(1))).alias("bad_outcomes"),
            F.min(F.when(F.col("ok"), F.col("complete_ns"))).alias("first_acknowledged_ns"),
        )
    )


def _shown_facts(runs: DataFrame, reads: DataFrame) -> DataFrame:
    nothing = F.lit(None).cast("bigint")
    stored = runs.select("lane_key", "partition", "rows", F.col("last").alias("log_end"), F.lit(0).alias("read_rows"))
    stored = stored.withColumn("read_end", nothing)
    read = reads.select("lane_key", "partition", F.lit(0).alias("rows"), nothing.alias("log_end"), "rows", "last")
    return (
        stored.union(read)
        .groupBy("lane_key", "partition")
        .agg(
            F.sum("rows").alias("stored"),
            F.sum("read_rows").alias("consumed"),
            F.max("log_end").alias("log_end"),
            F.max("read_end").alias("read_end"),
        )
    )


def packed_facts(packed: DataFrame) -> DataFrame:
    """The same facts from the stretches of the three tables (`stretches.Packing`): `facts_of` reads the rows.

    Produced rows are counted by lane only, as in `screened_facts`.
    """
    columns = {
        "produced": f"sum(IF(source = {SENT}, n, 0L))",
        "acknowledged": f"sum(IF(source = {SENT} AND outcome = {OK}, n, 0L))",
        "bad_outcomes": f"sum(IF(source = {SENT} AND outcome IS NULL, n, 0L))",
        "consumed": f"sum(IF(source = {READ}, n, 0L))",
        "stored": f"sum(IF(source = {STORED}, n, 0L))",
        "first_acknowledged_ns": f"min(IF(outcome = {OK}, first_complete_ns, NULL))",
        "read_end": f"max(IF(source = {READ}, last, NULL))",
        "log_end": f"max(IF(source = {STORED}, last, NULL))",
    }
    rows = packed.selectExpr(
        "lane",
        f"IF(source = {SENT}, NULL, partition) AS partition",
        "source",
        "outcome",
        "n",
        "first_complete_ns",
        "last",
    )
    return rows.groupBy("lane", "partition").agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))


def facts_of(run: RunDirectory, frames: Frames, rows: Iterable[Mapping[str, Any]]) -> dict[str, LaneFacts]:
    """The facts from the rows of `packed_facts`, without what is null in them. Raises for stray values."""
    partitions: dict[str, dict[int | None, PartitionFacts]] = {}
    for row in rows:
        found = dict(row)
        lane, partition = found.pop("lane", None), found.pop("partition", None)
        if lane is None:
            _refuse_stray_lane(run, frames, [lane.lane for lane in run.lanes])
        if found.pop("bad_outcomes"):
            _refuse_outcome(run, frames)
        partitions.setdefault(lane, {})[partition] = PartitionFacts(**found)
    return {lane: LaneFacts(places) for lane, places in partitions.items()}


def ends(spark: SparkSession, facts: Mapping[str, LaneFacts], *, final_log: bool) -> DataFrame:
    """ENDS: per partition the highest offset read, and whether some consumer read the partition to its end."""
    rows = [
        (lane, partition, partition_facts.read_end, partition_facts.end_reached(final_log=final_log))
        for lane, lane_facts in facts.items()
        for partition, partition_facts in lane_facts.partitions.items()
        if partition is not None
    ]
    return local_frame(spark, ENDS, rows)


def require_unique_identities(run: RunDirectory, frames: Frames) -> None:
    """Raise `RunDirectoryError` if produced/ holds an identity twice."""
    twice = frames.produced.groupBy(*IDENTITY).count().where(F.col("count") > 1).limit(1).collect()
    if twice:
        refuse_duplicate_identity(run, frames, twice[0].lane, twice[0].producer_id, twice[0].seq)


def refuse_duplicate_identity(run: RunDirectory, frames: Frames, lane: str, producer_id: int, seq: int) -> NoReturn:
    """Raise the error for an identity that produced/ holds twice, naming the files."""
    same = (F.col("lane") == lane) & (F.col("producer_id") == producer_id) & (F.col("seq") == seq)
    files = sorted({row[0] for row in frames.produced.where(same).select(F.input_file_name()).collect()})
    names = " and ".join(file.rsplit("/", 1)[-1] for file in files)
    problem = f"lane {lane!r}, producer_id {producer_id}, seq {seq} is there twice, in {names}"
    raise RunDirectoryError(run.path / "produced" / files[0].rsplit("/", 1)[-1], problem, column="seq")


def _refuse_lane(run: RunDirectory, lane: str) -> NoReturn:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for table in ("produced", "consumed", "log"):
        for file in run.files[table]:
            with open_binary(file) as binary:
                column = pq.read_table(binary, columns=["lane"]).column("lane")
            if pc.any(pc.equal(column, lane)).as_py():
                known = ", ".join(entry.lane for entry in run.lanes)
                raise RunDirectoryError(file, f"{lane!r} is not in lanes.json ({known})", column="lane")
    raise RunDirectoryError(run.path, f"{lane!r} is not in lanes.json", column="lane")


def _refuse_stray_lane(run: RunDirectory, frames: Frames, known: list[str]) -> NoReturn:
    for table in (frames.produced, frames.consumed, frames.log):
        if table is not None:
            for row in table.where(~F.col("lane").isin(known)).select("lane").limit(1).collect():
                _refuse_lane(run, row.lane)
    raise RunDirectoryError(run.path, "holds a lane that lanes.json does not name", column="lane")


def _refuse_outcome(run: RunDirectory, frames: Frames) -> NoReturn:
    bad = frames.produced.where(~F.col("outcome").isin(*OUTCOMES) | F.col("outcome").isNull())
    row = bad.select(F.input_file_name().alias("file"), "outcome").limit(1).collect()[0]
    file = run.path / "produced" / row.file.rsplit("/", 1)[-1]
    raise RunDirectoryError(file, f"{row.outcome!r}, expected one of {', '.join(OUTCOMES)}", column="outcome")
