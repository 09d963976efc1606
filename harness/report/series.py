"""A run's tables condensed by Spark into what a page can show.

Guarantee: what leaves Spark is bounded by the number of lanes and `Detail`, never by the number of records; counts
are exact, p50 and p99 are Spark's `percentile_approx` (rank error below 0.1 %), the maximum is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 240
"""Most buckets of time per lane."""
RANGES = 200
"""Most ranges of offsets per lane and anomaly."""
GAPS = 12
"""Most availability gaps per lane, the longest ones."""
ERRORS = 8
"""Most different errors per lane."""
SLOT_NS = 20_000_000
"""Gaps between acknowledgements are exact from this length on."""
SHORTEST_GAP_NS = 500_000_000
"""A shorter pause is no availability gap."""
_PERCENTILE_ACCURACY = 1000
_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Bucket:
    """What completed within one bucket of time. Latencies are those of acknowledged records, in nanoseconds."""

    index: int
    ok: int = 0
    fail: int = 0
    info: int = 0
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


@dataclass(frozen=True)
class Gap:
    """No acknowledgement arrived between these two."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class ErrorCount:
    """How many records ended with one outcome and one error."""

    outcome: str
    error: str
    count: int


@dataclass(frozen=True)
class LaneSeries:
    """One lane over time. `start_ns` and `width_ns` place the buckets; `longest_gap_ns` None: fewer than two
    acknowledgements, or none of their gaps as long as `SLOT_NS` (then `acknowledged` tells which).
    """

    start_ns: int
    width_ns: int
    buckets: tuple[Bucket, ...] = ()
    gaps: tuple[Gap, ...] = ()
    longest_gap_ns: int | None = None
    errors: tuple[ErrorCount, ...] = ()

    def total(self, outcome: str) -> int:
        """Records with this outcome."""
        return sum(int(getattr(bucket, outcome)) for bucket in self.buckets)


@dataclass(frozen=True)
class FindingRange:
    """`count` findings of one anomaly between two offsets, or, where records have none, two sequence numbers.

    `partition` None: unknown. `producer_id` is set where `first` and `last` are sequence numbers.
    """

    lane: str
    anomaly: str
    partition: int | None
    producer_id: int | None
    first: int
    last: int
    count: int
    cause: str | None = None

    @property
    def by_sequence(self) -> bool:
        """Whether `first` and `last` are sequence numbers."""
        return self.producer_id is not None


@dataclass(frozen=True)
class Series:
    """All that Spark tells the report. `ends` maps lane and partition to the last offset of the final log."""

    lanes: Mapping[str, LaneSeries] = field(default_factory=dict)
    ranges: Sequence[FindingRange] = ()
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """The stretch of time that a lane's phase covers, as far as events tell it."""

    start_ns: int | None = None
    end_ns: int | None = None
    group: str = ""


def condense(
    spark: SparkSession, tables: Mapping[str, Sequence[Path]], spans: Mapping[str, Span], *, buckets: int = BUCKETS
) -> Series:
    """Aggregate `produced`, `findings` and `log`; `spans` names the lanes and their phases (`group`)."""
    from kafka_chaos.verification import schemas
    from kafka_chaos.verification.evidence import tuned

    frames: dict[str, DataFrame] = {
        name: spark.read.schema(schema).parquet(*[str(file) for file in tables[name]])
        for name, schema in (("produced", schemas.PRODUCED), ("findings", schemas.FINDINGS), ("log", schemas.LOG))
        if tables.get(name)
    }
    with tuned(spark, _rows(tables)):
        ends = _ends(frames["log"]) if "log" in frames else {}
        ranges = _ranges(frames["findings"]) if "findings" in frames else []
        lanes = _over_time(spark, frames["produced"], spans, buckets) if "produced" in frames else {}
    return Series(lanes=lanes, ranges=ranges, ends=ends)


