"""Every anomaly of transactions as a pure function from tables to its cases; the docstring is the specification.

Guarantee: each function returns NAMED: lane, anomaly, producer_id, seq, partition, offset, cause: one row per counted
unit. No function knows what was predicted. The tables are those of `tables.py`.

A record is committed if, in the final log, the next marker after it of its producer's transactional id is a commit.
Kafka lets that marker decide what read_committed consumers are given, whatever the producer learned.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.tables.blocks import lane_key
from kafka_chaos.verification.tables.scope import keys
from kafka_chaos.verification.transactions.stored import BY_ABORT, BY_COMMIT
from kafka_chaos.verification.transactions.tables import ABORTED, COMMITTED, TRANSACTION

READER = ("lane", "consumer")
NO_PLACE = ("cast(NULL AS int) AS partition", "cast(NULL AS bigint) AS offset")


def _named(
    rows: DataFrame, anomaly: TransactionAnomaly, seq: str, cause: str, place: tuple[str, str] = NO_PLACE
) -> DataFrame:
    return rows.selectExpr(
        "lane", f"'{anomaly}' AS anomaly", "producer_id", f"{seq} AS seq", *place, f"{cause} AS cause"
    )


def aborted_read(reads: DataFrame, members: DataFrame, stored: DataFrame | None, outlines: DataFrame) -> DataFrame:
    """A read_committed consumer was given a record of an aborted transaction. Counted in identities.

    Aborted is what the producer knows to be aborted, and what stands before an abort marker in the log where the
    consumer read it. `reads`: of read_committed consumers. The row names the lowest place where it was read.
    """
    of_reads = reads.join(members.select(*IDENTITY, "transaction"), list(IDENTITY))
    ended = outlines.select(*TRANSACTION, "outcome")
    given = of_reads.join(ended, list(TRANSACTION), "left")
    aborted = f"outcome = {ABORTED}"
    if stored is not None:
        here = (*POSITION, "producer_id", "seq")
        given = given.join(stored.where(f"fate = {BY_ABORT}").select(*here, "fate").distinct(), list(here), "left")
        aborted += f" OR fate = {BY_ABORT}"
    first = given.where(aborted).groupBy(*IDENTITY, "transaction")
    found = first.agg(F.expr("min(struct(partition, offset, consumer)) AS at"))
    cause = "format_string('transaction %d, read by %s', transaction, at.consumer)"
    place = ("at.partition AS partition", "at.offset AS offset")
    return _named(found, TransactionAnomaly.ABORTED_READ, "seq", cause, place)


def torn_transaction(outlines: DataFrame, given_in_part: DataFrame | None) -> DataFrame:
    """Of a transaction some records are committed and others are not, or a reader was given some and not all.

    One that the producer knows to be aborted is never torn. The first half: of the records that the producer sent, at
    least one is committed and at least one is not, be it aborted, open or absent from the log. Records whose outcome is
    `fail` don't count: they were certainly not written. The second half: `given_in_part`. Counted in transactions; the
    row names the first record that is not committed, or was not given.
    """
    torn = outlines.where(f"outcome != {ABORTED} AND committed > 0 AND committed < sent")
    cause = "format_string('transaction %d: %d of %d records are committed', transaction, committed, sent)"
    found = _named(torn, TransactionAnomaly.TORN_TRANSACTION, "first_lacking", cause)
    if given_in_part is None:
        return found
    others = outlines.where(f"outcome != {ABORTED} AND NOT (committed > 0 AND committed < sent)").select(*TRANSACTION)
    rest = given_in_part.join(others, list(TRANSACTION), "left_semi")
    cause = "format_string('transaction %d: given in part to %s', transaction, consumer)"
    return found.union(_named(rest, TransactionAnomaly.TORN_TRANSACTION, "seq", cause))


def given_in_part(
    missed: DataFrame,
    due_of: Callable[[DataFrame], DataFrame],
    reads: DataFrame,
    members: DataFrame,
    few: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """The transactions of which a read_committed consumer was given some records and passed others by.

    `due_of`: of records, the committed places between the lowest and the highest offset that a consumer read in their
    partition: READER, partition, offset, producer_id, seq; `missed`: those that it was not given. TRANSACTION, seq,
    consumer: the first record that was not given, and to whom. `few`: marks tables that are as small as `missed`.
    """
    sent = members.where("sent").select(*IDENTITY, "transaction")
    lacking = sent.join(few(missed), list(IDENTITY)).select(*READER, "producer_id", "transaction", "seq")
    doubtful = lacking.select(*READER, "producer_id", "transaction").distinct()
    records = sent.join(few(doubtful), list(TRANSACTION))
    places = due_of(records).join(few(records), [*READER, "producer_id", "seq"])
    given = (
        reads.select(*READER, "partition", "offset")
        .join(
            few(places.select(*READER, "partition", "offset", "producer_id", "transaction")),
            [*READER, "partition", "offset"],
        )
        .select(*READER, "producer_id", "transaction")
        .distinct()
    )
    torn = lacking.join(given, [*READER, "producer_id", "transaction"], "left_semi")
    first = torn.groupBy(*TRANSACTION).agg(F.expr("min(struct(seq, consumer)) AS first"))
    return first.select(*TRANSACTION, "first.*")


def lost_transaction(outlines: DataFrame) -> DataFrame:
    """The commit was acknowledged, and no record of the transaction is committed in the final log.

    Counted in transactions that sent a record; the row names their first one. A transaction whose outcome the producer
    does not know is never lost.
    """
    lost = outlines.where(f"outcome = {COMMITTED} AND sent > 0 AND committed = 0")
    cause = "format_string('transaction %d of %d records', transaction, sent)"
    return _named(lost, TransactionAnomaly.LOST_TRANSACTION, "first_sent", cause)


def zombie_commit(outlines: DataFrame) -> DataFrame:
    """Two commits succeeded for overlapping incarnations of one transactional id.

    An incarnation that is initialised fences those before it. So what they send afterwards can't be committed: the
    commit of a transaction of which the producer sent a record when a later incarnation was initialised already. Both
    have acknowledged commits that contain records: an empty transaction never reaches the coordinator. Counted in
    transactions of the earlier incarnation; the row names their first record.
    """
    commits = outlines.where(f"outcome = {COMMITTED} AND sent > 0")
    incarnations = commits.select("lane", "writer", "producer_id", "initialised_ns").distinct()
    order = "PARTITION BY lane, writer ORDER BY initialised_ns"
    later = f"OVER ({order} RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
    fenced = incarnations.selectExpr("lane", "producer_id", f"min(initialised_ns) {later} AS fenced_ns")
    found = commits.join(F.broadcast(fenced), ["lane", "producer_id"]).where("sent_ns > fenced_ns")
    cause = "format_string('transaction %d was sent after a later incarnation was initialised', transaction)"
    return _named(found, TransactionAnomaly.ZOMBIE_COMMIT, "first_sent", cause)


def open_ends(units: DataFrame, outlines: DataFrame, *, small: bool) -> DataFrame:
    """The first record of each partition that is in an open transaction: what holds the last stable offset back.

    POSITION, producer_id, seq, transaction, last_ns: when its producer last heard of a record of the transaction. One
    row per partition. `units`: of `stored.Stored`. `small`: see `scope.keys`.
    """
    pending = units.where("fate IS NULL AND transaction IS NOT NULL")
    first = pending.groupBy("lane", "partition").agg(
        F.expr("min(struct(first AS offset, producer_id, first_seq AS seq, transaction)) AS first")
    )
    held = first.select("lane", "partition", "first.*")
    return outlines.select(*TRANSACTION, "last_ns").join(keys(held, few=True, small=small), list(TRANSACTION))


def hanging_transaction(hanging: DataFrame) -> DataFrame:
    """The last stable offset stands still behind a transaction longer than its time-out allows.

    The final log of a partition has a record that no marker of its transactional id follows, and the history goes on
    for longer than the time-out, and 30 s, after its producer last heard of a record of that transaction, and after
    the last fault was healed. Brokers look for such transactions every 10 s, and a new coordinator first loads its log.
    `hanging`: the first such record of each partition: POSITION, producer_id, seq, transaction. Counted in partitions.
    """
    cause = "format_string('transaction %d is still open', transaction)"
    return _named(hanging, TransactionAnomaly.HANGING_TRANSACTION, "seq", cause, ("partition", "offset"))


def dependency_cycle(cycles: DataFrame, outlines: DataFrame) -> DataFrame:
    """Transactions depend on each other in a cycle: Adya's G0.

    A committed transaction depends on another one if, in the final log of some partition, its committed records follow
    a committed record of that. Kafka keeps the writes of concurrent transactions apart only in what it shows, not in
    the log, so producers that work side by side may well form cycles. This history has no reads inside transactions:
    write-read dependencies (G1c) are not known. `cycles`: TRANSACTION, size, producers: the lowest transaction of each
    strongly connected component. Counted in components; the row names that transaction's first record.
    """
    first = outlines.select(*TRANSACTION, "first_seq").join(F.broadcast(cycles), list(TRANSACTION))
    cause = "format_string('%d transactions of producers %s', size, producers)"
    return _named(first, TransactionAnomaly.DEPENDENCY_CYCLE, "first_seq", cause)


def dependencies(units: DataFrame) -> DataFrame:
    """Dependencies between neighbours in a partition: from TRANSACTION to to_producer_id, to_transaction.

    What is not committed may lie between them. All others follow from these. `units`: of `stored.Stored`.
    """
    written = units.where(f"fate = {BY_COMMIT} AND transaction IS NOT NULL")
    written = written.selectExpr("*", lane_key())
    order = "OVER (PARTITION BY lane_key, partition ORDER BY first, producer_id, first_seq)"
    steps = written.selectExpr(
        "lane",
        f"lag(producer_id) {order} AS producer_id",
        f"lag(transaction) {order} AS transaction",
        "producer_id AS to_producer_id",
        "transaction AS to_transaction",
    )
    others = "producer_id != to_producer_id OR transaction != to_transaction"
    return steps.where(f"producer_id IS NOT NULL AND ({others})").distinct()
