"""Every anomaly as a pure function from tables to its cases; the docstring is the specification.

Guarantee: each function returns CASES (`schemas.CASES`): one row per counted unit, `units` being 1, but for a
wide `offset_gap`; the sum of `units` is the anomaly's count. No function knows what was predicted.

"The log" is the final log; without one, what acknowledgements and reads show (SIGHTINGS.in_log). A phantom
still takes up its position, as the end of a partition or as a read, but is a case of nothing else.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.verification.history import FAIL, OK
from kafka_chaos.verification.schemas import CASES, POSITION

WIDEST_LISTED_GAP = 10_000
"""A hole of up to so many offsets has a findings row for each; a wider one has one row that tells its width."""


def _cases(
    rows: DataFrame,
    anomaly: Anomaly,
    place: Column | None = None,
    *,
    cause: Column | None = None,
    units: Column | None = None,
    anonymous: bool = False,
) -> DataFrame:
    """`rows` as CASES: at `place` (default: the columns partition and offset), with the identity's columns."""
    return rows.select(
        F.col("lane"),
        F.lit(anomaly.value).alias("anomaly"),
        (F.col("partition") if place is None else place["partition"]).alias("partition"),
        (F.col("offset") if place is None else place["offset"]).alias("offset"),
        (F.lit(None).cast("int") if anonymous else F.col("producer_id")).alias("producer_id"),
        (F.lit(None).cast("bigint") if anonymous else F.col("seq")).alias("seq"),
        (F.lit(None).cast("string") if cause is None else cause).alias("cause"),
        (F.lit(1) if units is None else units).cast("bigint").alias("units"),
    ).select(*CASES.names)


def lost_write(records: DataFrame, *, final_log: bool) -> DataFrame:
    """Outcome `ok`, not in the final log. Counted in identities.

    Without a final log: judged only where it has an offset and a record at or past that offset was read in
    its partition, and it was read by nobody. For acks=0, `ok` means handed to the socket.
    """
    if final_log:
        lost = F.col("first_in_log").isNull()
    else:
        lost = F.col("acknowledged_passed") & F.col("first_read").isNull()
    return _cases(records.where((F.col("outcome") == OK) & lost), Anomaly.LOST_WRITE, F.col("acknowledged_at"))


def duplicate(records: DataFrame) -> DataFrame:
    """One identity at two or more positions of the log. Counted in identities; the last position is named."""
    first, last = F.col("first_in_log"), F.col("last_in_log")
    return _cases(
        records.where(first != last),
        Anomaly.DUPLICATE,
        last,
        cause=F.format_string("first at partition %d, offset %d", first["partition"], first["offset"]),
    )


def false_failure(records: DataFrame) -> DataFrame:
    """Outcome `fail`, yet in the log or read. Counted in identities."""
    place = F.coalesce("first_in_log", "first_read")
    failed = records.where((F.col("outcome") == FAIL) & place.isNotNull())
    return _cases(failed, Anomaly.FALSE_FAILURE, place)


def phantom(sightings: DataFrame) -> DataFrame:
    """In the log or read, but never produced, or undecodable. Counted in (partition, offset).

    Where several are at one position, the row names the highest identity.
    """
    unknown = sightings.where(F.col("outcome").isNull())
    held = unknown.groupBy(*POSITION).agg(F.max(F.struct("producer_id", "seq")).alias("who"))
    return _cases(held.select(*POSITION, "who.*"), Anomaly.PHANTOM)


def inconsistent_offset(shown: DataFrame) -> DataFrame:
    """Two different identities at one (partition, offset), over acknowledgements, reads and log.

    `shown`: the places of produced records (`history.places_shown`): the offset of an `info` row counts only once
    its record was read or is in the log. Counted in (partition, offset); the row names the highest identity, its
    cause the lowest.
    """
    who = F.struct("producer_id", "seq")
    held = (
        shown.groupBy(*POSITION)
        .agg(F.min(who).alias("lowest"), F.max(who).alias("who"))
        .where(F.col("lowest") != F.col("who"))
    )
    other = F.format_string("also producer %d, seq %d", F.col("lowest.producer_id"), F.col("lowest.seq"))
    return _cases(held.select(*POSITION, "lowest", "who.*"), Anomaly.INCONSISTENT_OFFSET, cause=other)


def offset_mismatch(records: DataFrame) -> DataFrame:
    """Acknowledged at offset o, in the final log only at other offsets. Counted in identities."""
    first = F.col("first_in_log")
    moved = F.col("acknowledged_at").isNotNull() & first.isNotNull() & ~F.col("acknowledged_stored")
    return _cases(
        records.where(moved),
        Anomaly.OFFSET_MISMATCH,
        F.col("acknowledged_at"),
        cause=F.format_string("in the log at partition %d, offset %d", first["partition"], first["offset"]),
    )


