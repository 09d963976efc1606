"""Breadth-first search: every state within a scope is reached, and by a shortest path.

Used by `predict` and by `explore`. A search that hits its bound says so; it never passes for a whole one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Iterable
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
    collecting = gc.isenabled()
    gc.disable()  # A search makes millions of tuples and no cycles: the collector would only walk them all.
    try:
        return _breadth_first(initial, successors, visit, max_states, progress)
    finally:
        if collecting:
            gc.enable()


def _breadth_first(
    initial: State,
    successors: Callable[[State], Iterable[State]],
    visit: Callable[[State], bool],
    max_states: int,
    progress: Callable[[int, float], None] | None,
) -> Search[State]:
    started, cpu_started = time.monotonic(), time.process_time()

    def result(complete: bool) -> Search[State]:
        seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
        return Search(parents, complete, transitions, depth, seconds, cpu_seconds)

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
            progress(len(parents), time.monotonic() - started)
        frontier = reached
        depth += bool(reached)
    return result(True)