def bucket_width(span_ns: int, buckets: int) -> int:
    """The smallest round width (1, 2 or 5 times a power of ten, at least a millisecond) that needs no more buckets."""
    power = 1_000_000
    while True:
        for step in _STEPS:
            if step * power * buckets >= span_ns:
                return step * power
        power *= 10


def _rows(tables: Mapping[str, Sequence[Path]]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(file).metadata.num_rows for files in tables.values() for file in files)


def _over_time(
    spark: SparkSession, produced: DataFrame, spans: Mapping[str, Span], buckets: int
) -> dict[str, LaneSeries]:
    from pyspark.sql import functions as F

    done = F.coalesce("complete_ns", "invoke_ns")
    seen = produced.groupBy("lane").agg(F.min("invoke_ns").alias("first"), F.max(done).alias("last")).collect()
    frames = _frames({row.lane: (row.first, row.last) for row in seen}, spans, buckets)
    if not frames:
        return {}
    placed = produced.join(F.broadcast(_frame_table(spark, frames)), "lane").withColumn("done", done)
    counted = _buckets(placed)
    gaps, longest = _gaps(produced)
    errors = _errors(produced)
    return {
        lane: LaneSeries(
            start_ns=start,
            width_ns=width,
            buckets=tuple(counted.get(lane, ())),
            gaps=tuple(gaps.get(lane, ())),
            longest_gap_ns=longest.get(lane),
            errors=tuple(errors.get(lane, ())),
        )
        for lane, (start, width) in frames.items()
    }


def _frames(seen: Mapping[str, tuple[int, int]], spans: Mapping[str, Span], buckets: int) -> dict[str, tuple[int, int]]:
    """Start and bucket width per lane: lanes of one phase share both, so that their charts can be compared."""
    groups: dict[str, list[int]] = {}
    for lane, (first, last) in seen.items():
        span = spans.get(lane)
        if span is not None:
            known = [edge for edge in (span.start_ns, span.end_ns, first, last) if edge is not None]
            groups.setdefault(span.group, []).extend(known)
    placed = {name: (min(edges), bucket_width(max(edges) - min(edges) + 1, buckets)) for name, edges in groups.items()}
    return {lane: placed[spans[lane].group] for lane in seen if lane in spans}


def _frame_table(spark: SparkSession, frames: Mapping[str, tuple[int, int]]) -> DataFrame:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from kafka_chaos.verification.history import local_frame

    fields = [StructField("lane", StringType()), StructField("start", LongType()), StructField("width", LongType())]
    return local_frame(spark, StructType(fields), [(lane, *frame) for lane, frame in frames.items()])


def _buckets(placed: DataFrame) -> dict[str, list[Bucket]]:
    from pyspark.sql import functions as F

    ok = F.col("outcome") == "ok"
    latency = F.when(ok, F.col("complete_ns") - F.col("invoke_ns"))
    rows = (
        placed.withColumn("bucket", F.expr("(done - start) div width"))
        .groupBy("lane", "bucket")
        .agg(
            F.count_if(ok).alias("ok"),
            F.count_if(F.col("outcome") == "fail").alias("fail"),
            F.count_if(F.col("outcome") == "info").alias("info"),
            F.percentile_approx(latency, [0.5, 0.99], _PERCENTILE_ACCURACY).alias("percentiles"),
            F.max(latency).alias("longest"),
        )
    )
    lanes: dict[str, list[Bucket]] = {}
    for row in sorted(rows.collect(), key=lambda row: (row.lane, row.bucket)):
        p50, p99 = row.percentiles or (None, None)
        bucket = Bucket(int(row.bucket), row.ok, row.fail, row.info, p50, p99, row.longest)
        lanes.setdefault(row.lane, []).append(bucket)
    return lanes


