"""A history screened by blocks of identities and offsets: whatever lies where, a little slower than by stretches.

Guarantee: every case of the whole tables is among the rows that are picked here (`screen.py`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification import evidence, history, screen, stretches
from kafka_chaos.verification.evidence import Frames
from kafka_chaos.verification.pace import Pace
from kafka_chaos.verification.run_directory import RunDirectory
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.scope import Scope, Survey, keep
from kafka_chaos.verification.screen import BLOCK

MOST_BROADCAST = 2_000_000
"""With more suspect blocks than this, picking their rows costs more than looking at all."""


def by_blocks(spark: SparkSession, run: RunDirectory, frames: Frames, log: DataFrame) -> Survey:
    """The screen first; then the rows of suspect identities, and of suspect offsets, each as whole blocks.

    Whole tables are gone through with compiled code, what was picked from them with settings for its own size.
    """
    identities = keep(screen.suspect_identities(frames.produced, frames.consumed, log))
    runs = keep(screen.log_runs(log))
    order = keep(screen.log_order(log))
    reads = keep(screen.read_order(frames.consumed, run.first_poll_ns))
    lanes = stretches.lanes_frame(spark, {lane.lane: Pace() for lane in run.lanes})
    facts = evidence.screened_facts(run, frames, runs, reads, lanes)
    suspects = identities.agg(F.count(F.lit(1)), F.max("repeated")).collect()[0]
    if suspects[1]:
        evidence.require_unique_identities(run, frames)
    ends = evidence.ends(spark, facts, final_log=True)
    suspect_blocks = screen.suspect_log_blocks(order, runs).union(screen.suspect_read_blocks(reads))
    blocks = keep(suspect_blocks.select(*BLOCK, screen.block_key().alias("near")).distinct())
    many = max(suspects[0], blocks.count()) > MOST_BROADCAST
    keys = identities.select("key", F.lit(True).alias("suspect"))

    def picked_sent(table: DataFrame) -> DataFrame:
        if many:
            return table
        return keep(table.withColumn("key", screen.identity_key()).join(F.broadcast(keys), "key", "left_semi"))

    def picked(table: DataFrame) -> DataFrame:
        """The rows of suspect identities (`suspect`) or of suspect blocks (`near`), found in one pass."""
        keyed = table.withColumn("key", screen.identity_key())
        if many:
            return keyed.withColumn("suspect", F.lit(True)).withColumn("near", F.lit(True))
        keyed = keyed.withColumn("lane_key", screen.lane_key()).withColumn("block", screen.offset_block())
        keyed = keyed.withColumn("near_key", screen.block_key())
        near = F.broadcast(blocks.select(F.col("near").alias("near_key"), F.lit(True).alias("near")))
        joined = keyed.join(F.broadcast(keys), "key", "left").join(near, "near_key", "left")
        return joined.where(F.col("suspect").isNotNull() | F.col("near").isNotNull()).drop("lane_key", "block")

    some_sent, some_log, some_reads = picked_sent(frames.produced), keep(picked(log)), keep(picked(frames.consumed))
    few = some_sent.count() + some_log.count() + some_reads.count()
    evidence.tune(spark, few)
    seen = keep(history.sightings(some_sent, some_reads.where("suspect"), some_log.where("suspect"), ends))
    loose = keep(history.places_shown(seen.where(~F.col("in_log"))).select(*POSITION).distinct())
    near_log, near_reads = some_log.where("near"), some_reads.where("near")
    unknown = keep(history.phantoms(seen))
    near_stored = history.genuine(near_log, unknown).select(*POSITION, "producer_id", "seq")
    shown = history.places_shown(seen).union(near_stored)
    if not many and not loose.isEmpty():
        # Only a place outside the log can be a second one for what the log holds there.
        evidence.tune(spark, sum(run.rows.values()))
        places = loose.select(screen.place_key().alias("place"))
        holders = keep(log.withColumn("place", screen.place_key()).join(F.broadcast(places), "place", "left_semi"))
        evidence.tune(spark, few)
        shown = shown.union(history.genuine(holders, unknown).select(*POSITION, "producer_id", "seq"))
    clean_runs = runs.join(F.broadcast(blocks), list(BLOCK), "left_anti").join(F.broadcast(lanes), "lane_key")
    scope = Scope(
        seen=seen,
        records=keep(history.records(seen)),
        shown=shown,
        stored=history.places_in_log(seen).union(near_stored),
        held=near_stored,
        polls=history.genuine(near_reads, unknown),
        consumed=near_reads,
        runs=clean_runs.select("lane", "partition", "first", "last").union(history.single_runs(near_log)),
    )
    return Survey(frames, facts, scope)
