"""Two exhaustive searches of state spaces: breadth-first, and fewest-faults-first.

Both find shortest paths. The second prefers fewer faults to fewer steps, and leaves out states that can do and show no
more than another one. `Search.complete` is False if a search ended before it had reached every state.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_chaos.contract.command.errors import ExitCode, KafkaChaosError

State = TypeVar("State", bound=Hashable)


class ScopeNotExhausted(KafkaChaosError, RuntimeError):
    """A search ended before it reached every state: what it has not found may still be possible."""

    exit_code = ExitCode.UNKNOWN


class Budget:
    """The states and the seconds that one or more searches may take together, one after the other.

    `progress` is called with the budget about every `interval` seconds; `label` names the search that runs. `cancel`
    ends that search, as does an empty budget; `reason` then says why.
    """

    def __init__(
        self,
        max_states: int,
        timeout: float | None = None,
        progress: Callable[[Budget], None] | None = None,
        interval: float = 1.0,
    ) -> None:
        self.max_states = max_states
        self.timeout = timeout
        self.reason = ""
        self.label = ""
        self._progress, self._interval = progress, interval
        self._ended = self._running = self._checks = 0  # States of ended searches and of the one running; checks made.
        self._started = self._reported = time.monotonic()

    @property
    def states(self) -> int:
        """The states reached so far, by all searches."""
        return self._ended + self._running

    @property
    def seconds(self) -> float:
        """The seconds since the budget was made."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float:
        """The seconds until the budget is empty if the searches go on at their rate so far."""
        seconds = self.seconds
        left = (self.max_states - self.states) * seconds / max(self.states, 1)
        return max(0.0, left if self.timeout is None else min(left, self.timeout - seconds))

    def cancel(self) -> None:
        """End the search at its next state."""
        self.reason = self.reason or "interrupted"

    def must_end(self, states: int) -> bool:
        """Note how many states the search that runs has reached, and return whether it must end."""
        self._running = states
        if self.states > self.max_states:
            self.reason = self.reason or f"more than {self.max_states:,} states"
        self._checks += 1
        if not self._checks & 127:  # Reading the clock for every state would slow a search down.
            now = time.monotonic()
            if self.timeout is not None and now - self._started > self.timeout:
                self.reason = self.reason or f"not done after {self.timeout:g} s"
            if self._progress is not None and now - self._reported >= self._interval:
                self._reported = now
                self._progress(self)
        return bool(self.reason)

    def end_search(self) -> None:
        """Note that the search that ran has ended: its states stay spent, and the next search counts from 0."""
        self._ended, self._running = self.states, 0


def tell_progress(budget: Budget) -> None:
    """Write to standard error how far a search is, even if standard error is not a terminal."""
    label = f"{budget.label}: " if budget.label else ""
    rate, left = budget.states / max(budget.seconds, 1e-9), budget.seconds_left
    within = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min" if left < 7200 else "some hours"
    progress = f"{budget.states} states, {budget.seconds:.0f} s, {rate:.0f} states/s; ends within {within}"
    print(f"{label}{progress}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Search(Generic[State]):
    """The result of a search: `parents` maps each state to the one it was first reached from; `depth` is the most steps
    to a state; `seconds` is the time on the clock, `cpu_seconds` the processor's time."""

    parents: dict[State, State | None]
    complete: bool
    transitions: int
    depth: int
    seconds: float
    cpu_seconds: float

    def path(self, state: State) -> list[State]:
        """The states of a shortest path from an initial state to `state`, both included."""
        path = [state]
        while (parent := self.parents[path[-1]]) is not None:
            path.append(parent)
        return path[::-1]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Switch off the garbage collector: it would traverse millions of tuples in vain, since they have no cycles.

    Only CPython frees objects without the collector, so on other interpreters it stays on.
    """
    collecting = gc.isenabled() and sys.implementation.name == "cpython"
    if collecting:
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def breadth_first(
    initial: State,
    successors: Callable[[State], Iterable[State]],
    visit: Callable[[State], bool],
    budget: Budget,
    key: Callable[[State], Hashable] | None = None,
) -> Search[State]:
    """Reach every state; `visit` sees each once, in order of distance, and ends the search by returning True.

    Of states with the same `key`, the nearest stands for all. A search that `visit` or the budget ends is incomplete.
    """
    started, cpu_started = time.monotonic(), time.process_time()
    parents: dict[State, State | None] = {initial: None}
    keys = set() if key is None else {key(initial)}
    represented: set[State] = set()
    frontier = [initial]
    transitions = depth = 0

    def result(complete: bool) -> Search[State]:
        budget.end_search()
        seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
        return Search(parents, complete, transitions, depth, seconds, cpu_seconds)

    with no_garbage_collection():
        while frontier:
            reached: list[State] = []
            for state in frontier:
                if visit(state) or budget.must_end(len(parents)):
                    return result(False)
                for successor in successors(state):
                    transitions += 1
                    if successor in parents or successor in represented:
                        continue
                    if key is not None:
                        if (successor_key := key(successor)) in keys:
                            represented.add(successor)
                            continue
                        keys.add(successor_key)
                    parents[successor] = state
                    reached.append(successor)
            frontier = reached
            depth += bool(reached)
    return result(True)


def fewest_faults_first(
    initial: Iterable[State],
    successors: Callable[[State], Iterable[State]],
    visit: Callable[[State], bool],
    faults: Callable[[State], int],
    split_abilities: Callable[[State], tuple[Hashable, int]],
    budget: Budget,
) -> Search[State]:
    """Reach the states in order of faults, then of steps, except those that can do and show no more than another one.

    The search begins in each initial state. `faults` counts the faults that have struck before a state; no step makes
    it smaller. `split_abilities` splits a state into the rest and its abilities, a bit set: of two states with the same
    rest, the one that has all the abilities of the other, and perhaps more, shows all that the other shows and can take
    all its steps. So a state is left out if one with the same rest and all its abilities came before. Of all states
    that show the same anomaly, the first that `visit` sees has the path with the fewest faults, and of those the fewest
    steps. `visit` ends the search by returning True. `complete` is False if `visit` or the budget ended it.
    """
    started, cpu_started = time.monotonic(), time.process_time()
    parents: dict[State, State | None] = {}
    reached_by_rest: dict[Hashable, list[int]] = {}
    waiting: dict[tuple[int, int], dict[State, State | None]] = {}
    for state in initial:
        waiting.setdefault((faults(state), 0), {})[state] = None
    transitions = deepest = 0

    def result(complete: bool) -> Search[State]:
        budget.end_search()
        seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
        return Search(parents, complete, transitions, deepest, seconds, cpu_seconds)

    with no_garbage_collection():
        while waiting:
            struck, depth = min(waiting)
            deepest = max(deepest, depth)
            for state, parent in waiting.pop((struck, depth)).items():
                rest, abilities = split_abilities(state)
                reached_abilities = reached_by_rest.setdefault(rest, [])
                if any(abilities & other == abilities for other in reached_abilities):
                    continue
                reached_abilities.append(abilities)
                parents[state] = parent
                if visit(state) or budget.must_end(len(parents)):
                    return result(False)
                for successor in successors(state):
                    transitions += 1
                    if successor not in parents:
                        waiting.setdefault((faults(successor), depth + 1), {}).setdefault(successor, state)
    return result(True)