def truncated_read(records: DataFrame) -> DataFrame:
    """A consumer read it, the final log lacks it. Counted in identities."""
    gone = F.col("first_read").isNotNull() & F.col("first_in_log").isNull()
    return _cases(records.where(gone), Anomaly.TRUNCATED_READ, F.col("first_read"))


def unseen(records: DataFrame, *, final_log: bool) -> DataFrame:
    """In the final log, delivered to no consumer, in a partition that some consumer read to the end.

    Without a final log: acknowledged past the highest offset read (the lane is then unknown, not violated).
    Counted in identities.
    """
    if final_log:
        place = F.col("due_at")
        missed = place.isNotNull()
    else:
        place = F.col("acknowledged_at")
        missed = place.isNotNull() & ~F.col("acknowledged_passed")
    return _cases(records.where(missed & F.col("first_read").isNull()), Anomaly.UNSEEN, place)


def reordered(stored: DataFrame, runs: DataFrame | None = None) -> DataFrame:
    """Per producer and partition: in offset order, first occurrences are not in `seq` order.

    `stored`: places of produced records in the log. `runs`: further ones, whose seqs ascend with their offsets, all of
    them first occurrences: lane, partition, producer_id, first, last (offsets), first_seq, last_seq. Counted in
    descents between neighbours; the row names the record after the descent.
    """
    chain = ("lane", "partition", "producer_id")
    order = Window.partitionBy(*chain).orderBy("first")
    offset, seq = F.min("offset").alias("first"), F.col("seq")
    first = stored.groupBy(*chain, "seq").agg(offset).select(*chain, "first", seq, seq.alias("last_seq"))
    if runs is not None:
        first = first.union(runs.select(*chain, "first", "first_seq", "last_seq"))
    steps = first.withColumn("previous", F.lag("last_seq").over(order)).withColumnRenamed("first", "offset")
    cause = F.format_string("after seq %d", F.col("previous"))
    return _cases(steps.where(seq < F.col("previous")), Anomaly.REORDERED, cause=cause)


