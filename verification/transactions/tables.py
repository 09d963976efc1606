"""The tables on which the anomalies of transactions are judged: who read how, what the log did with every record.

Guarantee: only rows of transactional lanes; nothing here depends on what was predicted. A transaction is named by lane,
producer_id and transaction. Each incarnation of a transactional id is a producer of its own.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.transactions import READ_COMMITTED, TRANSACTION_OUTCOMES
from kafka_chaos.verification.agreement.pieces import Agreement
from kafka_chaos.verification.schemas import IDENTITY
from kafka_chaos.verification.tables.history import FAIL, gathered
from kafka_chaos.verification.tables.scope import keys
from kafka_chaos.verification.transactions.stored import BY_COMMIT, Stored

TRANSACTION = ("lane", "producer_id", "transaction")

COMMITTED, ABORTED, IN_DOUBT = range(1, 4)
_OUTCOMES = " ".join(
    f"WHEN '{name}' THEN {code}"
    for name, code in zip(TRANSACTION_OUTCOMES, (COMMITTED, ABORTED, IN_DOUBT), strict=True)
)


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of all transactional lanes.

    `members`: IDENTITY, transaction, partition, offset (both null unless acknowledged), sent (whether it may be
    written), first_ns and last_ns (when its sending began and was last heard of). `reads`: those of read_committed
    consumers: POSITION, consumer, producer_id, seq. `ended`: TRANSACTION, writer, outcome (a code), begin_ns and
    initialised_ns, when its producer was initialised.
    `stored`: None without a final log or without markers. `outlines`: see `outlines`.
    """

    members: DataFrame
    reads: DataFrame
    ended: DataFrame
    stored: Stored | None
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


def ended(transactions: DataFrame, *, small: bool = False) -> DataFrame:
    """TRANSACTIONS with their outcomes as codes, and their writer: the lowest producer of the transactional id.

    `initialised_ns`: by producer; its first transaction began later. `small`: see `scope.keys`.
    """
    # Producers are few, and sorting their transactions for a window takes longer.
    writers = transactions.groupBy("lane", "transactional_id").agg(F.expr("min(producer_id) AS writer"))
    initialised = transactions.groupBy("lane", "producer_id").agg(
        F.expr("min(coalesce(initialised_ns, begin_ns)) AS initialised_ns")
    )
    named = transactions.select("lane", "producer_id", "transaction", "transactional_id", "outcome", "begin_ns")
    known = named.join(keys(writers, few=True, small=small), ["lane", "transactional_id"])
    known = known.join(keys(initialised, few=True, small=small), ["lane", "producer_id"])
    return known.selectExpr(
        *TRANSACTION, "writer", f"CASE outcome {_OUTCOMES} END AS outcome", "begin_ns", "initialised_ns"
    )


def _of_rows(members: DataFrame, stored: DataFrame | None, *, small: bool) -> DataFrame:
    """MEMBERS as parts of transactions, with whether a commit marker follows the record."""
    if stored is None:
        whole = members.selectExpr("*", "false AS committed")
    else:
        sent = {"transaction": "bigint", "sent": "boolean", "first_ns": "bigint", "last_ns": "bigint"}
        rows = members.selectExpr(*IDENTITY, *sent, "false AS committed")
        commits = stored.where(f"fate = {BY_COMMIT}").selectExpr(
            *IDENTITY, *(f"cast(NULL AS {kind}) AS {name}" for name, kind in sent.items()), "true AS committed"
        )
        both = gathered(rows.union(commits), small=small)
        columns = (F.expr(f"max({name}) AS {name}") for name in (*sent, "committed"))
        whole = both.groupBy(*IDENTITY).agg(*columns).where("transaction IS NOT NULL")
    lacking = "IF(sent AND NOT committed, seq, NULL)"
    return whole.selectExpr(
        *TRANSACTION,
        "IF(sent, 1L, 0L) AS sent",
        "IF(sent AND committed, 1L, 0L) AS committed",
        "seq AS first_seq",
        "IF(sent, seq, NULL) AS first_sent",
        f"{lacking} AS first_lacking",
        "first_ns",
        "first_ns AS sent_ns",
        "last_ns",
    )


def _of_pieces(agreement: Agreement, units: DataFrame) -> DataFrame:
    """The agreement as parts of transactions: the pieces of records in the log, and those of others."""
    columns = ("first_seq", "first_sent", "first_lacking", "first_ns", "sent_ns", "last_ns")
    is_committed = f"coalesce(fate = {BY_COMMIT}, false)"
    held = units.where("first_ns IS NOT NULL").selectExpr(
        "*", "first_seq AS first_sent", f"IF({is_committed}, NULL, first_seq) AS first_lacking"
    )
    parts = held.selectExpr(*TRANSACTION, "n AS sent", f"IF({is_committed}, n, 0L) AS committed", *columns)
    if not agreement.all_placed:
        others = agreement.agreed.where("NOT placed").selectExpr(
            "*",
            f"IF(outcome = {FAIL}, NULL, first_seq) AS first_sent",
            f"IF(outcome = {FAIL}, NULL, first_seq) AS first_lacking",
        )
        parts = parts.union(others.selectExpr(*TRANSACTION, f"IF(outcome = {FAIL}, 0L, n) AS sent", "0L", *columns))
    return parts.where("transaction IS NOT NULL")


def outlines(
    members: DataFrame,
    stored: Stored | None,
    ended: DataFrame,
    agreement: Agreement | None = None,
    *,
    small: bool = False,
) -> DataFrame:
    """One row per transaction of MEMBERS: TRANSACTION, what `ended` says of it (an unknown outcome is in doubt), and:

    `sent`: how many of its records may be written; `committed`: how many of them stand before a commit marker.
    `first_seq`: the lowest; `first_sent`, `first_lacking`: the lowest that may be written, the lowest of these that no
    commit marker follows. `first_ns`, `sent_ns`: when it sent the first, and the last. `last_ns`: when it last heard of
    one. Without `stored`, nothing counts as committed. `agreement`: what need not be looked at record by record.
    """
    if stored is None or agreement is None:
        rows = _of_rows(members, None if stored is None else stored.rows(), small=small)
    else:
        rows = _of_pieces(agreement, stored.units)
        if agreement.doubts:
            # Units without times are the rows in doubt.
            doubtful = stored.units.where("first_ns IS NULL").withColumnRenamed("first_seq", "seq")
            rows = rows.union(_of_rows(agreement.of_doubtful(members), doubtful, small=small))
    columns = {
        "sent": "sum(sent)",
        "committed": "sum(committed)",
        "first_seq": "min(first_seq)",
        "first_sent": "min(first_sent)",
        "first_lacking": "min(first_lacking)",
        "first_ns": "min(first_ns)",
        "sent_ns": "max(sent_ns)",
        "last_ns": "max(last_ns)",
    }
    of_ended = {"writer": "int", "outcome": "int", "begin_ns": "bigint", "initialised_ns": "bigint"}
    # One aggregate instead of a join.
    nothing = (f"cast(NULL AS {kind}) AS {name}" for name, kind in of_ended.items())
    known = ended.selectExpr(*TRANSACTION, *(f"cast(NULL AS bigint) AS {name}" for name in columns), *of_ended)
    both = gathered(rows.selectExpr(*TRANSACTION, *columns, *nothing).union(known), small=small)
    texts = {**columns, **{name: f"max({name})" for name in of_ended}, "outcome": f"coalesce(max(outcome), {IN_DOUBT})"}
    found = both.groupBy(*TRANSACTION).agg(*(F.expr(f"{text} AS {name}") for name, text in texts.items()))
    return found.where("first_seq IS NOT NULL")
