"""Prefilters a history by agreement: what produced/, the log and consumers agree on is not examined row by row.

Guarantee: everything outside the scope is proven to hold no case, unless two different contents of a block have the
same number of rows and the same sum of 64-bit hashes. The scope has all rows of the identities in doubt.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.agreement.pieces import Agreement, facts_rows, words_of
from kafka_chaos.verification.agreement.reads import (
    BLOCK,
    READER,
    Span,
    differing,
    due_blocks,
    held_blocks,
    out_of_order,
)
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import IDENTITY, POSITION, schema
from kafka_chaos.verification.tables import blocks, counts, history
from kafka_chaos.verification.tables.evidence import Frames
from kafka_chaos.verification.tables.facts import LaneFacts
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, Scope, Survey, keep, keys

_NEEDS = schema("lane string, partition int32, all_due boolean")


@dataclass(frozen=True, slots=True)
class Given:
    """The facts about the transactional `lanes`.

    `committed`: what is committed of blocks (BLOCK, n, content, first, last), None: unknown. `descents`: where the
    log's seqs may descend: lane, partition; None: unknown. `uncommitted_readers`: lane and name of the consumers that
    are given everything.
    """

    lanes: tuple[str, ...] = ()
    committed: DataFrame | None = None
    descents: DataFrame | None = None
    uncommitted_readers: Collection[tuple[str, str]] = ()

    def is_given_all(self, lane: str, consumer: str) -> bool:
        """Whether a consumer is to be given what is not committed."""
        return lane not in self.lanes or self.committed is None or (lane, consumer) in self.uncommitted_readers


def by_blocks(
    spark: SparkSession, run: RunDirectory, frames: Frames, log: DataFrame, agreement: Agreement, given: Given
) -> Survey:
    """The survey of a run with a final log."""
    facts = counts.facts_of(run, frames, facts_rows(agreement))
    spans = _spans(agreement.reads, given)
    sums = held_blocks(agreement.log, given.committed)
    due = due_blocks(spark, spans, sums)
    doubtful = differing(agreement.reads, due)
    unread = keep(_unread(spark, facts, due, doubtful, agreement, given))
    readers = keep(doubtful.select(*READER).union(out_of_order(agreement.reads)).distinct())
    agreement = _doubting(agreement, frames, log, doubtful, unread)
    markers = history.single_runs(log.limit(0) if frames.markers is None else frames.markers)
    runs = history.joined_runs(markers, agreement.log, all_single=True)
    scope = Scope(runs=runs, doubtful=doubtful, sums=sums)
    if agreement.doubts or not readers.isEmpty():
        facts, scope = _examined(spark, frames, log, facts, agreement, scope, readers)
    return Survey(frames, facts, _with_order(run, scope, agreement, given))


def _spans(reads: DataFrame, given: Given) -> list[Span]:
    found = reads.groupBy(*READER).agg(F.min("first").alias("lowest"), F.max("last").alias("highest")).collect()
    return [
        Span(row.lane, row.consumer, row.partition, row.lowest, row.highest, given.is_given_all(row.lane, row.consumer))
        for row in found
    ]


def _unread(
    spark: SparkSession,
    facts: Mapping[str, LaneFacts],
    due: DataFrame,
    doubtful: DataFrame,
    agreement: Agreement,
    given: Given,
) -> DataFrame:
    """The BLOCKs of partitions that were read to their end in which a record that somebody was due may be unread.

    One consumer of everything that read a block as it is proves the opposite; where no such consumer reached the end,
    one that read what is committed does, too.
    """
    needs = [
        (lane, number, lane not in given.lanes or of.uncommitted_end_reached)
        for lane, of_lane in facts.items()
        for number, of in of_lane.partitions.items()
        if number is not None
        and (of.end_reached(final_log=True) or (lane in given.lanes and of.uncommitted_end_reached))
    ]
    read = due.where("NOT odd").join(doubtful, [*READER, "block"], "left_anti")
    covered = read.groupBy(*BLOCK).agg(
        F.expr("max(is_given_all) AS all_read"), F.expr("max(NOT is_given_all) AS committed_read")
    )
    held = agreement.log.select(*BLOCK).distinct().join(covered, list(BLOCK), "left")
    wanted = held.join(F.broadcast(history.local_frame(spark, _NEEDS, needs)), ["lane", "partition"])
    return wanted.where("NOT coalesce(all_read OR (committed_read AND NOT all_due), false)").select(*BLOCK)


def _doubting(
    agreement: Agreement, frames: Frames, log: DataFrame, doubtful: DataFrame, unread: DataFrame
) -> Agreement:
    """The agreement, in doubt also of what is in these blocks."""
    places = keep(doubtful.select(*BLOCK).union(unread).distinct())
    count = places.count()
    if not count:
        return agreement
    few = keys(places, few=count <= MOST_BROADCAST)
    held = log.selectExpr("*", blocks.block_of()).join(few, list(BLOCK), "left_semi")
    read = blocks.within(frames.consumed, doubtful, READER)
    return agreement.doubting(words_of(held.select(*IDENTITY).union(read.select(*IDENTITY))))


def _examined(
    spark: SparkSession,
    frames: Frames,
    log: DataFrame,
    facts: dict[str, LaneFacts],
    agreement: Agreement,
    scope: Scope,
    readers: DataFrame,
) -> tuple[dict[str, LaneFacts], Scope]:
    """The facts and the scope with the rows in doubt."""
    produced, consumed, held = (agreement.of_doubtful(table) for table in (frames.produced, frames.consumed, log))
    ends = counts.ends(spark, facts, final_log=True)
    seen = keep(history.occurrences(produced, consumed, held, ends))
    facts = counts.with_doubled(seen, facts)
    # A place outside the log may be one at which the log holds another record.
    outside = keep(history.places_shown(seen.where("NOT in_log")).select(*POSITION).distinct())
    others = agreement.others(
        log.join(keys(outside, few=outside.count() <= MOST_BROADCAST), list(POSITION), "left_semi")
    )
    scope = replace(
        scope,
        seen=seen,
        records=keep(history.records(seen)),
        shown=history.places_shown(seen).union(others.select(*POSITION, "producer_id", "seq")),
        stored=history.places_in_log(seen),
    )
    if readers.isEmpty():
        return facts, scope
    reads = keep(frames.consumed.join(F.broadcast(readers), list(READER), "left_semi"))
    polls = history.genuine(reads, history.phantoms(seen))
    return facts, replace(scope, consumed=reads, polls=polls, held=scope.stored)


def _with_order(run: RunDirectory, scope: Scope, agreement: Agreement, given: Given) -> Scope:
    """The scope with what is to be examined for the order of the log."""
    pieces = agreement.agreed.where("placed")
    if given.descents is not None:
        partitions = keep(given.descents.distinct())
        others = [lane.lane for lane in run.lanes if lane.lane not in given.lanes]
        if not others and partitions.isEmpty():
            return replace(scope, stored=None)
        descending = pieces.join(F.broadcast(partitions), ["lane", "partition"], "left_semi")
        pieces = descending.unionByName(pieces.where(F.col("lane").isin(others)))
    columns = ("lane", "partition", "producer_id", "first", "last", "first_seq", "last_seq")
    stored = scope.stored
    if stored is None:
        stored = pieces.limit(0).selectExpr("lane", "partition", "first AS offset", "producer_id", "first_seq AS seq")
    return replace(scope, stored=stored, ascending=pieces.select(*columns))
