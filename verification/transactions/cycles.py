"""Cycles of transactions that depend on each other: the graph is trimmed in Spark, what is left is searched here.

Guarantee: `candidates` keeps every dependency that is part of a cycle. `cycles` counts each strongly connected
component once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.tables.scope import keep
from kafka_chaos.verification.transactions.tables import TRANSACTION

Node = TypeVar("Node", bound=Hashable)

_ENDS = ("lane", "producer_id", "transaction", "to_producer_id", "to_transaction")


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
            *_ENDS, "to_ns <= first_ns AS back", "least(first_ns, to_ns) AS low", "greatest(first_ns, to_ns) AS high"
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
        *_ENDS, "low", "high", f"last_value(until_ns) IGNORE NULLS {order} AS covered_until"
    )
    return covered.where("high <= covered_until").select(*_ENDS, "low")


def _spans(back: DataFrame) -> DataFrame:
    """The times that steps back cover without a gap: lane, low, high. Equal times count as a step back."""
    before = "OVER (PARTITION BY lane ORDER BY low, high ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    marked = back.selectExpr("lane", "low", "high", f"coalesce(low > max(high) {before}, true) AS opens")
    order = "OVER (PARTITION BY lane ORDER BY low, high)"
    numbered = marked.selectExpr("lane", "low", "high", f"count_if(opens) {order} AS span")
    return numbered.groupBy("lane", "span").agg(F.expr("min(low) AS low"), F.expr("max(high) AS high"))


def cycles(edges: Iterable[tuple[Node, Node]]) -> list[list[Node]]:
    """The strongly connected components of at least two nodes (Tarjan), each sorted."""
    follows: dict[Node, list[Node]] = {}
    for before, after in edges:
        follows.setdefault(before, []).append(after)
        follows.setdefault(after, [])
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: dict[Node, None] = {}
    found: list[list[Node]] = []
    for start in follows:
        walk: list[tuple[Node, Iterator[Node]]] = []
        entered = [start] if start not in number else []
        while entered or walk:
            if entered:
                node = entered.pop()
                number[node] = lowest[node] = len(number)
                path[node] = None
                walk.append((node, iter(follows[node])))
            node, ahead = walk[-1]
            for after in ahead:
                if after not in number:
                    entered.append(after)
                    break
                if after in path:
                    lowest[node] = min(lowest[node], number[after])
            else:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    component = _taken_until(path, node)
                    if len(component) > 1:
                        found.append(sorted(component))  # type: ignore[type-var]
    return found


def _taken_until(path: dict[Node, None], node: Node) -> list[Node]:
    taken: list[Node] = []
    while not taken or taken[-1] != node:
        taken.append(path.popitem()[0])
    return taken
