"""Condenses a run's tables into what a page can show: those of records with Spark, the smaller ones without.

Guarantee: the number of lanes and of partitions with findings bounds the data that leaves Spark; the number of records
does not. Counts, maxima and gaps are exact, p50 and p99 are within `LATENCY_STEP` of the true value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.harness.report.inputs.footers import Extent, Footers, read_footers
from kafka_chaos.harness.report.inputs.groups import GroupOverTime, read_groups
from kafka_chaos.harness.report.inputs.ranges import FindingRange, find_ranges
from kafka_chaos.harness.report.inputs.transactions import TransactionalId, read_transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKETS = 160
"""Most buckets of time per lane."""
GAPS = 12
"""Most availability gaps per lane, the longest ones."""
ERRORS = 8
"""Most different errors per lane."""
SLOT_NS = 10_000_000
"""Gaps between acknowledgements are exact from this length on; buckets are whole numbers of slots."""
SHORTEST_GAP_NS = 500_000_000
"""A shorter pause is no availability gap."""
LATENCY_STEP = 0.01
"""Relative width of the steps that latencies are counted in."""


@dataclass(frozen=True)
class Bucket:
    """Records that completed within one bucket of time. Latencies: of acknowledged records, in nanoseconds."""

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
    acknowledgements, or none of their gaps as long as `SLOT_NS`.
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
class Series:
    """What the report gets from a run's tables. `ends` maps lane and partition to the last offset of the final log.

    `transactions`: by lane. `groups`: by the lane that a group reads, and the group.
    """

    lanes: Mapping[str, LaneSeries] = field(default_factory=dict)
    ranges: Sequence[FindingRange] = ()
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    transactions: Mapping[str, Sequence[TransactionalId]] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], GroupOverTime] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """The time that a lane's phase covers, as far as events show it."""

    start_ns: int | None = None
    end_ns: int | None = None
    group: str = ""


def condense(
    spark: SparkSession, tables: Mapping[str, Sequence[Path]], spans: Mapping[str, Span], *, buckets: int = BUCKETS
) -> Series:
    """Aggregate the tables; `spans` names the lanes and their phases (`group`)."""
    from kafka_chaos.verification import schemas
    from kafka_chaos.verification.inputs.file_systems.storage import exact
    from kafka_chaos.verification.tables.evidence import tuned

    frames: dict[str, DataFrame] = {
        name: spark.read.schema(schema).parquet(*[exact(file) for file in tables[name]])
        for name, schema in (("produced", schemas.PRODUCED), ("findings", schemas.FINDINGS), ("log", schemas.LOG))
        if tables.get(name)
    }
    footers = read_footers({name: tables[name] for name in frames})
    # Each of these takes Spark longer to plan than to compute: side by side, one is planned while another runs.
    with tuned(spark, footers.rows), ThreadPoolExecutor(max_workers=4) as threads:
        ranges = threads.submit(find_ranges, frames["findings"]) if "findings" in frames else None
        ends = threads.submit(_ends, frames["log"]) if "log" in frames and ranges is not None else None
        lanes = _over_time(spark, frames["produced"], spans, buckets, footers, threads) if "produced" in frames else {}
        found = ranges.result() if ranges is not None else []
        concerned = {one.lane for one in found}
        known = ends.result() if ends is not None else {}
    charts = {lane: (one.start_ns, one.width_ns) for lane, one in lanes.items()}
    return Series(
        lanes=lanes,
        ranges=found,
        ends={place: end for place, end in known.items() if place[0] in concerned},
        transactions=read_transactions(tables.get("transactions", ()), charts),
        groups=read_groups(tables.get("assignments", ()), tables.get("commits", ()), charts),
    )


def bucket_width(span_ns: int, buckets: int) -> int:
    """The smallest round width (1, 2 or 5 times a power of ten, at least a slot) that needs no more buckets."""
    power = SLOT_NS
    while True:
        for step in (1, 2, 5):
            if step * power * buckets >= span_ns:
                return step * power
        power *= 10


def _over_time(
    spark: SparkSession,
    produced: DataFrame,
    spans: Mapping[str, Span],
    buckets: int,
    footers: Footers,
    threads: ThreadPoolExecutor,
) -> dict[str, LaneSeries]:
    """Everything over time, from one pass over the records: what follows works on slots."""
    slots = _slots(produced).persist()
    try:
        frames = _frames(footers.extents or _extents(slots), spans, buckets)
        if not frames:
            return {}
        found_errors = None if footers.all_ok else threads.submit(_errors, produced)
        found_gaps = threads.submit(_gaps, slots)
        counted = _buckets(spark, slots, frames)
        gaps, longest = found_gaps.result()
        errors = {} if found_errors is None else found_errors.result()
    finally:
        slots.unpersist()
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


