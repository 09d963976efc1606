"""Searches the dependencies of a run's transactions for cycles.

Guarantee: of a lane whose cycles are not all searched, and in which none was found, the facts say so. Only pairs of
transactions that depend on each other go to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_chaos.verification.schemas import schema
from kafka_chaos.verification.tables.facts import TransactionFacts
from kafka_chaos.verification.tables.history import local_frame, numbers
from kafka_chaos.verification.tables.scope import keep
from kafka_chaos.verification.transactions import anomalies, cycles
from kafka_chaos.verification.transactions.cycles import Nodes
from kafka_chaos.verification.transactions.survey import Transactions

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
    """The cycles. Of a lane with more dependencies than are searched, those found; if none is, the facts say so."""
    tables = transactions.tables
    if tables.stored is None:
        return Cycles(local_frame(spark, _CYCLES, []), transactions.facts)
    edges = keep(anomalies.dependencies(tables.stored.units))
    counts = _by_lane(edges)
    if sum(counts.values()) > MOST_UNTRIMMED:
        edges = keep(cycles.candidates(edges, tables.outlines))
        counts = _by_lane(edges)
    most = MOST_ENTANGLED // max(1, len(counts))
    some = edges if sum(counts.values()) <= MOST_ENTANGLED else _first(edges, most)
    lanes = sorted(counts)
    known = local_frame(spark, _NUMBERS, [(lane, number) for number, lane in enumerate(lanes)])
    number, *ends = numbers(some.join(F.broadcast(known), "lane"), "number", *_ENDS)
    rows, facts = [], dict(transactions.facts)
    for at, lane in enumerate(lanes):
        of_lane = number == at
        found = _cycles_of(*(column[of_lane] for column in ends))
        if np.count_nonzero(of_lane) < counts[lane] and not found:
            facts[lane] = replace(facts[lane], entangled=counts[lane])
        rows += [_cycle(lane, cycle) for cycle in found]
    return Cycles(local_frame(spark, _CYCLES, rows), facts)


def _by_lane(edges: DataFrame) -> dict[str, int]:
    return {row.lane: row["count"] for row in edges.groupBy("lane").count().collect()}


def _cycles_of(
    producer_id: Nodes, transaction: Nodes, to_producer_id: Nodes, to_transaction: Nodes
) -> list[list[tuple[int, int]]]:
    """The cycles of one lane, each as the sorted (producer_id, transaction) in it."""
    producers, of_producer = np.unique(np.concatenate([producer_id, to_producer_id]), return_inverse=True)
    transactions, of_transaction = np.unique(np.concatenate([transaction, to_transaction]), return_inverse=True)
    before, after = np.split(of_producer * transactions.size + of_transaction, 2)
    return [
        [(int(producers[one // transactions.size]), int(transactions[one % transactions.size])) for one in cycle]
        for cycle in cycles.cycles(before, after)
    ]


def _first(edges: DataFrame, most: int) -> DataFrame:
    """The first dependencies of each lane."""
    numbered = edges.selectExpr("*", "row_number() OVER (PARTITION BY lane ORDER BY low) AS number")
    return numbered.where(f"number <= {most}").drop("number")


def _cycle(lane: str, cycle: list[tuple[int, int]]) -> tuple[object, ...]:
    """A row of _CYCLES."""
    producers = ", ".join(str(producer) for producer in sorted({one for one, _ in cycle})[:5])
    return lane, *cycle[0], len(cycle), producers
