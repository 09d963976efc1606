"""The cycles among dependencies: strongly connected components, found in memory."""

from typing import Any

import numpy as np

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
                component: list[int] = []
                while not component or component[-1] != node:
                    component.append(path.pop())
                    on_path[component[-1]] = False
                if len(component) > 1:
                    found.append(component)
    return found
