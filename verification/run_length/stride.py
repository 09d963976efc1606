"""Estimates from a small sample at which stride a lane's records advance from offset to offset.

Guarantee: a wrong stride makes a history pack less well, but changes no case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

WORTH_IT = 0.75
"""Share of neighbouring records that must advance at their lane's stride."""
SAMPLED_FILES, SAMPLED_ROWS = 8, 2048


@dataclass(frozen=True, slots=True)
class Stride:
    """How a lane's records advance from offset to offset: `stride` in seqs (at least 1), `tick` in poll times (ns)."""

    stride: int = 1
    tick: int = 1


def strides(stored_rows: Sequence[DataFrame], read_rows: Sequence[DataFrame]) -> dict[str, Stride] | None:
    """Each lane's stride, from samples of LOG and of CONSUMED; None if the history does not form runs.

    The empty name has the usual stride, for lanes that are not in the sample.
    """
    samples = [_sample(rows, "seq", "producer_id") for rows in stored_rows]
    samples += [_sample(rows, "poll_ns", "consumer") for rows in read_rows]
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
    known = {lane: Stride(max(1, strides.get(lane) or 1), max(0, ticks.get(lane) or 0)) for lane in lanes}
    strides_of_lanes = list(known.values())
    return {**known, "": max(strides_of_lanes, key=strides_of_lanes.count)}


def usual_steps(rows: DataFrame, chain: str) -> DataFrame:
    """By how much `value` usually grows from one offset to the next: (what,) lane, usual; `most` of `all` do so.

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


def _sample(rows: DataFrame, value: str, chain: str) -> DataFrame:
    return rows.select(
        F.lit(value).alias("what"),
        "lane",
        F.col(chain).cast("string").alias("chain"),
        "partition",
        "offset",
        F.col(value).alias("value"),
    )
