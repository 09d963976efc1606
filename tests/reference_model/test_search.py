"""Nearest-first finds what breadth-first finds, by paths as short, and looks no farther than it has to."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_chaos.reference_model.search import Budget, Search, breadth_first, nearest_first

NODES = 12
graphs = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40)
targets = st.sets(st.integers(0, NODES - 1), min_size=1, max_size=3)
parts = st.lists(st.sampled_from([1, 2, 100]), min_size=NODES, max_size=NODES)


def after(graph: list[tuple[int, int]], node: int) -> list[int]:
    return [end for start, end in graph if start == node]


def steps_to(graph: list[tuple[int, int]], target: int) -> dict[int, int]:
    """Each node's distance to the target; nodes that do not lead there are left out."""
    backwards = [(end, start) for start, end in graph]
    search = breadth_first(target, lambda node: after(backwards, node), lambda _: False, Budget(100))
    return {node: len(search.path(node)) - 1 for node in search.parents}


def find(graph: list[tuple[int, int]], wanted: set[int], divisors: list[int]) -> tuple[dict[int, int], Search[int]]:
    """The length of the path found to each target; each node's heuristic is some part of its true distance."""
    distances = {target: steps_to(graph, target) for target in wanted}
    missing, found = set(wanted), {}

    def visit(node: int, steps_left: int) -> bool:
        if node in missing:
            assert steps_left == 0
            found[node] = node
            missing.remove(node)
        return not missing

    def remaining(node: int) -> int | None:
        known = [distances[target][node] // divisors[node] for target in missing if node in distances[target]]
        return min(known, default=None)

    search = nearest_first(0, lambda node: after(graph, node), visit, remaining, Budget(100))
    return {node: len(search.path(node)) - 1 for node in found}, search


@settings(max_examples=200, deadline=None)
@given(graph=graphs, wanted=targets, divisors=parts)
def test_every_target_is_found_by_a_shortest_way(
    graph: list[tuple[int, int]], wanted: set[int], divisors: list[int]
) -> None:
    everything = breadth_first(0, lambda node: after(graph, node), lambda _: False, Budget(100))
    expected = {node: len(everything.path(node)) - 1 for node in wanted if node in everything.parents}
    found, search = find(graph, wanted, divisors)
    assert found == expected
    assert search.complete or found.keys() == wanted


def test_a_good_estimate_leaves_the_rest_alone() -> None:
    line = [(node, node + 1) for node in range(5)] + [(0, node) for node in range(6, NODES)]
    found, search = find([*line, (11, 0)], {5}, [1] * NODES)
    assert found == {5: 5}
    assert search.transitions == 11  # Only the line was gone along: seven ways lead on from 0, one from 1 to 4 each.


def test_a_bound_that_is_hit_is_not_completeness() -> None:
    search = nearest_first(0, lambda node: [node + 1], lambda *_: False, lambda _: 1, Budget(10))
    assert not search.complete
