"""The tables on which the anomalies of transactions are judged: who read how, what the log did with every record.

Guarantee: only rows of transactional lanes; nothing here depends on what was predicted. A transaction is named by lane,
producer_id and transaction. Each incarnation of a transactional id is a producer of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.transactions import ABORT, COMMIT, READ_COMMITTED, TRANSACTION_OUTCOMES
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.tables.history import gathered

TRANSACTION = ("lane", "producer_id", "transaction")

BY_COMMIT, BY_ABORT = 1, 2
"""What ended a record's transaction in the log: codes, because strings do not aggregate without a sort."""
COMMITTED, ABORTED, IN_DOUBT = range(1, 4)
_OUTCOMES = " ".join(
    f"WHEN '{name}' THEN {code}"
    for name, code in zip(TRANSACTION_OUTCOMES, (COMMITTED, ABORTED, IN_DOUBT), strict=True)
)
_TOGETHER = ("lane", "producer_id", "shiftright(seq, 10) AS near")
_FATE = f"CASE kind WHEN '{COMMIT}' THEN {BY_COMMIT} WHEN '{ABORT}' THEN {BY_ABORT} END"


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of all transactional lanes.

    `members`: IDENTITY, transaction, partition, offset (both null unless acknowledged), sent (whether it may be
    written), first_ns and last_ns (when its sending began and was last heard of). `reads`: those of read_committed
    consumers: POSITION, consumer, producer_id, seq. `ended`: TRANSACTION, writer, outcome (a code), begin_ns and
    initialised_ns, when its producer was initialised.
    `stored`: STORED, None without a final log or without markers. `outlines`: OUTLINES.
    """

    members: DataFrame
    reads: DataFrame
    ended: DataFrame
    stored: DataFrame | None
    outlines: DataFrame


def members(produced: DataFrame) -> DataFrame:
    """PRODUCED to the records of transactions (`Tables.members`)."""
    acknowledged = "outcome = 'ok' AND partition IS NOT NULL AND offset IS NOT NULL"
    return produced.where("transaction IS NOT NULL").selectExpr(
        *IDENTITY,
        "transaction",
        f"IF({acknowledged}, partition, NULL) AS partition",
        f"IF({acknowledged}, offset, NULL) AS offset",
        "outcome != 'fail' AS sent",
        "invoke_ns AS first_ns",
        "coalesce(complete_ns, invoke_ns) AS last_ns",
    )


def isolation(assignments: DataFrame) -> DataFrame:
    """ASSIGNMENTS to lane, consumer, isolation. A consumer with both levels promises what `read_committed` does."""
    return assignments.groupBy("lane", "consumer").agg(F.expr("min(isolation) AS isolation"))


def committed_reads(consumed: DataFrame, isolation: DataFrame) -> DataFrame:
    """The reads of consumers that are to be given committed records only."""
    readers = isolation.where(F.col("isolation") == READ_COMMITTED).select("lane", "consumer")
    columns = ("lane", "consumer", "partition", "offset", "producer_id", "seq")
    return consumed.select(*columns).join(F.broadcast(readers), ["lane", "consumer"], "left_semi")


def ended(transactions: DataFrame) -> DataFrame:
    """TRANSACTIONS with their outcomes as codes, and their writer: the lowest producer of the transactional id.

    `initialised_ns`: by producer; its first transaction began later.
    """
    same = "OVER (PARTITION BY lane, transactional_id)"
    of_producer = "OVER (PARTITION BY lane, producer_id)"
    return transactions.selectExpr(
        *TRANSACTION,
        f"min(producer_id) {same} AS writer",
        f"CASE outcome {_OUTCOMES} END AS outcome",
        "begin_ns",
        f"min(coalesce(initialised_ns, begin_ns)) {of_producer} AS initialised_ns",
    )


def stored(log: DataFrame, replicas: DataFrame, ended: DataFrame) -> DataFrame:
    """LOG and the markers of REPLICAS to STORED: POSITION, producer_id, seq, fate.

    `fate`: what the next marker says that a record's transactional id has after it in its partition (`BY_COMMIT`,
    `BY_ABORT`); null if there is none: the transaction is still open there. Where replicas have different markers at
    an offset, the commit counts.
    """
    writers = ended.groupBy("lane", "producer_id").agg(F.expr("min(writer) AS writer"))
    marked = replicas.where(F.col("kind").isin(COMMIT, ABORT)).selectExpr(*POSITION, "producer_id", f"{_FATE} AS fate")
    rows = log.selectExpr(*POSITION, "producer_id", "seq", "cast(NULL AS int) AS fate")
    rows = rows.union(marked.selectExpr(*POSITION, "producer_id", "cast(NULL AS bigint)", "fate"))
    written = rows.join(F.broadcast(writers), ["lane", "producer_id"], "left").selectExpr(
        *POSITION, "producer_id", "seq", "fate", "coalesce(writer, producer_id) AS writer"
    )
    # From the end, so that each record has seen all markers after it; one at its own offset does not count.
    order = "PARTITION BY lane, partition, writer ORDER BY offset DESC, fate DESC NULLS FIRST"
    before = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    followed = written.selectExpr(
        *POSITION,
        "producer_id",
        "seq",
        "fate AS marks",
        f"last_value(fate) IGNORE NULLS OVER ({order} {before}) AS fate",
    )
    return followed.where("marks IS NULL").drop("marks")


def _with_fate(members: DataFrame, stored: DataFrame | None, *, small: bool) -> DataFrame:
    """MEMBERS without places, with whether a commit marker follows the record: `committed`."""
    if stored is None:
        return members.selectExpr("*", "false AS committed")
    sent = {"transaction": "bigint", "sent": "boolean", "first_ns": "bigint", "last_ns": "bigint"}
    rows = members.selectExpr(*_TOGETHER, "seq", *sent, "false AS committed")
    commits = stored.where(f"fate = {BY_COMMIT}").selectExpr(
        *_TOGETHER, "seq", *(f"cast(NULL AS {kind}) AS {name}" for name, kind in sent.items()), "true AS committed"
    )
    both = rows.union(commits)
    # Neighbours stay together, so that a transaction's records meet before they are exchanged.
    near = gathered(both, small=True) if small else both.repartition("lane", "producer_id", "near")
    whole = near.groupBy("lane", "producer_id", "near", "seq").agg(
        *(F.expr(f"max({name}) AS {name}") for name in (*sent, "committed"))
    )
    return whole.where("transaction IS NOT NULL")


def outlines(members: DataFrame, stored: DataFrame | None, ended: DataFrame, *, small: bool = False) -> DataFrame:
    """One row per transaction of MEMBERS: TRANSACTION, what `ended` says of it (an unknown outcome is in doubt), and:

    `sent`: how many of its records may be written; `committed`: how many of them stand before a commit marker.
    `first_seq`: the lowest; `first_sent`, `first_lacking`: the lowest that may be written, the lowest of these that no
    commit marker follows. `first_ns`, `sent_ns`: when it sent the first, and the last. `last_ns`: when it last heard of
    one. Without `stored`, nothing counts as committed.
    """
    rows = _with_fate(members, stored, small=small)
    lacking = "sent AND NOT committed"
    columns = {
        "sent": "count_if(sent)",
        "committed": "count_if(sent AND committed)",
        "first_seq": "min(seq)",
        "first_sent": "min(IF(sent, seq, NULL))",
        "first_lacking": f"min(IF({lacking}, seq, NULL))",
        "first_ns": "min(first_ns)",
        "sent_ns": "max(first_ns)",
        "last_ns": "max(last_ns)",
    }
    found = rows.groupBy(*TRANSACTION).agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))
    known = ended.select(*TRANSACTION, "writer", "outcome", "begin_ns", "initialised_ns")
    return found.join(known, list(TRANSACTION), "left").withColumn("outcome", F.expr(f"coalesce(outcome, {IN_DOUBT})"))