def _gaps(produced: DataFrame) -> tuple[dict[str, list[Gap]], dict[str, int]]:
    """The longest availability gaps per lane in time order, and the longest gap of any length from `SLOT_NS` on."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    acknowledged = produced.where((F.col("outcome") == "ok") & F.col("complete_ns").isNotNull())
    slots = acknowledged.groupBy("lane", F.expr(f"complete_ns div {SLOT_NS}").alias("slot")).agg(
        F.min("complete_ns").alias("first"), F.max("complete_ns").alias("last")
    )
    before = F.lag("last").over(Window.partitionBy("lane").orderBy("slot"))
    gaps = slots.select("lane", before.alias("start"), F.col("first").alias("end"))
    gaps = gaps.withColumn("length", F.col("end") - F.col("start")).where(F.col("length") >= SLOT_NS)
    rank = F.row_number().over(Window.partitionBy("lane").orderBy(F.desc("length"), "start"))
    kept = gaps.withColumn("rank", rank).where(F.col("rank") <= GAPS).collect()
    found: dict[str, list[Gap]] = {}
    longest: dict[str, int] = {}
    for row in sorted(kept, key=lambda row: row.start):
        longest[row.lane] = max(longest.get(row.lane, 0), row.length)
        if row.length >= SHORTEST_GAP_NS:
            found.setdefault(row.lane, []).append(Gap(row.start, row.end))
    return found, longest


def _errors(produced: DataFrame) -> dict[str, list[ErrorCount]]:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    counts = produced.where(F.col("outcome") != "ok").groupBy("lane", "outcome", "error").count()
    rank = F.row_number().over(Window.partitionBy("lane").orderBy(F.desc("count"), "outcome", "error"))
    rows = counts.withColumn("rank", rank).where(F.col("rank") <= ERRORS).orderBy("lane", "rank").collect()
    errors: dict[str, list[ErrorCount]] = {}
    for row in rows:
        errors.setdefault(row.lane, []).append(ErrorCount(row.outcome, row.error or "no error given", row["count"]))
    return errors


def _ends(log: DataFrame) -> dict[tuple[str, int], int]:
    from pyspark.sql import functions as F

    rows = log.groupBy("lane", "partition").agg(F.max("offset").alias("end")).collect()
    return {(row.lane, row.partition): row.end for row in rows}


def _ranges(findings: DataFrame) -> list[FindingRange]:
    """Findings joined into ranges wherever they lie closer than a `RANGES`th of their spread."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    unplaced = F.col("offset").isNull()
    group = ("lane", "anomaly", "partition", "producer")
    placed = findings.select(
        "lane",
        "anomaly",
        "partition",
        F.when(unplaced, F.col("producer_id")).alias("producer"),
        F.coalesce("offset", "seq").alias("at"),
        "cause",
    ).where(F.col("at").isNotNull())
    everything, ordered = Window.partitionBy(*group), Window.partitionBy(*group).orderBy("at")
    spread = F.max("at").over(everything) - F.min("at").over(everything)
    step = F.col("at") - F.lag("at").over(ordered)
    apart = placed.withColumn("tolerance", F.greatest(F.lit(1.0), spread / RANGES)).withColumn("step", step)
    opens = F.when(F.col("step") <= F.col("tolerance"), 0).otherwise(1)
    numbered = apart.withColumn("range", F.sum(opens).over(ordered.rowsBetween(Window.unboundedPreceding, 0)))
    ranges = numbered.groupBy(*group, "range").agg(
        F.min("at").alias("first"),
        F.max("at").alias("last"),
        F.count("*").alias("count"),
        F.min_by("cause", "at").alias("cause"),
    )
    rank = F.row_number().over(Window.partitionBy("lane", "anomaly").orderBy(F.desc("count"), "first"))
    rows: list[Any] = ranges.withColumn("rank", rank).where(F.col("rank") <= RANGES).collect()
    found = [
        FindingRange(row.lane, row.anomaly, row.partition, row.producer, row.first, row.last, row["count"], row.cause)
        for row in rows
    ]
    return sorted(found, key=lambda found: (found.lane, found.anomaly, found.partition or 0, found.first))
