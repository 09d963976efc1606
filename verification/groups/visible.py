"""The places of logs that readers are given: in a transactional lane, those that are committed.

Guarantee: `missed_blocks` names every block in which a group may have been given less. A block that it does not name
agrees with what members read there by the number of rows and the sum of their 64-bit hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.groups.tables import GROUP
from kafka_chaos.verification.schemas import POSITION
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.transactions.survey import Transactions

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
