"""Prefilters a history by blocks of identities and offsets: for records in any order, but slower than by runs.

Guarantee: every case of the whole tables is among the selected rows (`prefilter.py`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.blocks import prefilter as prefilter
from kafka_chaos.verification.blocks.prefilter import BLOCK
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.run_length import encoding
from kafka_chaos.verification.run_length.stride import Stride
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import counts, evidence, history
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.refusals import require_unique_identities
from kafka_chaos.verification.tables.scope import Scope, Survey, keep

MOST_BROADCAST = 2_000_000
"""With more candidate blocks than this, selecting their rows costs more than examining all rows."""


def by_blocks(spark: SparkSession, run: RunDirectory, frames: Frames, log: DataFrame) -> Survey:
    """The prefilter first; then the rows of candidate identities, and of candidate offsets, each as whole blocks.

    Whole tables are read with compiled code, the selected rows with settings for their number.
    """
    identities = keep(prefilter.candidate_identities(frames.produced, frames.consumed, log))
    runs = keep(prefilter.log_runs(log))
    order = keep(prefilter.log_order(log))
    reads = keep(prefilter.read_order(frames.consumed, run.first_poll_ns))
    lanes = encoding.lanes_frame(spark, {lane.lane: Stride() for lane in run.lanes})
    facts = counts.prefiltered_facts(run, frames, runs, reads, lanes)
    candidates = identities.agg(F.count(F.lit(1)), F.max("repeated")).collect()[0]
    if candidates[1]:
        require_unique_identities(run, frames)
    ends = counts.ends(spark, facts, final_log=True)
    candidate_blocks = prefilter.candidate_log_blocks(order, runs).union(prefilter.candidate_read_blocks(reads))
    blocks = keep(candidate_blocks.select(*BLOCK, prefilter.block_key().alias("near")).distinct())
    many = max(candidates[0], blocks.count()) > MOST_BROADCAST
    keys = identities.select("key", F.lit(True).alias("candidate"))

    def picked_sent(table: DataFrame) -> DataFrame:
        if many:
            return table
        return keep(table.withColumn("key", prefilter.identity_key()).join(F.broadcast(keys), "key", "left_semi"))

    def picked(table: DataFrame) -> DataFrame:
        """The rows of candidate identities (`candidate`) or of candidate blocks (`near`), found in one pass."""
        keyed = table.withColumn("key", prefilter.identity_key())
        if many:
            return keyed.withColumn("candidate", F.lit(True)).withColumn("near", F.lit(True))
        keyed = keyed.withColumn("lane_key", prefilter.lane_key()).withColumn("block", prefilter.offset_block())
        keyed = keyed.withColumn("near_key", prefilter.block_key())
        near = F.broadcast(blocks.select(F.col("near").alias("near_key"), F.lit(True).alias("near")))
        joined = keyed.join(F.broadcast(keys), "key", "left").join(near, "near_key", "left")
        return joined.where(F.col("candidate").isNotNull() | F.col("near").isNotNull()).drop("lane_key", "block")

    some_sent, some_log, some_reads = picked_sent(frames.produced), keep(picked(log)), keep(picked(frames.consumed))
    few = some_sent.count() + some_log.count() + some_reads.count()
    evidence.tune(spark, few)
    seen = keep(history.occurrences(some_sent, some_reads.where("candidate"), some_log.where("candidate"), ends))
    facts = counts.with_doubled(seen, facts)
    loose = keep(history.places_shown(seen.where(~F.col("in_log"))).select(*POSITION).distinct())
    near_log, near_reads = some_log.where("near"), some_reads.where("near")
    unknown = keep(history.phantoms(seen))
    near_stored = history.genuine(near_log, unknown).select(*POSITION, "producer_id", "seq")
    shown = history.places_shown(seen).union(near_stored)
    if not many and not loose.isEmpty():
        # Only a place outside the log can differ from the record that the log holds there.
        evidence.tune(spark, run.rows)
        places = loose.select(prefilter.place_key().alias("place"))
        holders = keep(log.withColumn("place", prefilter.place_key()).join(F.broadcast(places), "place", "left_semi"))
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
