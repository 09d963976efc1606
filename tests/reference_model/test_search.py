"""Fewest-faults-first finds what an exhaustive search finds, by as few faults and then steps, from fewer states."""

from collections.abc import Iterator

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_chaos.reference_model.search import Budget, Search, breadth_first, fewest_faults_first

NODES = 8
FAULTS = 2
Node = tuple[int, int, int]
"""A place, the faults that have struck, and the abilities left as a bit set."""
Edge = tuple[int, int, bool, int]
"""From one place to another; whether by a fault; the abilities that the step needs and keeps."""
edges = st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.booleans(), st.integers(0, 3))
graphs = st.lists(edges, max_size=40)
INITIAL: Node = (0, 0, 3)


def after(graph: list[Edge], node: Node) -> Iterator[Node]:
    """The steps from a node, and its losses: a node with more abilities can do all that one with fewer can."""
    place, struck, abilities = node
    for start, end, by_a_fault, needed in graph:
        if start == place and needed & abilities == needed and struck + by_a_fault <= FAULTS:
            yield end, struck + by_a_fault, abilities
            yield end, struck + by_a_fault, needed


def cost(search: Search[Node], node: Node) -> tuple[int, int]:
    return node[1], len(search.path(node)) - 1


def find(graph: list[Edge], budget: Budget) -> tuple[dict[int, tuple[int, int]], Search[Node]]:
    """The faults and steps to each place when it is first visited."""
    first: dict[int, Node] = {}

    def visit(node: Node) -> bool:
        first.setdefault(node[0], node)
        return False

    def parted(node: Node) -> tuple[int, int]:
        # A fault that is left to strike is an ability: bits 2 and 3.
        return node[0], node[2] | ((1 << FAULTS - node[1]) - 1) << 2

    search = fewest_faults_first([INITIAL], lambda node: after(graph, node), visit, lambda n: n[1], parted, budget)
    return {place: cost(search, node) for place, node in first.items()}, search


@settings(max_examples=300)
# Fewer faults count before fewer steps.
@example(graph=[(0, 1, True, 0), (0, 2, False, 0), (2, 3, False, 0), (3, 1, False, 0)])
@given(graph=graphs)
def test_every_place_is_found_by_the_fewest_faults_and_then_steps(graph: list[Edge]) -> None:
    everything = breadth_first(INITIAL, lambda node: after(graph, node), lambda _: False, Budget(10_000))
    expected: dict[int, tuple[int, int]] = {}
    for node in everything.parents:
        found = cost(everything, node)
        expected[node[0]] = min(expected.get(node[0], found), found)
    found_first, search = find(graph, Budget(10_000))
    assert search.complete
    assert found_first == expected
    assert search.parents.keys() <= everything.parents.keys()


def test_a_state_with_fewer_means_is_left_out() -> None:
    _, search = find([(0, 1, False, 1), (0, 1, True, 0)], Budget(100))
    assert set(search.parents) == {INITIAL, (1, 0, 3)}
