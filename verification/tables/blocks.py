"""Compares two tables of places block by block, so that what is the same is never compared row by row.

Guarantee: rows that only one of the tables has are in a block that `differing` names, unless two different contents of
a block have the same number of rows and the same sum of 64-bit hashes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BLOCK_BITS = 10
"""A block is 1,024 neighbouring offsets of a partition."""


def differing(one: DataFrame, other: DataFrame, keys: Sequence[str], content: Sequence[str]) -> DataFrame:
    """The blocks, as `keys` and block, in which the tables differ in their columns `content`. Both have an offset."""
    blocks = [*keys, "block"]
    sums = (F.expr("count(1) AS n"), F.expr(f"sum(xxhash64({', '.join(content)})) AS content"))
    sides = [rows.selectExpr("*", _block()).groupBy(*blocks).agg(*sums) for rows in (one, other)]
    both = sides[0].selectExpr(*blocks, "n", "content", "1 AS side")
    both = both.union(sides[1].selectExpr(*blocks, "n", "content", "2 AS side"))
    compared = both.groupBy(*blocks).agg(
        F.expr("count(1) AS sides"), F.expr("min(n) != max(n) OR min(content) != max(content) AS differs")
    )
    return compared.where("sides = 1 OR differs").select(*blocks)


def within(rows: DataFrame, blocks: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows in these blocks."""
    return rows.selectExpr("*", _block()).join(F.broadcast(blocks), [*keys, "block"], "left_semi").drop("block")


def _block() -> str:
    return f"shiftright(offset, {BLOCK_BITS}) AS block"