def _in_poll_order(polls: DataFrame) -> DataFrame:
    """`polls` with the previous offset and the lowest earlier one, per consumer and partition."""
    order = Window.partitionBy("lane", "consumer", "partition").orderBy("poll_ns", "offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    return polls.withColumn("previous", F.lag("offset").over(order)).withColumn("lowest", F.min("offset").over(before))


def nonmonotonic_poll(polls: DataFrame) -> DataFrame:
    """One consumer's offsets in a partition, in `poll_ns` order, do not increase.

    `consumer` names one assignment: a rebalance or a seek starts a new name. Counted in neighbouring pairs;
    the row names the later read.
    """
    back = _in_poll_order(polls).where(F.col("offset") <= F.col("previous"))
    cause = F.format_string("%s read it after offset %d", F.col("consumer"), F.col("previous"))
    return _cases(back, Anomaly.NONMONOTONIC_POLL, cause=cause)


def skipped_poll(polls: DataFrame, consumed: DataFrame, held: DataFrame) -> DataFrame:
    """One consumer, after its first offset, steps over an offset that the log holds and never reads it.

    `held`: the places of produced records in the log; without a log: that an acknowledgement or another read
    shows. `consumed`: every read, phantoms included, since what was read was not stepped over. Counted in
    (partition, offset).
    """
    steps = (
        _in_poll_order(polls)
        .groupBy("lane", "consumer", "partition", "lowest")
        .agg(F.max("offset").alias("highest"))
        .where(F.col("highest") > F.col("lowest") + 1)
    )
    holder = F.max(F.struct("producer_id", "seq")).alias("who")
    due = held.groupBy(*POSITION).agg(holder).select(*POSITION, "who.*")
    within = (F.col("offset") > F.col("lowest")) & (F.col("offset") < F.col("highest"))
    delivered = consumed.select("lane", "consumer", "partition", "offset")
    missed = (
        due.join(F.broadcast(steps), ["lane", "partition"])
        .where(within)
        .join(delivered, ["lane", "consumer", "partition", "offset"], "left_anti")
    )
    first = F.min(F.struct("producer_id", "seq", "consumer")).alias("who")
    skipped = missed.groupBy(*POSITION).agg(first).select(*POSITION, "who.*")
    cause = F.format_string("stepped over by %s", F.col("consumer"))
    return _cases(skipped, Anomaly.SKIPPED_POLL, cause=cause)


def offset_gap(runs: DataFrame) -> DataFrame:
    """The final log of a lane without compaction, retention or transactions has a hole.

    `runs`: lane, partition, first, last: offsets that the log holds without a hole, single ones or more. Counted in
    missing offsets, between the log's first and last. A hole of up to `WIDEST_LISTED_GAP` offsets has one row for
    each of them; a wider one has one row at its first offset.
    """
    before = Window.partitionBy("lane", "partition").orderBy("first", "last").rowsBetween(Window.unboundedPreceding, -1)
    holes = (
        runs.select("lane", "partition", F.col("first").alias("next"), (F.max("last").over(before) + 1).alias("first"))
        .where(F.col("next") > F.col("first"))
        .withColumn("last", F.col("next") - 1)
        .withColumn("width", F.col("last") - F.col("first") + 1)
    )
    listed = F.col("width") <= WIDEST_LISTED_GAP
    missing = holes.select(
        "lane",
        "partition",
        "first",
        "last",
        F.when(listed, F.lit(1)).otherwise(F.col("width")).alias("units"),
        F.explode(F.sequence("first", F.when(listed, F.col("last")).otherwise(F.col("first")))).alias("offset"),
    )
    cause = F.format_string("hole from offset %d to %d", F.col("first"), F.col("last"))
    return _cases(missing, Anomaly.OFFSET_GAP, cause=cause, units=F.col("units"), anonymous=True)


def replica_divergence(replicas: DataFrame, bounds: DataFrame) -> DataFrame:
    """Below the lowest high watermark two replicas hold different records or leader epochs at one offset.

    `bounds`: lane, partition, high_watermark from checkpoints.json; a partition without one is bounded by the
    lowest log end offset of its replicas. Counted in (partition, offset).
    """
    ends = replicas.groupBy("lane", "partition", "broker").agg((F.max("offset") + 1).alias("log_end_offset"))
    lowest = ends.groupBy("lane", "partition").agg(F.min("log_end_offset").alias("log_end_offset"))
    limits = lowest.join(F.broadcast(bounds), ["lane", "partition"], "left").select(
        "lane", "partition", F.coalesce("high_watermark", "log_end_offset").alias("limit")
    )
    content = F.struct("leader_epoch", "producer_id", "seq")
    held = (
        replicas.join(F.broadcast(limits), ["lane", "partition"])
        .where(F.col("offset") < F.col("limit"))
        .groupBy(*POSITION)
        .agg(F.min(content).alias("a"), F.max(content).alias("b"))
        .where(F.col("a") != F.col("b"))
    )
    template = "epoch %d: producer %d, seq %d; epoch %d: producer %d, seq %d"
    fields = [F.col(f"{side}.{name}") for side in "ab" for name in ("leader_epoch", "producer_id", "seq")]
    named = held.select("*", F.col("b.producer_id").alias("producer_id"), F.col("b.seq").alias("seq"))
    return _cases(named, Anomaly.REPLICA_DIVERGENCE, cause=F.format_string(template, *fields))


def high_watermark_regression(reports: DataFrame) -> DataFrame:
    """A partition's leader reported a lower high watermark than before within one leader epoch.

    `reports`: HIGH_WATERMARKS, compared in the order of `ts_ns`. Counted in reports; the row's offset is the
    high watermark reported.
    """
    order = Window.partitionBy("lane", "partition", "leader_epoch").orderBy("ts_ns")
    lower = (
        reports.withColumn("previous", F.lag("high_watermark").over(order))
        .where(F.col("high_watermark") < F.col("previous"))
        .withColumn("offset", F.col("high_watermark"))
    )
    cause = F.format_string("leader epoch %d, before: %d", F.col("leader_epoch"), F.col("previous"))
    return _cases(lower, Anomaly.HIGH_WATERMARK_REGRESSION, cause=cause, anonymous=True)


def with_leader_epochs(cases: DataFrame, epochs: DataFrame) -> DataFrame:
    """CASES in which a lost record's cause tells the leader epoch that its offset belongs to in the end.

    `epochs`: lane, partition, epoch, start_offset, end_offset (exclusive, null for the last).
    """
    covered = (
        (F.col("offset") >= F.col("start_offset"))
        & (F.col("end_offset").isNull() | (F.col("offset") < F.col("end_offset")))
        & F.col("anomaly").isin(Anomaly.LOST_WRITE.value, Anomaly.TRUNCATED_READ.value)
    )
    text = F.format_string("offset %d is of leader epoch %d, which began at %d", "offset", "epoch", "start_offset")
    chain = F.broadcast(epochs.withColumnRenamed("lane", "of_lane").withColumnRenamed("partition", "of_partition"))
    same = (F.col("lane") == F.col("of_lane")) & (F.col("partition") == F.col("of_partition"))
    joined = cases.join(chain, same & covered, "left")
    known = F.when(F.col("epoch").isNotNull(), text)
    return joined.withColumn("cause", F.coalesce("cause", known)).select(*CASES.names)
