"""Blocks of offsets, and hashes: by both, tables are compared, so that what is the same is never compared row by row.

Hashes have a salt that nobody knows who wrote the tables."""

import secrets
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_SALT = secrets.randbits(63)


def hashed(*columns: str) -> str:
    """The hash of these columns, as a column."""
    return f"xxhash64({_SALT}L, {', '.join(columns)})"


def lane_key() -> str:
    """The lane as a whole number, a cheaper grouping key than its name."""
    return f"{hashed('lane')} AS lane_key"


BLOCK_BITS = 10
"""A block is 1,024 neighbouring offsets of a partition."""


def within(rows: DataFrame, blocks: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows in these blocks."""
    return rows.selectExpr("*", block_of()).join(F.broadcast(blocks), [*keys, "block"], "left_semi").drop("block")


def block_of() -> str:
    """The block of an offset, as a column."""
    return f"shiftright(offset, {BLOCK_BITS}) AS block"
