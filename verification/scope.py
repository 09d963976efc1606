"""What the anomalies are judged on: the whole tables, or the blocks that the screen could not prove clean.

Guarantee: both ways lead to the same cases. A small history, or one without a final log, is looked at row by row;
in any other the screen comes first, and only what it suspects is looked at row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kafka_chaos.verification import evidence, history, screen
from kafka_chaos.verification.evidence import Frames
from kafka_chaos.verification.judge import LaneFacts
from kafka_chaos.verification.run_directory import RunDirectory
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.screen import BLOCK

MOST_BROADCAST = 2_000_000
"""With more suspect blocks than this, picking their rows costs more than looking at all."""

Keep = Callable[[DataFrame], DataFrame]

_LANES = StructType([StructField("lane", StringType())])


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables that the anomalies' functions take; see there. `runs` is None without a final log."""

    seen: DataFrame
    records: DataFrame
    undecodable: DataFrame
    shown: DataFrame
    stored: DataFrame
    held: DataFrame
    polls: DataFrame
    consumed: DataFrame
    runs: DataFrame | None


@dataclass(frozen=True, slots=True)
class Survey:
    """A run's tables, the facts about it by lane, and the scope of what is to be judged."""

    frames: Frames
    facts: Mapping[str, LaneFacts]
    scope: Scope


@contextmanager
def surveyed(
    spark: SparkSession, run: RunDirectory, frames: Frames, *, screened: bool | None = None
) -> Iterator[Survey]:
    """The survey of a run, for as long as the block runs.

    `screened`: whether to screen first; default, by size. Raises `RunDirectoryError` for stray values.
    """
    if screened is None:
        screened = sum(run.rows.values()) >= evidence.SMALL
    with ExitStack() as held:

        def keep(frame: DataFrame) -> DataFrame:
            kept = frame.persist()
            held.callback(kept.unpersist)
            return kept

        if screened and frames.log is not None:
            yield _screened(spark, run, frames, frames.log, keep)
        else:
            yield _whole(spark, run, frames, keep)


def _whole(spark: SparkSession, run: RunDirectory, frames: Frames, keep: Keep) -> Survey:
    """Everything is looked at row by row."""
    facts = evidence.gather_facts(run, frames)
    evidence.require_unique_identities(run, frames)
    ends = evidence.ends(spark, facts, final_log=run.has_log)
    seen = keep(history.sightings(frames.produced, frames.consumed, frames.log, ends))
    stored = history.places_in_log(seen)
    scope = Scope(
        seen=seen,
        records=keep(history.records(seen)),
        undecodable=history.undecodable(frames.consumed, frames.log),
        shown=history.places_shown(seen),
        stored=stored,
        held=stored,
        polls=history.genuine(frames.consumed, history.phantoms(seen)),
        consumed=frames.consumed,
        runs=None if frames.log is None else history.single_runs(frames.log),
    )
    return Survey(frames, facts, scope)


def _screened(spark: SparkSession, run: RunDirectory, frames: Frames, log: DataFrame, keep: Keep) -> Survey:
    """The screen first; then the rows of suspect identities, and of suspect offsets, each as whole blocks."""
    identities = keep(screen.suspect_identities(frames.produced, frames.consumed, log))
    runs = keep(screen.log_runs(log))
    order = keep(screen.log_order(log))
    reads = keep(screen.read_order(frames.consumed, run.first_poll_ns))
    lanes = history.local_frame(spark, _LANES, [(lane.lane,) for lane in run.lanes])
    lanes = lanes.withColumn("lane_key", screen.lane_key())
    facts = evidence.screened_facts(run, frames, runs, reads, lanes)
    suspects = identities.agg(F.count(F.lit(1)), F.max("repeated")).collect()[0]
    if suspects[1]:
        evidence.require_unique_identities(run, frames)
    ends = evidence.ends(spark, facts, final_log=True)
    keys = identities.select("key")

    def of_suspects(table: DataFrame) -> DataFrame:
        if suspects[0] > MOST_BROADCAST:
            return table
        keyed = table.withColumn("key", screen.identity_key())
        return keyed.join(F.broadcast(keys), "key", "left_semi").drop("key")

    consumed, stored_rows = of_suspects(frames.consumed), of_suspects(log)
    seen = keep(history.sightings(of_suspects(frames.produced), consumed, stored_rows, ends))
    loose = history.places_shown(seen.where(~F.col("in_log"))).select(
        screen.lane_key().alias("lane_key"), "partition", screen.offset_block().alias("block")
    )
    suspect_blocks = screen.suspect_log_blocks(order, runs).union(screen.suspect_read_blocks(reads)).union(loose)
    blocks = keep(suspect_blocks.select(*BLOCK).distinct())
    many = blocks.count() > MOST_BROADCAST

    def of_blocks(table: DataFrame) -> DataFrame:
        keyed = table.withColumn("lane_key", screen.lane_key()).withColumn("block", screen.offset_block())
        chosen = blocks if many else F.broadcast(blocks)
        return keyed.join(chosen, list(BLOCK), "left_semi").drop("lane_key", "block")

    unknown = history.phantoms(seen)
    near_log, near_reads = keep(of_blocks(log)), keep(of_blocks(frames.consumed))
    near_stored = history.genuine(near_log, unknown).select(*POSITION, "producer_id", "seq")
    clean_runs = runs.join(F.broadcast(blocks), list(BLOCK), "left_anti").join(F.broadcast(lanes), "lane_key")
    scope = Scope(
        seen=seen,
        records=keep(history.records(seen)),
        undecodable=history.undecodable(consumed, stored_rows),
        shown=history.places_shown(seen).union(near_stored),
        stored=history.places_in_log(seen).union(near_stored),
        held=near_stored,
        polls=history.genuine(near_reads, unknown),
        consumed=near_reads,
        runs=clean_runs.select("lane", "partition", "first", "last").union(history.single_runs(near_log)),
    )
    return Survey(frames, facts, scope)
