"""What the models of `transactions/` and `groups/` share: the search for anomalies, and the stories told of them.

The model of a lane (`lane/`) uses only `shown`. Its searches leave out states that can do and show no more
than another one, and its stories name brokers that the search does not tell apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

from kafka_chaos.reference_model.search import Budget, Search, breadth_first

Setup = TypeVar("Setup")
AskedSetup = TypeVar("AskedSetup", covariant=True)
State = TypeVar("State", bound=Hashable)
Action = TypeVar("Action")
End = TypeVar("End")
AnomalyKind = TypeVar("AnomalyKind", bound=Hashable)
AskedKind = TypeVar("AskedKind", covariant=True)

Story = tuple[str, ...]
MOST_DEFECT_STATES = 200_000
"""The most states that a search with a known defect may reach. It may end early: only what it finds is reported."""


class Question(Hashable, Protocol[AskedSetup, AskedKind]):
    """Everything that an answer depends on; equal questions have equal answers."""

    def searches(self) -> Iterator[tuple[AskedSetup, Set[AskedKind]]]:
        """Yield the setup of each search, with the anomalies to search for."""


@dataclass(slots=True)
class Findings(Generic[AnomalyKind]):
    """The shortest story to each anomaly that was found, and the number of states searched.

    If `complete`, all other anomalies are unreachable.
    """

    stories: dict[AnomalyKind, Story] = field(default_factory=dict)
    states: int = 0
    complete: bool = True


def shown(
    end: End | None, checks: Mapping[AnomalyKind, Callable[[End], bool]], wanted: Iterable[AnomalyKind] | None = None
) -> frozenset[AnomalyKind]:
    """The `wanted` anomalies (all by default) that a run shows. `end`: the evidence of a finished run, else None."""
    if end is None:
        return frozenset()
    return frozenset([anomaly for anomaly in (checks if wanted is None else wanted) if checks[anomaly](end)])


@dataclass(frozen=True, slots=True)
class Machine(Generic[Setup, State, Action, End, AnomalyKind]):
    """A model as a set of functions, most of which take the `Setup`: the rules and the scope of a search.

    `actions`: each yields every way in which its action can be taken in a state. `canonical`: the representative of all
    states that behave alike. `nameless`: a value that is equal for states that differ only in names, such as those of
    members; stories keep the names. `ending`: the evidence of a run that ends in a state, None if no run can end there.
    `checks`: by anomaly, whether an ending shows it. A story has the sentences of `beginning`, a `sentence` for each
    action with the states before and after it, and the `conclusion`.
    """

    name: str
    initial: Callable[[Setup], State]
    actions: Sequence[Callable[[State, Setup], Iterator[tuple[Action, State]]]]
    canonical: Callable[[State, Setup], State]
    ending: Callable[[State, Setup], End | None]
    checks: Mapping[AnomalyKind, Callable[[End], bool]]
    sentence: Callable[[Action, State, State, Setup], str]
    conclusion: Callable[[State, Setup], str]
    beginning: Story = ()
    nameless: Callable[[State, Setup], Hashable] | None = None
    _complete: dict[Any, Findings[AnomalyKind]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def steps(self, state: State, setup: Setup) -> Iterator[tuple[Action, State]]:
        """Yield every possible (action, next state); the next states are not yet `canonical`."""
        for action in self.actions:
            yield from action(state, setup)

    def search(
        self, wanted: Set[AnomalyKind], setup: Setup, budget: Budget
    ) -> tuple[Search[State], dict[AnomalyKind, State]]:
        """Search one scope. Return the search, and for each anomaly that it found the nearest state that shows it."""
        nearest: dict[AnomalyKind, State] = {}

        def visit(state: State) -> bool:
            new = shown(self.ending(state, setup), self.checks, wanted - nearest.keys())
            nearest.update(dict.fromkeys(new, state))
            return nearest.keys() >= wanted

        def successors(state: State) -> list[State]:
            return [self.canonical(after, setup) for _, after in self.steps(state, setup)]

        nameless = self.nameless
        key = None if nameless is None else lambda state: nameless(state, setup)
        return breadth_first(self.canonical(self.initial(setup), setup), successors, visit, budget, key), nearest

    def tell(self, path: Sequence[State], setup: Setup) -> Story:
        """The sentences for a path from the initial state to one in which the run ends."""
        sentences = list(self.beginning)
        for before, after in pairwise(path):
            matching = (step for step in self.steps(before, setup) if self.canonical(step[1], setup) == after)
            action, reached = next(matching)
            sentences.append(self.sentence(action, before, reached, setup))
        return (*sentences, self.conclusion(path[-1], setup))

    def examine(self, question: Question[Setup, AnomalyKind], budget: Budget) -> Findings[AnomalyKind]:
        """The findings of all searches that a question asks for; an empty budget leaves them incomplete.

        Complete findings are kept, because many lanes ask the same question.
        """
        if question in self._complete:
            return self._complete[question]
        findings = Findings[AnomalyKind]()
        for setup, anomalies in question.searches():
            wanted = anomalies - findings.stories.keys()
            if not wanted or not findings.complete:
                continue
            budget.label = self.name
            search, nearest = self.search(wanted, setup, budget)
            findings.states += len(search.parents)
            findings.complete = search.complete or nearest.keys() >= wanted
            findings.stories |= {anomaly: self.tell(search.path(state), setup) for anomaly, state in nearest.items()}
        if findings.complete:
            self._complete[question] = findings
        return findings

    def stories(self, wanted: Set[AnomalyKind], setup: Setup) -> dict[AnomalyKind, Story]:
        """The stories to those wanted anomalies that a defect makes reachable in one scope."""
        search, nearest = self.search(wanted, setup, Budget(MOST_DEFECT_STATES))
        return {anomaly: self.tell(search.path(state), setup) for anomaly, state in nearest.items()}
