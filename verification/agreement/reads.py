"""Compares what consumers read with what they were to be given, block by block, and proves the order of their reads.

Guarantee: what a consumer read and was not to be given, or the other way round, is in a block that `differing` names. A
consumer that reads a partition out of order is one that `out_of_order` names.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.run_length.encoding import of_lanes
from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables import blocks
from kafka_chaos.verification.tables.blocks import hashed
from kafka_chaos.verification.tables.history import local_frame
from kafka_chaos.verification.tables.scope import keep

BLOCK = ("lane", "partition", "block")
READER = ("lane", "consumer", "partition")
_SPANS = schema("lane string, consumer string, partition int32, lowest int64, highest int64, is_given_all boolean")


def record_hash() -> str:
    """The hash of the record at a place, as a column."""
    return hashed("partition", "offset", "producer_id", "seq")


def content() -> str:
    """The content of rows, whatever their order. It may overflow, which changes nothing about equality."""
    return f"sum({record_hash()})"


class Span(NamedTuple):
    """The range that a consumer read of a partition, and whether it is to be given uncommitted records."""

    lane: str
    consumer: str
    partition: int
    lowest: int
    highest: int
    is_given_all: bool


def read_blocks(consumed: DataFrame, ticks: Mapping[str, int]) -> DataFrame:
    """CONSUMED to READER, block, n, content, first and last offset, first_ns and last_ns of polling, back.

    `back`: whether a read may have been polled before one of a lower offset. `ticks`: by how much a lane's poll times
    usually grow from one offset to the next.
    """
    # Along a run, poll times grow with offsets by construction.
    rows = consumed.selectExpr("*", blocks.block_of(), f"poll_ns - {of_lanes(ticks)} * offset AS start")
    columns = {
        "n": "count(1)",
        "content": content(),
        "first": "min(offset)",
        "last": "max(offset)",
        "first_ns": "min(poll_ns)",
        "last_ns": "max(poll_ns)",
    }
    runs = rows.groupBy(*READER, "block", "start").agg(*(F.expr(f"{text} AS {name}") for name, text in columns.items()))
    order = "OVER (PARTITION BY lane, consumer, partition ORDER BY first, last)"
    steps = runs.selectExpr("*", f"first <= lag(last) {order} OR first_ns < lag(last_ns) {order} AS back")
    whole = {
        "n": "sum(n)",
        "content": "sum(content)",
        "first": "min(first)",
        "last": "max(last)",
        "first_ns": "min(first_ns)",
        "last_ns": "max(last_ns)",
        "back": "max(coalesce(back, false))",
    }
    return steps.groupBy(*READER, "block").agg(*(F.expr(f"{text} AS {name}") for name, text in whole.items()))


def out_of_order(reads: DataFrame) -> DataFrame:
    """The READERs whose offsets may not ascend in the order of polling."""
    return reads.where("back").select(*READER).distinct()


def held_blocks(stored: DataFrame, committed: DataFrame | None) -> DataFrame:
    """The records for consumers in blocks of the log: BLOCK, is_given_all, n, content, first, last.

    `stored` and `committed`: BLOCK, n, content, first, last of what is given to consumers of everything
    (`is_given_all`), and to others.
    """
    sums = ("sum(n) AS n", "sum(content) AS content", "min(first) AS first", "max(last) AS last")

    def whole(rows: DataFrame, is_given_all: str) -> DataFrame:
        found = rows.groupBy(*BLOCK).agg(*(F.expr(text) for text in sums))
        return found.selectExpr("*", f"{is_given_all} AS is_given_all")

    held = whole(stored, "true")
    return keep(held if committed is None else held.union(whole(committed, "false")))


def due_blocks(spark: SparkSession, spans: Iterable[Span], held: DataFrame) -> DataFrame:
    """The records that are due to consumers: READER, block, is_given_all, n, content, odd.

    `held`: `held_blocks`. `odd`: a part of the block is outside of what the consumer read, so that its sums say
    nothing.
    """
    due = held.join(F.broadcast(local_frame(spark, _SPANS, spans)), ["lane", "partition", "is_given_all"])
    found = due.where("first <= highest AND last >= lowest")
    return found.selectExpr(*READER, "block", "is_given_all", "n", "content", "first < lowest OR last > highest AS odd")


def differing(reads: DataFrame, due: DataFrame) -> DataFrame:
    """READER and block in which a consumer did not read just what it was to be given.

    `reads`: `read_blocks`; `due`: `due_blocks` of all consumers.
    """
    columns = (*READER, "block", "n", "content", "odd")
    both = due.select(*columns).union(reads.selectExpr(*READER, "block", "-n", "-content", "false"))
    compared = both.groupBy(*READER, "block").agg(F.expr("sum(n) != 0 OR sum(content) != 0 OR max(odd) AS differs"))
    return keep(compared.where("differs").select(*READER, "block"))
