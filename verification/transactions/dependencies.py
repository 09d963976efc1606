"""Searches the dependencies of a run's transactions for cycles: the graph is trimmed in Spark, what is left is searched
here.

Guarantee: `candidates` keeps every dependency that is part of a cycle, and each strongly connected component is counted
once. Of a lane whose cycles are not all searched, and in which none was found, the facts say so. Only pairs of
transactions that depend on each other go to the driver.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.facts import TransactionFacts
from kafka_chaos.verification.tables.history import local_frame, numbers
from kafka_chaos.verification.tables.scope import keep
from kafka_chaos.verification.transactions import anomalies
from kafka_chaos.verification.transactions.components import cycles_among
from kafka_chaos.verification.transactions.survey import Transactions
from kafka_chaos.verification.transactions.tables import TRANSACTION

_EDGE = ("lane", "producer_id", "transaction", "to_producer_id", "to_transaction")


def candidates(dependencies: DataFrame, outlines: DataFrame) -> DataFrame:
    """Those dependencies that may be part of a cycle.

    Transactions are ordered by when they first sent a record. A cycle must go back somewhere: from a later to an
    earlier one. Any moment between its first and its last transaction is spanned by such a step back. So a cycle lies
    within the time that steps back cover without a gap. `low`: when the earlier one of the two first sent a record.
    """
    began = outlines.select(*TRANSACTION, "first_ns")
    until = began.selectExpr(
        "lane", "producer_id AS to_producer_id", "transaction AS to_transaction", "first_ns AS to_ns"
    )
    timed = keep(
        dependencies.join(began, list(TRANSACTION))
        .join(until, ["lane", "to_producer_id", "to_transaction"])
        .selectExpr(
            *_EDGE, "to_ns <= first_ns AS back", "least(first_ns, to_ns) AS low", "greatest(first_ns, to_ns) AS high"
        )
    )
    rows = timed.select("*", F.lit(None).cast("bigint").alias("until_ns"))
    nothing = ("cast(NULL AS int)", "cast(NULL AS bigint)")
    spans = _spans(timed.where("back")).selectExpr(
        "lane", *nothing, *nothing, "false", "low", "cast(NULL AS bigint)", "high AS until_ns"
    )
    order = (
        "OVER (PARTITION BY lane ORDER BY low, until_ns NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    covered = rows.union(spans).selectExpr(
        *_EDGE, "low", "high", f"last_value(until_ns) IGNORE NULLS {order} AS covered_until"
    )
    return covered.where("high <= covered_until").select(*_EDGE, "low")


def _spans(back: DataFrame) -> DataFrame:
    """The times that steps back cover without a gap: lane, low, high. Equal times count as a step back."""
    before = "OVER (PARTITION BY lane ORDER BY low, high ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    marked = back.selectExpr("lane", "low", "high", f"coalesce(low > max(high) {before}, true) AS opens")
    order = "OVER (PARTITION BY lane ORDER BY low, high)"
    numbered = marked.selectExpr("lane", "low", "high", f"count_if(opens) {order} AS span")
    return numbered.groupBy("lane", "span").agg(F.expr("min(low) AS low"), F.expr("max(high) AS high"))


MOST_UNTRIMMED = 2_000_000
"""Up to this many dependencies of all lanes are searched as they are: trimming them takes longer."""
MOST_ENTANGLED = 5_000_000
"""Cycles are searched among up to this many dependencies of all lanes, the first ones of each."""

_NUMBERS = schema("lane string, number int64")
_ENDS = ("producer_id", "transaction", "to_producer_id", "to_transaction")
_CYCLES = schema("lane string, producer_id int32, transaction int64, size int64, producers string")


@dataclass(frozen=True, slots=True)
class Cycles:
    """The cycles as `rows`: TRANSACTION (the lowest), size, producers; the facts, with lanes that were not searched."""

    rows: DataFrame
    facts: Mapping[str, TransactionFacts]


def find_cycles(spark: SparkSession, transactions: Transactions) -> Cycles:
    """The  Of a lane with more dependencies than are searched, those found; if none is, the facts say so."""
    tables = transactions.tables
    if tables.stored is None:
        return Cycles(local_frame(spark, _CYCLES, []), transactions.facts)
    edges = keep(anomalies.dependencies(tables.stored.units))
    counts = _by_lane(edges)
    if sum(counts.values()) > MOST_UNTRIMMED:
        edges = keep(candidates(edges, tables.outlines))
        counts = _by_lane(edges)
    most = MOST_ENTANGLED // max(1, len(counts))
    some = edges if sum(counts.values()) <= MOST_ENTANGLED else _first(edges, most)
    lanes = sorted(counts)
    known = local_frame(spark, _NUMBERS, [(lane, number) for number, lane in enumerate(lanes)])
    number, *ends = numbers(some.join(F.broadcast(known), "lane"), "number", *_ENDS)
    rows, facts = [], dict(transactions.facts)
    for at, lane in enumerate(lanes):
        of_lane = number == at
        found = cycles_among(*(column[of_lane] for column in ends))
        if np.count_nonzero(of_lane) < counts[lane] and not found:
            facts[lane] = replace(facts[lane], entangled=counts[lane])
        rows += [_cycle(lane, cycle) for cycle in found]
    return Cycles(local_frame(spark, _CYCLES, rows), facts)


def _by_lane(edges: DataFrame) -> dict[str, int]:
    return {row.lane: row["count"] for row in edges.groupBy("lane").count().collect()}


def _first(edges: DataFrame, most: int) -> DataFrame:
    """The first dependencies of each lane."""
    numbered = edges.selectExpr("*", "row_number() OVER (PARTITION BY lane ORDER BY low) AS number")
    return numbered.where(f"number <= {most}").drop("number")


def _cycle(lane: str, cycle: list[tuple[int, int]]) -> tuple[object, ...]:
    """A row of _CYCLES."""
    producers = ", ".join(str(producer) for producer in sorted({one for one, _ in cycle})[:5])
    return lane, *cycle[0], len(cycle), producers
