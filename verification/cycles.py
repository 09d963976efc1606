"""The cycles among dependencies: strongly connected components, found in memory."""

from typing import Any

import numpy as np
import rustworkx

Nodes = np.ndarray[Any, np.dtype[np.int64]]

MANY = 10
"""While trimming removes at least one edge in so many, it is faster than the search."""


def cycles_among(
    producer_id: Nodes, transaction: Nodes, to_producer_id: Nodes, to_transaction: Nodes
) -> list[list[tuple[int, int]]]:
    """The cycles of one lane, each as the sorted (producer_id, transaction) in it."""
    producers, of_producer = np.unique(np.concatenate([producer_id, to_producer_id]), return_inverse=True)
    transactions, of_transaction = np.unique(np.concatenate([transaction, to_transaction]), return_inverse=True)
    before, after = np.split(of_producer * transactions.size + of_transaction, 2)
    return [
        [(int(producers[one // transactions.size]), int(transactions[one % transactions.size])) for one in cycle]
        for cycle in cycles(before, after)
    ]


def cycles(before: Nodes, after: Nodes) -> list[list[int]]:
    """The strongly connected components of at least two nodes, each sorted. Edge i goes from before[i] to after[i]."""
    names, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
    sources, targets = _trimmed(codes[: before.size], codes[before.size :])
    graph: rustworkx.PyDiGraph[None, None] = rustworkx.PyDiGraph()
    graph.extend_from_edge_list(list(zip(sources.tolist(), targets.tolist(), strict=True)))
    components = rustworkx.strongly_connected_components(graph)
    return [names[sorted(component)].tolist() for component in components if len(component) > 1]


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
