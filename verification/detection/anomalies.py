"""Every anomaly as a pure function from tables to its cases; the docstring is the specification.

Guarantee: each function returns CASES (`schemas.CASES`): one row per counted unit. `units` is 1, except for a wide
`offset_gap`; the sum of `units` is the anomaly's count. No function knows what was predicted.

"The log" is the final log; without one, what acknowledgements and reads show (OCCURRENCES.in_log). A phantom
still occupies its position, as the end of a partition or as a read, but counts as no other anomaly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.anomalies import WIDEST_LISTED_GAP, Anomaly
from kafka_chaos.contract.lane.transactions import DATA
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables.blocks import within
from kafka_chaos.verification.tables.history import FAIL, OK
from kafka_chaos.verification.tables.scope import keys

WHO = "struct(producer_id, seq)"


def _cases(
    rows: DataFrame,
    anomaly: Anomaly,
    place: str | None = None,
    *,
    cause: str = "cast(NULL AS string)",
    units: str = "1",
    anonymous: bool = False,
) -> DataFrame:
    """`rows` as CASES: at `place` (default: the columns partition and offset), with the identity's columns.

    `place`, `cause` and `units` are SQL text.
    """
    at = "" if place is None else f"{place}."
    return rows.selectExpr(
        "lane",
        f"'{anomaly.value}' AS anomaly",
        f"{at}partition AS partition",
        f"{at}offset AS offset",
        "cast(NULL AS int) AS producer_id" if anonymous else "producer_id",
        "cast(NULL AS bigint) AS seq" if anonymous else "seq",
        f"{cause} AS cause",
        f"cast({units} AS bigint) AS units",
    )


def lost_write(records: DataFrame, final_log: bool) -> DataFrame:
    """Outcome `ok`, not in the final log. Counted in identities.

    Without a final log: it has an offset, a record at or past that offset was read in its partition, and nobody read
    it. For acks=0, `ok` means handed to the socket.
    """
    lost = "first_in_log IS NULL" if final_log else "acknowledged_passed AND first_read IS NULL"
    return _cases(records.where(f"outcome = {OK} AND {lost}"), Anomaly.LOST_WRITE, "acknowledged_at")


def duplicate(records: DataFrame) -> DataFrame:
    """One identity at two or more positions of the log. Counted in identities; the last position is named."""
    cause = "format_string('first at partition %d, offset %d', first_in_log.partition, first_in_log.offset)"
    return _cases(records.where("first_in_log != last_in_log"), Anomaly.DUPLICATE, "last_in_log", cause=cause)


def false_failure(records: DataFrame) -> DataFrame:
    """Outcome `fail`, yet in the log or read. Counted in identities."""
    place = "coalesce(first_in_log, first_read)"
    return _cases(records.where(f"outcome = {FAIL} AND {place} IS NOT NULL"), Anomaly.FALSE_FAILURE, place)


def phantom(occurrences: DataFrame) -> DataFrame:
    """In the log or read, but never produced, or undecodable. Counted in (partition, offset).

    If a position has several, the row names the highest identity.
    """
    held = occurrences.where("outcome IS NULL").groupBy(*POSITION).agg(F.expr(f"max({WHO}) AS who"))
    return _cases(held.select(*POSITION, "who.*"), Anomaly.PHANTOM)


def inconsistent_offset(shown: DataFrame) -> DataFrame:
    """Two different identities at one (partition, offset), over acknowledgements, reads and log.

    `shown`: the places of produced records (`history.places_shown`): the offset of an `info` row counts only once
    its record was read or is in the log. Counted in (partition, offset); the row names the highest identity, its
    cause the lowest.
    """
    held = shown.groupBy(*POSITION).agg(F.expr(f"min({WHO}) AS lowest"), F.expr(f"max({WHO}) AS who"))
    several = held.where("lowest != who").select(*POSITION, "lowest", "who.*")
    cause = "format_string('also producer %d, seq %d', lowest.producer_id, lowest.seq)"
    return _cases(several, Anomaly.INCONSISTENT_OFFSET, cause=cause)


def offset_mismatch(records: DataFrame) -> DataFrame:
    """Acknowledged at offset o, in the final log only at other offsets. Counted in identities."""
    moved = records.where("acknowledged_at IS NOT NULL AND first_in_log IS NOT NULL AND NOT acknowledged_stored")
    cause = "format_string('in the log at partition %d, offset %d', first_in_log.partition, first_in_log.offset)"
    return _cases(moved, Anomaly.OFFSET_MISMATCH, "acknowledged_at", cause=cause)


def truncated_read(records: DataFrame) -> DataFrame:
    """A consumer read it, the final log lacks it. Counted in identities."""
    gone = records.where("first_read IS NOT NULL AND first_in_log IS NULL")
    return _cases(gone, Anomaly.TRUNCATED_READ, "first_read")


def unseen(records: DataFrame, final_log: bool) -> DataFrame:
    """In the final log, delivered to no consumer, in a partition that some consumer read to the end.

    Without a final log: acknowledged past the highest offset read (the lane is then unknown, not violated).
    In a transactional lane, committed records are due to all consumers, and others to read_uncommitted ones. Counted in
    identities.
    """
    if final_log:
        place, missed = "due_at", "due_at IS NOT NULL"
    else:
        place, missed = "acknowledged_at", "acknowledged_at IS NOT NULL AND NOT acknowledged_passed"
    return _cases(records.where(f"{missed} AND first_read IS NULL"), Anomaly.UNSEEN, place)


def reordered(stored: DataFrame, runs: DataFrame | None = None) -> DataFrame:
    """Per producer and partition: in offset order, first occurrences are not in `seq` order.

    `stored`: places of produced records in the log. `runs`: more places, all of them first occurrences, whose seqs
    ascend with their offsets: lane, partition, producer_id, first, last (offsets), first_seq, last_seq. Counted in
    descents between neighbours; the row names the record after the descent.
    """
    chain = ("lane", "partition", "producer_id")
    first = stored.groupBy(*chain, "seq").agg(F.expr("min(offset) AS offset"))
    pieces = first.selectExpr(*chain, "offset", "seq", "seq AS last_seq")
    if runs is not None:
        pieces = pieces.union(runs.select(*chain, "first", "first_seq", "last_seq"))
    # Several records at one offset count in seq order.
    order = f"PARTITION BY {', '.join(chain)} ORDER BY offset, seq"
    steps = pieces.selectExpr(*chain, "offset", "seq", f"lag(last_seq) OVER ({order}) AS previous")
    cause = "format_string('after seq %d', previous)"
    return _cases(steps.where("seq < previous"), Anomaly.REORDERED, cause=cause)


def _in_poll_order(polls: DataFrame) -> DataFrame:
    """`polls` with the previous offset and the lowest earlier one, per consumer and partition."""
    # Several records at one offset count in the order of identities.
    order = "PARTITION BY lane, consumer, partition ORDER BY poll_ns, offset, producer_id, seq"
    before = f"{order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return polls.selectExpr("*", f"lag(offset) OVER ({order}) AS previous", f"min(offset) OVER ({before}) AS lowest")


def nonmonotonic_poll(polls: DataFrame) -> DataFrame:
    """One consumer's offsets in a partition, in `poll_ns` order, do not increase.

    `consumer` names one assignment: a rebalance or a seek starts a new name. Counted in neighbouring pairs;
    the row names the later read.
    """
    back = _in_poll_order(polls).where("offset <= previous")
    cause = "format_string('%s read it after offset %d', consumer, previous)"
    return _cases(back, Anomaly.NONMONOTONIC_POLL, cause=cause)


def stepped_over(
    polls: DataFrame, consumed: DataFrame, held: DataFrame, *, doubtful: DataFrame | None = None
) -> DataFrame:
    """The places that a consumer, after its first offset, steps over and never reads: lane, consumer, POSITION, who.

    `held`: the places of produced records in the log; without a log: that an acknowledgement or another read
    shows. `consumed`: every read, phantoms included, since an offset that was read was not stepped over.
    `doubtful`: the only blocks that matter (`Scope.doubtful`), by lane, consumer and partition; None: all.
    """
    reader = ("lane", "consumer", "partition")
    if doubtful is not None:
        polls = polls.join(F.broadcast(doubtful.select(*reader).distinct()), list(reader), "left_semi")
    steps = (
        _in_poll_order(polls)
        .groupBy("lane", "consumer", "partition", "lowest")
        .agg(F.expr("max(offset) AS highest"))
        .where("highest > lowest + 1")
    )
    delivered = consumed.select(*reader, "offset")
    due = held.join(F.broadcast(steps), ["lane", "partition"]).where("offset > lowest AND offset < highest")
    if doubtful is not None:
        due, delivered = (within(rows, doubtful, reader) for rows in (due, delivered))
    missed = due.join(delivered, [*reader, "offset"], "left_anti")
    who = missed.groupBy(*reader, "offset").agg(F.expr(f"max({WHO}) AS who"))
    return who.select(*reader, "offset", "who.*")


def there_when_passed(missed: DataFrame, polls: DataFrame, produced: DataFrame, *, few: bool, small: bool) -> DataFrame:
    """Of the places that a consumer stepped over, those whose record had been sent when it read past them.

    A record that was sent later stands there since the log was replaced. `few`, `small`: of MISSED, see `scope.keys`.
    """
    reader = ["lane", "consumer", "partition"]
    of_readers = polls.join(keys(missed.select(*reader).distinct(), few=few, small=small), reader, "left_semi")
    steps = _in_poll_order(of_readers).where("offset > previous + 1").select(*reader, "offset", "poll_ns")
    beyond = (
        "PARTITION BY lane, consumer, partition ORDER BY offset DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    )
    passed = missed.unionByName(steps, allowMissingColumns=True).selectExpr(
        "*", f"min(poll_ns) OVER ({beyond}) AS passed_ns"
    )
    sent = produced.select("lane", "producer_id", "seq", "invoke_ns")
    timed = sent.join(keys(passed.where("poll_ns IS NULL"), few=few, small=small), ["lane", "producer_id", "seq"])
    return timed.where("invoke_ns <= passed_ns").select(*missed.columns)


def skipped_poll(missed: DataFrame) -> DataFrame:
    """One consumer, after its first offset, steps over an offset that the log holds and never reads it.

    `missed`: what is `stepped_over` and was `there_when_passed`; in transactional lanes only what the consumer was to
    be given. Counted in (partition, offset).
    """
    first = F.expr("min(struct(producer_id, seq, consumer)) AS who")
    skipped = missed.groupBy(*POSITION).agg(first).select(*POSITION, "who.*")
    cause = "format_string('stepped over by %s', consumer)"
    return _cases(skipped, Anomaly.SKIPPED_POLL, cause=cause)


def offset_gap(runs: DataFrame) -> DataFrame:
    """The final log of a lane without compaction and retention has a hole.

    `runs`: lane, partition, first, last: ranges of offsets that records, or the markers of transactions, take without a
    hole. Counted in missing offsets, between the log's first and last. A hole of up to `WIDEST_LISTED_GAP` offsets has
    one row for each of them; a wider one has one row at its first offset.
    """
    before = "PARTITION BY lane, partition ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    holes = (
        runs.selectExpr("lane", "partition", "first AS next", f"max(last) OVER ({before}) + 1 AS first")
        .where("next > first")
        .selectExpr("lane", "partition", "first", "next - 1 AS last", "next - first AS width")
    )
    listed = f"width <= {WIDEST_LISTED_GAP}"
    missing = holes.selectExpr(
        "*", f"IF({listed}, 1, width) AS units", f"explode(sequence(first, IF({listed}, last, first))) AS offset"
    )
    cause = "format_string('hole from offset %d to %d', first, last)"
    return _cases(missing, Anomaly.OFFSET_GAP, cause=cause, units="units", anonymous=True)


def replica_divergence(replicas: DataFrame, limits: DataFrame) -> DataFrame:
    """Below the lowest high watermark two replicas hold different records, markers or leader epochs at one offset.

    `limits`: lane, partition, limit: the lowest high watermark of the partition, without any the lowest log end
    offset. Counted in (partition, offset).
    """
    content = f"struct(leader_epoch, producer_id, seq, coalesce(kind, '{DATA}') AS kind)"
    held = (
        replicas.join(F.broadcast(limits), ["lane", "partition"])
        .where("offset < limit")
        .groupBy(*POSITION)
        .agg(F.expr(f"min({content}) AS a"), F.expr(f"max({content}) AS b"))
        .where("a != b")
        .selectExpr("*", "b.producer_id AS producer_id", "b.seq AS seq")
    )
    fields = ", ".join(f"{side}.{name}" for side in "ab" for name in ("leader_epoch", "kind", "producer_id", "seq"))
    template = "epoch %d: %s of producer %d, seq %d; epoch %d: %s of producer %d, seq %d"
    return _cases(held, Anomaly.REPLICA_DIVERGENCE, cause=f"format_string('{template}', {fields})")


def high_watermark_regression(reports: DataFrame) -> DataFrame:
    """A partition's leader reported a lower high watermark than before within one leader epoch.

    `reports`: HIGH_WATERMARKS, compared in the order of `ts_ns`. Counted in reports; the row's offset is the
    high watermark reported.
    """
    order = "PARTITION BY lane, partition, leader_epoch ORDER BY ts_ns"
    lower = (
        reports.selectExpr("*", f"lag(high_watermark) OVER ({order}) AS previous")
        .where("high_watermark < previous")
        .selectExpr("*", "high_watermark AS offset")
    )
    cause = "format_string('leader epoch %d, before: %d', leader_epoch, previous)"
    return _cases(lower, Anomaly.HIGH_WATERMARK_REGRESSION, cause=cause, anonymous=True)


@dataclass(frozen=True, slots=True)
class Finder:
    """How an anomaly is found: by which function, from which `tables` (`findings.find`; not without the first one).

    `problems`: a prefilter that finds none of them (`Scope.absent`) has proven that there is no case.
    """

    cases: Callable[..., DataFrame]
    tables: tuple[str, ...]
    problems: tuple[str, ...] = ()


FINDERS: Mapping[Anomaly, Finder] = {
    Anomaly.LOST_WRITE: Finder(lost_write, ("records", "final_log"), ("lost",)),
    Anomaly.DUPLICATE: Finder(duplicate, ("records",), ("copied",)),
    Anomaly.FALSE_FAILURE: Finder(false_failure, ("records",), ("denied",)),
    Anomaly.PHANTOM: Finder(phantom, ("seen",), ("denied",)),
    # Two records share a place only if the log has two there, or if it lacks one where that was shown.
    Anomaly.INCONSISTENT_OFFSET: Finder(inconsistent_offset, ("shown",), ("loose", "overlaps")),
    Anomaly.OFFSET_MISMATCH: Finder(offset_mismatch, ("records",), ("loose",)),
    Anomaly.TRUNCATED_READ: Finder(truncated_read, ("records",), ("truncated",)),
    Anomaly.UNSEEN: Finder(unseen, ("records", "final_log"), ("unread",)),
    Anomaly.REORDERED: Finder(reordered, ("stored", "ascending")),
    Anomaly.NONMONOTONIC_POLL: Finder(nonmonotonic_poll, ("polls",)),
    Anomaly.SKIPPED_POLL: Finder(skipped_poll, ("missed",)),
    Anomaly.OFFSET_GAP: Finder(offset_gap, ("runs",)),
    Anomaly.REPLICA_DIVERGENCE: Finder(replica_divergence, ("replicas", "limits")),
    Anomaly.HIGH_WATERMARK_REGRESSION: Finder(high_watermark_regression, ("reports",)),
}
