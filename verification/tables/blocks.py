"""Blocks of offsets: the unit in which tables are compared, so that what is the same is never compared row by row."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BLOCK_BITS = 10
"""A block is 1,024 neighbouring offsets of a partition."""


def within(rows: DataFrame, blocks: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows in these blocks."""
    return rows.selectExpr("*", block_of()).join(F.broadcast(blocks), [*keys, "block"], "left_semi").drop("block")


def block_of() -> str:
    """The block of an offset, as a column."""
    return f"shiftright(offset, {BLOCK_BITS}) AS block"
