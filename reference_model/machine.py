"""Common to the machines of `transactions/` and `groups/`: the search for anomalies, and the sentences of traces.

The lane (`lane/`) has only `shown` of it: its searches leave out states that others make superfluous, and its stories
name brokers that the search does not tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

from kafka_chaos.reference_model.search import Budget, Search, breadth_first

Setup = TypeVar("Setup")
Asked = TypeVar("Asked", covariant=True)
State = TypeVar("State", bound=Hashable)
Action = TypeVar("Action")
End = TypeVar("End")
Kind = TypeVar("Kind", bound=Hashable)
Answer = TypeVar("Answer", covariant=True)

Story = tuple[str, ...]
DEFECT_STATES = 200_000
"""A defect's search may end early: what it finds is reachable, and of the rest nothing is said."""


class Question(Hashable, Protocol[Asked, Answer]):
    """Everything that an answer depends on."""

    def searches(self) -> Iterator[tuple[Asked, Set[Answer]]]:
        """Each search: its setup, and the anomalies that it may answer for."""


@dataclass(slots=True)
class Findings(Generic[Kind]):
    """The shortest story to each anomaly that is reachable, and the states searched; the rest is unreachable if
    `complete`."""

    stories: dict[Kind, Story] = field(default_factory=dict)
    states: int = 0
    complete: bool = True


def shown(
    end: End | None, checks: Mapping[Kind, Callable[[End], bool]], wanted: Iterable[Kind] | None = None
) -> frozenset[Kind]:
    """Those of the wanted anomalies (of all) that a run leaves behind; none if it can't end yet."""
    if end is None:
        return frozenset()
    return frozenset([anomaly for anomaly in (checks if wanted is None else wanted) if checks[anomaly](end)])


@dataclass(frozen=True, slots=True)
class Machine(Generic[Setup, State, Action, End, Kind]):
    """A machine by its functions, each of which also takes the `Setup`: rules and scope of a search.

    Each of `actions` yields every way in which it can be taken in a state; `canonical` is the representative of all
    states that behave alike; `nameless` is equal for those that do so but for names, which stories keep apart; `ending`
    is what a run leaves behind that ends in a state, None if it can't end there; `checks` tell which anomalies that
    shows. A story has the sentences of `beginning`, one for each action with the states before and after it, and
    `conclusion`.
    """

    name: str
    initial: Callable[[Setup], State]
    actions: Sequence[Callable[[State, Setup], Iterator[tuple[Action, State]]]]
    canonical: Callable[[State, Setup], State]
    ending: Callable[[State, Setup], End | None]
    checks: Mapping[Kind, Callable[[End], bool]]
    sentence: Callable[[Action, State, State, Setup], str]
    conclusion: Callable[[State, Setup], str]
    beginning: Story = ()
    nameless: Callable[[State, Setup], Hashable] | None = None
    _complete: dict[Any, Findings[Kind]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def steps(self, state: State, setup: Setup) -> Iterator[tuple[Action, State]]:
        """Every (action, next state); the next states are not yet `canonical`."""
        for action in self.actions:
            yield from action(state, setup)

    def search(self, wanted: Set[Kind], setup: Setup, budget: Budget) -> tuple[Search[State], dict[Kind, State]]:
        """Search one scope, and the nearest state that shows each of the wanted anomalies."""
        first: dict[Kind, State] = {}

        def visit(state: State) -> bool:
            found = shown(self.ending(state, setup), self.checks, wanted - first.keys())
            first.update(dict.fromkeys(found, state))
            return first.keys() >= wanted

        def successors(state: State) -> list[State]:
            return [self.canonical(after, setup) for _, after in self.steps(state, setup)]

        nameless = self.nameless
        key = None if nameless is None else lambda state: nameless(state, setup)
        return breadth_first(self.canonical(self.initial(setup), setup), successors, visit, budget, key), first

    def tell(self, path: Sequence[State], setup: Setup) -> Story:
        """The sentences for a path from the initial state to one in which the run ends."""
        sentences = list(self.beginning)
        for before, after in pairwise(path):
            taken = (step for step in self.steps(before, setup) if self.canonical(step[1], setup) == after)
            action, reached = next(taken)
            sentences.append(self.sentence(action, before, reached, setup))
        return (*sentences, self.conclusion(path[-1], setup))

    def examine(self, question: Question[Setup, Kind], budget: Budget) -> Findings[Kind]:
        """Search until no anomaly is open or nothing is left; an empty budget leaves the findings incomplete.

        Many lanes ask the same: complete findings are kept.
        """
        if question in self._complete:
            return self._complete[question]
        found = Findings[Kind]()
        for setup, answers in question.searches():
            wanted = answers - found.stories.keys()
            if not wanted or not found.complete:
                continue
            budget.label = self.name
            search, first = self.search(wanted, setup, budget)
            found.states += len(search.parents)
            found.complete = search.complete or first.keys() >= wanted
            found.stories |= {anomaly: self.tell(search.path(state), setup) for anomaly, state in first.items()}
        if found.complete:
            self._complete[question] = found
        return found

    def stories(self, wanted: Set[Kind], setup: Setup) -> dict[Kind, Story]:
        """The anomalies that a defect makes reachable in one scope."""
        search, first = self.search(wanted, setup, Budget(DEFECT_STATES))
        return {anomaly: self.tell(search.path(state), setup) for anomaly, state in first.items()}
