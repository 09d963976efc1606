"""What the models in lock step have in common: steps, the states in which they settle, and observations.

A state has settled when nothing urgent is left to happen. Other things may or may not have happened by then, so a model
has a set of states. A real cluster conforms if an observation of it matches one of them. `narrow` keeps the states that
match, so that later steps are as exact as the observations allow.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from kafka_chaos.reference_model.lockstep.observation import Comparison, Observation, compare
from kafka_chaos.reference_model.lockstep.state import ActionError
from kafka_chaos.reference_model.search import ScopeNotExhausted

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Step:
    """One external action of a scenario: its name among a model's actions, and its arguments."""

    name: str
    arguments: tuple[tuple[str, Any], ...] = ()


def step(name: str, **arguments: Any) -> Step:
    """A step with these arguments; only the model to which it is applied knows whether it has such an action."""
    return Step(name, tuple(sorted(arguments.items())))


class SteppedModel(ABC, Generic[S]):
    """A model in lock step: the `states` that it may be in now, and its external `actions` by name.

    `most_states`: how many states it may pass between two steps.
    """

    actions: ClassVar[Mapping[str, Callable[..., Any]]]
    most_states: ClassVar[int] = 20_000
    states: frozenset[S]

    def apply(self, step: Step) -> frozenset[S]:
        """Take an external action in each of the `states`, and settle.

        Raises `ActionError` if there is no such action, if it is possible in no state, or if its arguments do not fit.
        """
        if step.name not in self.actions:
            raise ActionError(f"{step.name!r}: expected an action out of {', '.join(sorted(self.actions))}")
        arguments, after = dict(step.arguments), list[S]()
        refusal = ActionError(f"{step.name} {arguments}: impossible in every state")
        for state in self.states:
            try:
                after.extend(self.after(self.actions[step.name], state, **arguments))
            except ActionError as error:
                refusal = error
            except TypeError as error:
                raise ActionError(f"{step.name}: {error}") from error
        if not after:
            raise refusal
        self.states = self.settle(after)
        return self.states

    def settle(self, states: Iterable[S]) -> frozenset[S]:
        """Every settled state that internal actions lead to; raises `ScopeNotExhausted` if they are too many."""
        return frozenset(settled(states, self.following, self.most_states))

    @abstractmethod
    def after(self, act: Callable[..., Any], state: S, **arguments: Any) -> Iterable[S]:
        """The states right after one of the `actions`; none, or `ActionError`, where it is impossible."""

    @abstractmethod
    def following(self, state: S) -> Iterable[tuple[S, bool]]:
        """The next states by internal actions, and whether each is urgent."""

    @abstractmethod
    def observe(self, state: S) -> Observation:
        """What a complete observation of a cluster in this state shows."""

    def compare(self, observation: Observation) -> Comparison[S]:
        """Whether an observation matches one of the `states`, and if not, what differs."""
        return compare({state: self.observe(state) for state in self.states}, observation)

    def narrow(self, observation: Observation) -> Comparison[S]:
        """Compare as `compare` does, and keep only the states that match, if any do."""
        comparison = self.compare(observation)
        self.states = comparison.matching or self.states
        return comparison


def settled(start: Iterable[S], following: Callable[[S], Iterable[tuple[S, bool]]], most_states: int) -> set[S]:
    """The states in which nothing urgent is left to happen. `following`: each next state, and whether it is urgent.

    Raises `ScopeNotExhausted` after more than `most_states` states on the way.
    """
    passed = set(start)
    frontier, reached = list(passed), set[S]()
    while frontier:
        state = frontier.pop()
        is_settled = True
        for after, is_urgent in following(state):
            is_settled = is_settled and not is_urgent
            if after not in passed:
                passed.add(after)
                frontier.append(after)
        if is_settled:
            reached.add(state)
        if len(passed) > most_states:
            raise ScopeNotExhausted(f"more than {most_states} states between two steps")
    return reached
