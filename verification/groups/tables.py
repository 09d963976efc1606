"""The tables on which the anomalies of groups and loops are judged: who had what, who committed what, what came of it,
and the places of logs that readers are given.

Guarantee: only rows of groups that a lane has; nothing here depends on what was predicted. `judged` is the lane that a
group belongs to: the one that it reads, or the one that its loop writes; `lane` is always the one that it reads.
`Visible.missed_blocks` names every block in which a group may have been given less: one that it does not name agrees
with what members read there by the number of rows and the sum of their 64-bit hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.contract.lane.transactions import ABORTED, COMMITTED
from kafka_chaos.verification.schemas import IDENTITY, POSITION
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.transactions.survey import Transactions

GROUP = ("judged", "lane", "group", "partition")
"""A partition that a group reads."""

AT_ASSIGNMENT, AT_COMMIT, AT_END = range(3)
"""Where the last acknowledged commit is asked for: an assignment begins, a commit is sent, the run ends."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of all groups.

    `assigned`: GROUP, consumer, member, generation, start_ns. `commits`: GROUP, consumer, offset, invoke_ns,
    complete_ns and outcome, as they took effect (`effective`). `reads`: what members processed: judged, lane, group,
    consumer, partition, offset, producer_id, seq, poll_ns. `blocks`: the same by blocks (`reads_of_blocks`), None if
    that is not known. `spans`: what each assignment processed. `outputs`: judged, source_producer_id, source_seq, one
    row per output of a loop that readers are given; None without a final log.
    """

    assigned: DataFrame
    commits: DataFrame
    reads: DataFrame
    blocks: DataFrame | None
    spans: DataFrame
    outputs: DataFrame | None


def assigned(assignments: DataFrame, groups: DataFrame) -> DataFrame:
    """ASSIGNMENTS of known groups. `groups`: judged, lane, group."""
    found = assignments.join(F.broadcast(groups), ["lane", "group"])
    return found.select(*GROUP, "consumer", "member", "generation", "start_ns")


def effective(commits: DataFrame, groups: DataFrame, transactions: DataFrame | None) -> DataFrame:
    """COMMITS of known groups, with the outcome that they had in the end.

    A commit in a transaction takes effect with that: it has its outcome, and is complete when that is.
    """
    columns = (*GROUP, "consumer", "offset", "invoke_ns")
    found = commits.join(F.broadcast(groups), ["lane", "group"])
    if transactions is None:
        return found.select(*columns, "complete_ns", "outcome")
    ended = transactions.selectExpr(
        "lane AS judged", "producer_id", "transaction", "outcome AS ended", "end_ns AS ended_ns"
    )
    joined = found.join(ended, ["judged", "producer_id", "transaction"], "left")
    outcome = f"CASE ended WHEN '{COMMITTED}' THEN 'ok' WHEN '{ABORTED}' THEN 'fail' ELSE 'info' END"
    return joined.selectExpr(
        *columns,
        "IF(transaction IS NULL, complete_ns, ended_ns) AS complete_ns",
        f"IF(transaction IS NULL OR outcome = 'fail', outcome, {outcome}) AS outcome",
    )


def reads(consumed: DataFrame, assigned: DataFrame) -> DataFrame:
    """CONSUMED by members of groups."""
    return _by_members(consumed, assigned, "offset", "producer_id", "seq", "poll_ns")


def reads_of_blocks(blocks: DataFrame, assigned: DataFrame) -> DataFrame:
    """Blocks of consumed/ (`agreement.reads.read_blocks`) that members of groups read."""
    return _by_members(blocks, assigned, "block", "n", "content", "first", "last", "first_ns", "last_ns")


def _by_members(read: DataFrame, assigned: DataFrame, *columns: str) -> DataFrame:
    members = assigned.select("judged", "lane", "group", "consumer").distinct()
    found = read.join(F.broadcast(members), ["lane", "consumer"])
    return found.select("judged", "lane", "group", "consumer", "partition", *columns)


def spans(reads: DataFrame) -> DataFrame:
    """The reads of each assignment: GROUP, consumer, records, lowest and highest offset, first_ns, last_ns.

    `reads`: `Tables.reads` or `Tables.blocks`.
    """
    columns = _OF_BLOCKS if "block" in reads.columns else _OF_READS
    return reads.groupBy(*GROUP, "consumer").agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))


_OF_READS = {
    "records": "count(1)",
    "lowest": "min(offset)",
    "highest": "max(offset)",
    "first_ns": "min(poll_ns)",
    "last_ns": "max(poll_ns)",
}
_OF_BLOCKS = {
    "records": "sum(n)",
    "lowest": "min(first)",
    "highest": "max(last)",
    "first_ns": "min(first_ns)",
    "last_ns": "max(last_ns)",
}


def outputs(produced: DataFrame, visible: DataFrame) -> DataFrame:
    """PRODUCED of loops, as far as `visible`, the places of the log that readers are given, has them."""
    made = produced.where("source_seq IS NOT NULL AND source_producer_id IS NOT NULL")
    shown = made.join(visible.select(*IDENTITY), list(IDENTITY), "left_semi")
    return shown.selectExpr("lane AS judged", "source_producer_id", "source_seq")


def acknowledged_before(tables: Tables, ends: DataFrame) -> DataFrame:
    """Each moment at which a commit must show, with the last commit acknowledged before it.

    GROUP, kind (`AT_ASSIGNMENT`, `AT_COMMIT`, `AT_END`), offset (what was seen then: the lowest offset that the
    assignment processed, the offset of the commit, the last committed offset), consumer, its generation, at_ns; and of
    that commit known_offset, known_invoke_ns, known_consumer, known_generation. Only moments that lie behind it.
    `ends`: GROUP and final, the last committed offset. Of commits acknowledged at the same time, that with the highest
    offset counts as the last one.
    """
    began = tables.assigned.join(tables.spans, [*GROUP, "consumer"]).selectExpr(
        *GROUP, f"{AT_ASSIGNMENT} AS kind", "lowest AS offset", "consumer", "start_ns AS order_ns", "first_ns AS at_ns"
    )
    generations = tables.assigned.groupBy(*GROUP, "consumer").agg(F.expr("max(generation) AS generation"))
    acknowledged = tables.commits.where("outcome = 'ok' AND complete_ns IS NOT NULL")
    sent = acknowledged.selectExpr(
        *GROUP, f"{AT_COMMIT} AS kind", "offset", "consumer", "invoke_ns AS order_ns", "invoke_ns AS at_ns"
    )
    last = ends.where("final IS NOT NULL").selectExpr(
        *GROUP,
        f"{AT_END} AS kind",
        "final AS offset",
        "cast(NULL AS string) AS consumer",
        "9223372036854775807L AS order_ns",
        "9223372036854775807L AS at_ns",
    )
    moments = began.union(sent).union(last)
    known = ("known_offset", "known_invoke_ns", "known_consumer")
    nothing = ("cast(NULL AS bigint)", "cast(NULL AS bigint)", "cast(NULL AS string)")
    asked = moments.selectExpr("*", *(f"{text} AS {name}" for text, name in zip(nothing, known, strict=True)))
    answers = acknowledged.selectExpr(
        *GROUP,
        "cast(NULL AS int) AS kind",
        "cast(NULL AS bigint) AS offset",
        "cast(NULL AS string) AS consumer",
        "complete_ns AS order_ns",
        "cast(NULL AS bigint) AS at_ns",
        "offset AS known_offset",
        "invoke_ns AS known_invoke_ns",
        "consumer AS known_consumer",
    )
    # At one time, what is asked comes before what is answered.
    order = "ORDER BY order_ns, kind IS NULL, known_offset, known_invoke_ns, known_consumer"
    window = f"OVER (PARTITION BY {', '.join(GROUP)} {order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    columns = (f"last_value({name}) IGNORE NULLS {window} AS {name}" for name in known)
    followed = asked.union(answers).selectExpr(*GROUP, "kind", "offset", "consumer", "at_ns", *columns)
    moved = followed.where("kind IS NOT NULL AND known_offset IS NOT NULL AND offset < known_offset")
    known_generations = generations.withColumnsRenamed({"consumer": "known_consumer", "generation": "known_generation"})
    return moved.join(generations, [*GROUP, "consumer"], "left").join(
        known_generations, [*GROUP, "known_consumer"], "left"
    )


_PLACE = (*POSITION, "producer_id", "seq")
_BLOCK_OF_GROUP = (*GROUP, "block")


@dataclass(frozen=True, slots=True)
class Visible:
    """The final log, as readers of what is committed see it.

    `log`: LOG; `transactional`: lanes; `transactions`: None if they are not known, then such lanes show nothing.
    """

    log: DataFrame
    transactional: tuple[str, ...]
    transactions: Transactions | None

    def of(self, lanes: Sequence[str]) -> DataFrame:
        """The places of these lanes: POSITION, producer_id, seq."""
        plain = [lane for lane in lanes if lane not in self.transactional]
        found = self.log.where(F.col("lane").isin(plain)).select(*_PLACE)
        committed = None if self.transactions is None else self.transactions.committed()
        if committed is None:
            return found
        return found.union(committed.where(F.col("lane").isin(list(lanes))).select(*_PLACE))

    def within(self, places: DataFrame) -> DataFrame:
        """The places in these few BLOCKs: POSITION, producer_id, seq."""
        rows = blocks.within(self.log, places, ("lane", "partition"))
        is_transactional = F.col("lane").isin(list(self.transactional))
        found = rows.where(~is_transactional).select(*_PLACE)
        if self.transactions is None or places.where(is_transactional).isEmpty():
            return found
        committed = self.transactions.committed(rows.where(is_transactional))
        if committed is None:
            return found
        return found.union(blocks.within(committed, places, ("lane", "partition")).select(*_PLACE))

    def missed_blocks(self, sums: DataFrame, reads: DataFrame, ends: DataFrame) -> DataFrame:
        """GROUP and block in which members may not have been given all that the group has committed past.

        A block is clear if one member was given just what it holds, or if all of them together were. `sums`: what
        blocks hold (`held_blocks`); `reads`: `Tables.blocks`; `ends`: GROUP, the first offset of the group and the one
        that it has committed.
        """
        shown = sums.where(F.col("is_given_all") != F.col("lane").isin(list(self.transactional)))
        bounds = F.broadcast(ends.where("first < past").selectExpr(*GROUP, "first AS lowest", "past"))
        due = shown.join(bounds, ["lane", "partition"]).where("last >= lowest AND first < past")
        due = due.selectExpr(*_BLOCK_OF_GROUP, "n AS due_n", "content AS due_content")
        given = reads.select(*_BLOCK_OF_GROUP, "n", "content")
        compared = due.join(given, list(_BLOCK_OF_GROUP), "left").groupBy(*_BLOCK_OF_GROUP, "due_n", "due_content")
        is_clear = (
            "coalesce(max(n = due_n AND content = due_content) OR (sum(n) = due_n AND sum(content) = due_content),"
            " false) AS is_clear"
        )
        return compared.agg(F.expr(is_clear)).where("NOT is_clear").select(*_BLOCK_OF_GROUP)
