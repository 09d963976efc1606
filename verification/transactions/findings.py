"""Finds the anomalies of transactions in a run, and says what consumers of transactional lanes are to be given.

Guarantee: the cases have the columns of CASES. Reads and committed records that agree, block by block, are never
compared one by one; as with replicas, agreement is equality of counts and of sums of 64-bit hashes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.transactions import READ_COMMITTED
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.schemas import CASES, IDENTITY, POSITION, schema
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.evidence import is_small
from kafka_chaos.verification.tables.facts import LaneFacts
from kafka_chaos.verification.tables.history import local_frame
from kafka_chaos.verification.tables.scope import MOST_BROADCAST, keep
from kafka_chaos.verification.transactions import anomalies
from kafka_chaos.verification.transactions.dependencies import Cycles
from kafka_chaos.verification.transactions.evidence import hangs
from kafka_chaos.verification.transactions.survey import Transactions, shown_committed
from kafka_chaos.verification.transactions.tables import ABORTED, TRANSACTION, Tables

_READER = ("lane", "consumer", "partition")

_RANGES = schema("lane string, consumer string, partition int32, lowest int64, highest int64")
_READERS = schema("lane string, consumer string")
_REACHED = schema("lane string, partition int32, committed_reached boolean, all_reached boolean")
_OPEN = schema("lane string, partition int32, offset int64, producer_id int32, seq int64, transaction int64")


def cases_of_transactions(
    spark: SparkSession, run: RunDirectory, transactions: Transactions, cycles: Callable[[], Cycles]
) -> tuple[DataFrame, Transactions]:
    """CASES of all transactional lanes; the transactions, with the lanes whose cycles were not searched.

    `cycles`: gives those of the transactions (`find_cycles`).
    """
    tables, small = transactions.tables, is_small(run)
    reads, parted = _suspicious(spark, transactions)
    looped = cycles()
    transactions = replace(transactions, facts=looped.facts)
    named = [
        anomalies.torn_transaction(tables.outlines, parted),
        anomalies.lost_transaction(tables.outlines),
        anomalies.zombie_commit(tables.outlines),
        anomalies.dependency_cycle(looped.rows, tables.outlines),
    ]
    by_records = keep(reduce(DataFrame.union, named), small=small)
    few = by_records.count() <= MOST_BROADCAST
    placed = _at_acknowledgement(by_records, transactions, few=few)
    found = [placed, anomalies.hanging_transaction(_hanging(spark, run, transactions))]
    if reads is not None:
        members, stored = _of_records(reads, transactions, small=small)
        found.append(anomalies.aborted_read(reads, members, stored, tables.outlines))
    cases = reduce(DataFrame.unionByName, found).withColumn("units", F.lit(1).cast("bigint"))
    return cases.select(*CASES.names), transactions


def _of_records(reads: DataFrame, transactions: Transactions, *, small: bool) -> tuple[DataFrame, DataFrame | None]:
    """The members and the rows of the log that are read; if these are few, without an exchange of all others."""
    members, stored = transactions.tables.members, transactions.tables.stored
    if stored is None or small or reads.count() > MOST_BROADCAST:
        return members, None if stored is None else stored.rows()
    who = reads.select(*IDENTITY).distinct()
    return members.join(F.broadcast(who), list(IDENTITY), "left_semi"), stored.rows(who)


def _at_acknowledgement(named: DataFrame, transactions: Transactions, *, few: bool) -> DataFrame:
    """The records that cases name, with the places at which they were acknowledged."""
    cases, who = named.drop("partition", "offset"), named.select(*IDENTITY).distinct()
    members, agreement = transactions.tables.members, transactions.agreement
    if few and agreement is not None:
        places = agreement.acknowledged(who)
        if agreement.doubts:
            doubtful = agreement.of_doubtful(members).join(F.broadcast(who), list(IDENTITY), "left_semi")
            places = places.union(doubtful.select(*IDENTITY, "partition", "offset"))
    else:
        places = members.select(*IDENTITY, "partition", "offset")
        places = places.join(F.broadcast(who) if few else who, list(IDENTITY), "left_semi")
    return cases.join(places, list(IDENTITY), "left")


def _hanging(spark: SparkSession, run: RunDirectory, transactions: Transactions) -> DataFrame:
    """Where the log ends within a transaction that is past its time-out."""
    rows = [
        (lane.lane, end.partition, end.offset, end.producer_id, end.seq, end.transaction)
        for lane in run.lanes
        if lane.lane in transactions.facts
        for end in transactions.facts[lane.lane].open_ends
        if hangs(run, lane, transactions.facts[lane.lane], end)
    ]
    return local_frame(spark, _OPEN, rows)


def _suspicious(spark: SparkSession, transactions: Transactions) -> tuple[DataFrame | None, DataFrame | None]:
    """The reads of read_committed consumers that may be of aborted records, and the transactions given in part.

    Without a final log, all their reads, and nothing is known of the others.
    """
    tables = transactions.tables
    if tables.stored is None:
        return tables.reads, None
    read = [one for one in transactions.ranges if one.isolation == READ_COMMITTED]
    if not read:
        return None, None
    rows = [(one.lane, one.consumer, one.partition, one.lowest, one.highest) for one in read]
    spans = F.broadcast(local_frame(spark, _RANGES, rows))

    def due_of(records: DataFrame | None) -> DataFrame:
        committed = transactions.committed(records)
        assert committed is not None
        due = committed.join(spans, ["lane", "partition"]).where("offset BETWEEN lowest AND highest")
        return due.select(*_READER, "offset", "producer_id", "seq")

    if transactions.doubtful is None:
        reads, due_here, reads_here = tables.reads, due_of(None), tables.reads
    else:
        given = _in_doubt(transactions, transactions.doubtful)
        if given is None or transactions.doubtful.isEmpty():
            return given, None
        reads = given
        due_here, reads_here = _around(tables, transactions.doubtful, due_of)
    place = [*_READER, "offset"]
    missed = keep(due_here.join(reads_here.select(*place), place, "left_anti"))
    count = missed.count()
    if not count:
        return reads, None
    few = F.broadcast if count <= MOST_BROADCAST else lambda table: table
    return reads, keep(anomalies.given_in_part(missed, due_of, tables.reads, tables.members, few))


def _in_doubt(transactions: Transactions, doubtful: DataFrame) -> DataFrame | None:
    """The reads of read_committed consumers that may be of aborted records; None if there are none.

    Those in blocks in doubt, and those of transactions whose abort was acknowledged and that are committed all the
    same: these are no difference between the log and what was read.
    """
    tables, parts = transactions.tables, []
    if not doubtful.isEmpty():
        parts.append(blocks.within(tables.reads, doubtful, _READER))
    reversed_ = keep(tables.outlines.where(f"outcome = {ABORTED} AND committed > 0").select(*TRANSACTION))
    if not reversed_.isEmpty():
        records = tables.members.join(F.broadcast(reversed_), list(TRANSACTION), "left_semi").select(*IDENTITY)
        parts.append(tables.reads.join(F.broadcast(records), list(IDENTITY), "left_semi"))
    return keep(reduce(DataFrame.unionByName, parts).distinct()) if parts else None


def _around(
    tables: Tables, doubtful: DataFrame, due_of: Callable[[DataFrame], DataFrame]
) -> tuple[DataFrame, DataFrame]:
    """The records due to read_committed consumers in doubtful blocks, and their reads there."""
    assert tables.stored is not None
    assert tables.stored.log is not None
    places = doubtful.select("lane", "partition", "block").distinct()
    records = blocks.within(tables.stored.log, places, ("lane", "partition"))
    return blocks.within(due_of(records), doubtful, _READER), blocks.within(tables.reads, doubtful, _READER)


def unseen_in(
    spark: SparkSession, transactions: Transactions, facts: Mapping[str, LaneFacts], unseen: DataFrame, seen: DataFrame
) -> DataFrame:
    """CASES of `unseen` in transactional lanes: those of records that a consumer was to be given.

    A committed record, in a partition that some consumer read to its last committed record; any other one, if a
    read_uncommitted consumer read the partition to its end. `seen`: OCCURRENCES.
    """
    ends = [
        (lane, number, of.end_reached(final_log=True), of.uncommitted_end_reached)
        for lane in transactions.lanes
        for number, of in facts.get(lane, LaneFacts()).partitions.items()
        if number is not None
    ]
    reached = local_frame(spark, _REACHED, ends)
    places = seen.where("in_log").select(*IDENTITY, "partition", "offset")
    places = places.join(unseen.select(*IDENTITY), list(IDENTITY), "left_semi")
    committed = transactions.committed(places)
    if committed is None:
        due = places.withColumn("is_committed", F.lit(False))
    else:
        known = committed.select(*POSITION).distinct().withColumn("is_committed", F.lit(True))
        due = places.join(known, list(POSITION), "left")
    due = due.join(F.broadcast(reached), ["lane", "partition"])
    due = due.where("IF(coalesce(is_committed, false), committed_reached, all_reached)")
    first = due.groupBy(*IDENTITY).agg(F.expr("min(struct(partition, offset)) AS at"))
    return first.selectExpr(
        "lane",
        f"'{Anomaly.UNSEEN}' AS anomaly",
        "at.partition AS partition",
        "at.offset AS offset",
        "producer_id",
        "seq",
        "cast(NULL AS string) AS cause",
        "cast(1 AS bigint) AS units",
    )


def due_to(spark: SparkSession, transactions: Transactions, missed: DataFrame, *, has_log: bool) -> DataFrame:
    """Of the places that consumers stepped over (lane, consumer, POSITION, …), those that they were to be given.

    In a transactional lane, a consumer that is not known to be read_uncommitted is to be given committed records only.
    """
    is_transactional = F.col("lane").isin(list(transactions.lanes))
    of_transactions = missed.where(is_transactional)
    readers = F.broadcast(local_frame(spark, _READERS, transactions.uncommitted_readers))
    found = missed.where(~is_transactional).union(of_transactions.join(readers, ["lane", "consumer"], "left_semi"))
    if not transactions.has_fates and has_log:
        return found
    others = of_transactions.join(readers, ["lane", "consumer"], "left_anti")
    places = shown_committed(transactions, missed)
    return found.union(others.join(places, list(POSITION), "left_semi").select(*missed.columns))