def _slots(produced: DataFrame) -> DataFrame:
    """SLOTS: per lane, outcome, slot of completion and step of latency, how many records, and their extremes."""
    from pyspark.sql import functions as F

    latency = F.when(F.col("outcome") == "ok", F.col("complete_ns") - F.col("invoke_ns"))
    rows = produced.select(
        "lane", "outcome", F.coalesce("complete_ns", "invoke_ns").alias("done"), "invoke_ns", latency.alias("latency")
    )
    steps = F.log(F.greatest("latency", F.lit(1))) / math.log1p(LATENCY_STEP)
    step = F.when(F.col("latency").isNotNull(), F.round(steps).cast("int"))
    return rows.groupBy("lane", "outcome", F.expr(f"done div {SLOT_NS}").alias("slot"), step.alias("step")).agg(
        F.count("*").alias("records"),
        F.min("done").alias("first"),
        F.max("done").alias("last"),
        F.min("invoke_ns").alias("invoked"),
        F.max("latency").alias("longest"),
    )


def _extents(slots: DataFrame) -> dict[str, Extent]:
    """The extent of lanes for which the footers lack it."""
    from pyspark.sql import functions as F

    seen = slots.groupBy("lane").agg(F.min("invoked").alias("first"), F.max("last").alias("last")).collect()
    return {row.lane: Extent(row.first, row.last) for row in seen}


def _frames(extents: Mapping[str, Extent], spans: Mapping[str, Span], buckets: int) -> dict[str, tuple[int, int]]:
    """Start and bucket width per lane: lanes of one phase share both, so that their charts can be compared."""
    groups: dict[str, list[int]] = {}
    for lane, extent in extents.items():
        span = spans.get(lane)
        if span is not None:
            known = [edge for edge in (span.start_ns, span.end_ns) if edge is not None]
            groups.setdefault(span.group, []).extend([*known, extent.first_ns, extent.last_ns])
    placed = {}
    for name, edges in groups.items():
        start = min(edges) // SLOT_NS * SLOT_NS
        placed[name] = (start, bucket_width(max(edges) - start + 1, buckets))
    return {lane: placed[spans[lane].group] for lane in extents if lane in spans}


def _buckets(spark: SparkSession, slots: DataFrame, frames: Mapping[str, tuple[int, int]]) -> dict[str, list[Bucket]]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from kafka_chaos.verification.tables.history import local_frame

    fields = [StructField("lane", StringType()), StructField("start", LongType()), StructField("width", LongType())]
    frame = local_frame(spark, StructType(fields), [(lane, *frame) for lane, frame in frames.items()])
    bucket = F.expr(f"(slot * {SLOT_NS} - start) div width").alias("bucket")
    placed = slots.join(F.broadcast(frame), "lane").select("lane", bucket, "outcome", "records", "step", "longest")
    rows = placed.groupBy("lane", "bucket").agg(
        *[
            F.sum(F.when(F.col("outcome") == name, F.col("records")).otherwise(0)).alias(name)
            for name in ("ok", "fail", "info")
        ],
        F.percentile("step", [0.5, 0.99], F.col("records")).alias("steps"),
        F.max("longest").alias("longest"),
    )
    lanes: dict[str, list[Bucket]] = {}
    for row in sorted(rows.collect(), key=lambda row: (row.lane, row.bucket)):
        p50, p99 = (min(_latency(step), row.longest) for step in row.steps) if row.steps else (None, None)
        found = Bucket(int(row.bucket), row.ok, row.fail, row.info, p50, p99, row.longest)
        lanes.setdefault(row.lane, []).append(found)
    return lanes


def _latency(step: float) -> int:
    return round(math.exp(step * math.log1p(LATENCY_STEP)))


def _gaps(slots: DataFrame) -> tuple[dict[str, list[Gap]], dict[str, int]]:
    """The longest availability gaps per lane in time order, and the longest gap of any length from `SLOT_NS` on."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    acknowledged = slots.where(F.col("outcome") == "ok").groupBy("lane", "slot")
    busy = acknowledged.agg(F.min("first").alias("first"), F.max("last").alias("last"))
    before = F.lag("last").over(Window.partitionBy("lane").orderBy("slot"))
    gaps = busy.select("lane", before.alias("start"), F.col("first").alias("end"))
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
    """The last offset of each partition."""
    from pyspark.sql import functions as F

    rows = log.groupBy("lane", "partition").agg(F.max("offset").alias("end")).collect()
    return {(row.lane, row.partition): row.end for row in rows}
