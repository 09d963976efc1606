"""Cycles of transactions that depend on each other: the graph is trimmed in Spark, what is left is searched here.

Guarantee: `candidates` keeps every dependency that is part of a cycle. `cycles` counts each strongly connected
component once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_chaos.verification.tables.scope import keep
from kafka_chaos.verification.transactions.tables import TRANSACTION

Nodes = np.ndarray[Any, np.dtype[np.int64]]

MANY = 10
"""While trimming removes at least one edge in so many, it is faster than the search."""
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


def cycles(before: Nodes, after: Nodes) -> list[list[int]]:
    """The strongly connected components of at least two nodes, each sorted. Edge i goes from before[i] to after[i]."""
    names, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
    sources, targets = _trimmed(codes[: before.size], codes[before.size :])
    order = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[order], np.arange(names.size + 1)).tolist()
    found = _components(starts, targets[order].tolist(), np.unique(sources).tolist())
    return [names[sorted(component)].tolist() for component in found]


def _trimmed(sources: Nodes, targets: Nodes) -> tuple[Nodes, Nodes]:
    """The edges without those at which a path begins or ends, again and again while that removes many."""
    while sources.size:
        size = int(max(sources.max(), targets.max())) + 1
        goes_on, is_reached = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        goes_on[sources] = is_reached[targets] = True
        inner = is_reached[sources] & goes_on[targets]
        removed = sources.size - int(inner.sum())
        sources, targets = sources[inner], targets[inner]
        if removed * MANY < sources.size or not removed:
            break
    return sources, targets


def _components(starts: list[int], targets: list[int], nodes: list[int]) -> list[list[int]]:
    """Tarjan's algorithm: the edges of node n are `targets` from starts[n] to starts[n + 1]."""
    number, lowest = [0] * len(starts), [0] * len(starts)
    on_path = [False] * len(starts)
    ahead = list(starts)
    path: list[int] = []
    found: list[list[int]] = []
    count = 0
    for start in nodes:
        if number[start]:
            continue
        walk = [start]
        while walk:
            node = walk[-1]
            if not number[node]:
                count += 1
                number[node] = lowest[node] = count
                path.append(node)
                on_path[node] = True
            if ahead[node] < starts[node + 1]:
                after = targets[ahead[node]]
                ahead[node] += 1
                if not number[after]:
                    walk.append(after)
                elif on_path[after]:
                    lowest[node] = min(lowest[node], number[after])
                continue
            walk.pop()
            if walk:
                lowest[walk[-1]] = min(lowest[walk[-1]], lowest[node])
            if lowest[node] == number[node]:
                component = _taken_until(path, on_path, node)
                if len(component) > 1:
                    found.append(component)
    return found


def _taken_until(path: list[int], on_path: list[bool], node: int) -> list[int]:
    taken: list[int] = []
    while not taken or taken[-1] != node:
        taken.append(path.pop())
        on_path[taken[-1]] = False
    return taken
