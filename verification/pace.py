"""At which pace a lane's records advance from offset to offset, told from a small sample.

Guarantee: a wrong pace makes a history pack worse, and changes no case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

WORTH_IT = 0.75
"""Share of neighbouring records that must advance at their lane's pace."""
SAMPLED_FILES, SAMPLED_ROWS = 8, 2048


@dataclass(frozen=True, slots=True)
class Pace:
    """How a lane's records advance from offset to offset: `stride` in seqs (at least 1), `tick` in poll times (ns)."""

    stride: int = 1
    tick: int = 1


def paces(spark: SparkSession, log_files: list[str], read_files: list[str]) -> dict[str, Pace] | None:
    """Each lane's pace, from the first rows of a few files; None where the history does not come in stretches.

    Under the empty name stands the usual pace, for lanes that the sample does not show.
    """
    stored = _sample(spark, log_files, "seq", "producer_id")
    read = _sample(spark, read_files, "poll_ns", "consumer")
    samples = [sample for sample in (stored, read) if sample is not None]
    if not samples:
        return None
    rows = usual_steps(reduce(DataFrame.union, samples), "chain").collect()
    for what in ("seq", "poll_ns"):
        found = [row for row in rows if row.what == what]
        if sum(row.most or 0 for row in found) < WORTH_IT * sum(row.all for row in found):
            return None
    strides = {row.lane: row.usual for row in rows if row.what == "seq"}
    ticks = {row.lane: row.usual for row in rows if row.what == "poll_ns"}
    lanes = {*strides, *ticks}
    known = {lane: Pace(max(1, strides.get(lane) or 1), max(0, ticks.get(lane) or 0)) for lane in lanes}
    paces_of_lanes = list(known.values())
    return {**known, "": max(paces_of_lanes, key=paces_of_lanes.count)}


def usual_steps(rows: DataFrame, chain: str) -> DataFrame:
    """How much `value` usually grows from an offset to the next: (what,) lane, usual, and `most` of `all` do so.

    `rows`: lane, partition, offset, value, the column `chain`, and `what` if there are values of several kinds.
    """
    kinds = ("what", "lane") if "what" in rows.columns else ("lane",)
    along = Window.partitionBy(*kinds, chain, "partition").orderBy("offset")
    follows = F.col("offset") - F.lag("offset").over(along) == 1
    steps = rows.select(*kinds, F.when(follows, F.col("value") - F.lag("value").over(along)).alias("step"))
    counted = steps.groupBy(*kinds, "step").agg(F.count(F.lit(1)).alias("n"))
    regular = F.when(F.col("step").isNotNull(), F.col("n"))
    return counted.groupBy(*kinds).agg(
        F.max_by("step", regular).alias("usual"), F.max(regular).alias("most"), F.sum("n").alias("all")
    )


def _sample(spark: SparkSession, files: list[str], value: str, chain: str) -> DataFrame | None:
    if not files:
        return None
    few = min(len(files), SAMPLED_FILES)
    chosen = [files[index * len(files) // few] for index in range(few)]
    columns = f"lane string, partition int, offset bigint, {value} bigint, "
    schema = columns + ("consumer string" if chain == "consumer" else f"{chain} int")
    parts = [spark.read.schema(schema).parquet(file).limit(SAMPLED_ROWS) for file in chosen]
    return reduce(DataFrame.union, parts).select(
        F.lit(value).alias("what"),
        "lane",
        F.col(chain).cast("string").alias("chain"),
        "partition",
        "offset",
        F.col(value).alias("value"),
    )
