"""Two searches: breadth-first, which reaches every state within a scope, and nearest-first, which goes straight for
what it looks for. Both reach a state by a shortest path.

Used by `predict` and by `explore`. A search that hits its bound says so; it never passes for a whole one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


class ScopeNotExhausted(RuntimeError):
    """The search hit its bound before every state was reached: nothing may be concluded from absence."""


@dataclass(slots=True)
class Search(Generic[State]):
    """What a search reached: `parents` maps each state to the one it was first reached from; `seconds` is the
    time on the clock, `cpu_seconds` that of the processor."""

    parents: dict[State, State | None]
    complete: bool
    transitions: int
    depth: int
    seconds: float
    cpu_seconds: float

    def path(self, state: State) -> list[State]:
        """The states of a shortest path from the initial one to this, both included."""
        path = [state]
        while (parent := self.parents[path[-1]]) is not None:
            path.append(parent)
        return path[::-1]


def breadth_first(
    initial: State,
    successors: Callable[[State], Iterable[State]],
    visit: Callable[[State], bool],
    *,
    max_states: int,
    progress: Callable[[int, float], None] | None = None,
) -> Search[State]:
    """Reach every state; `visit` sees each once, in order of distance, and ends the search by returning True.

    `complete` is False if `visit` ended it or more than `max_states` states were reached. `progress` is called
    once per level with the states so far and the seconds gone.
    """
    with no_garbage_collection():
        return _breadth_first(initial, successors, visit, max_states, progress)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A search makes millions of tuples and no cycles: the collector would only walk them all."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class _Clock:
    """Since it was made."""

    def __init__(self) -> None:
        self._started, self._cpu_started = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        return time.monotonic() - self._started

    def cpu_seconds(self) -> float:
        return time.process_time() - self._cpu_started


def _breadth_first(
    initial: State,
    successors: Callable[[State], Iterable[State]],
    visit: Callable[[State], bool],
    max_states: int,
    progress: Callable[[int, float], None] | None,
) -> Search[State]:
    clock = _Clock()

    def result(complete: bool) -> Search[State]:
        return Search(parents, complete, transitions, depth, clock.seconds(), clock.cpu_seconds())

    parents: dict[State, State | None] = {initial: None}
    frontier = [initial]
    transitions = depth = 0
    while frontier:
        reached: list[State] = []
        for state in frontier:
            if visit(state):
                return result(False)
            for successor in successors(state):
                transitions += 1
                if successor not in parents:
                    parents[successor] = state
                    reached.append(successor)
        if len(parents) > max_states:
            return result(False)
        if progress is not None:
            progress(len(parents), clock.seconds())
        frontier = reached
        depth += bool(reached)
    return result(True)


def nearest_first(
    initial: State,
    successors: Callable[[State], Iterable[State]],
    visit: Callable[[State, int], bool],
    remaining: Callable[[State], int | None],
    *,
    max_states: int,
) -> Search[State]:
    """Reach what is looked for by a shortest path, and as few other states as that takes (A* search: Hart, Nilsson
    and Raphael, 1968).

    `remaining` says how many steps a state is at least away from it, or None: it does not lead there. Its answers may
    grow as `visit` finds part of what is looked for. `visit` sees each state that may be on such a path and that
    answer, those on the shortest first (a state again that turns out to be nearer to the initial one), and ends the
    search by returning True.
    `complete` is False if it did or more than `max_states` states were reached: otherwise every state was visited that
    `remaining` has a number for and that others of that kind lead to.
    """
    with no_garbage_collection():
        return _nearest_first(initial, successors, visit, remaining, max_states)


def _nearest_first(
    initial: State,
    successors: Callable[[State], Iterable[State]],
    visit: Callable[[State, int], bool],
    remaining: Callable[[State], int | None],
    max_states: int,
) -> Search[State]:
    clock = _Clock()
    parents: dict[State, State | None] = {initial: None}
    depths = {initial: 0}
    waiting: dict[int, list[tuple[State, int]]] = {}
    transitions = deepest = 0

    def result(complete: bool) -> Search[State]:
        return Search(parents, complete, transitions, deepest, clock.seconds(), clock.cpu_seconds())

    def wait(state: State, depth: int) -> None:
        steps = remaining(state)
        if steps is not None:
            waiting.setdefault(depth + steps, []).append((state, depth))

    wait(initial, 0)
    while waiting:
        length = min(waiting)
        state, depth = waiting[length].pop()
        if not waiting[length]:
            del waiting[length]
        steps = remaining(state)
        if steps is None or depth > depths[state]:
            continue
        if depth + steps > length:  # It has become farther since it was put there.
            waiting.setdefault(depth + steps, []).append((state, depth))
            continue
        deepest = max(deepest, depth)
        if visit(state, steps):
            return result(False)
        nearer = []
        for successor in successors(state):
            transitions += 1
            if depth + 1 < depths.get(successor, depth + 2):
                depths[successor], parents[successor] = depth + 1, state
                nearer.append(successor)
        for successor in reversed(nearer):  # Of equals the first goes on first: in a story what can happen early does.
            wait(successor, depth + 1)
        if len(parents) > max_states:
            return result(False)
    return result(True)
