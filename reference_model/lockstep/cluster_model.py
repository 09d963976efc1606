"""The model as an interpreter of scenarios: action by action, every state the cluster may settle in.

A state has settled when nothing urgent is left to happen. What may or may not have happened by then (a parked
fetch that ended, a checkpoint that was written) makes the set: a real cluster that shows one of its members
conforms, any other does not. `narrow` keeps the members that were observed, so that later steps are as exact
as the observations allow.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_chaos.reference_model.lockstep.brokers import (
    Outcome,
    checkpoint_meanwhile,
    deliver,
    deliver_news_of_isr,
    end_parked_fetch,
    fetch,
    truncate,
)
from kafka_chaos.reference_model.lockstep.clients import answer, send, send_astray, send_to_unnamed
from kafka_chaos.reference_model.lockstep.controller import (
    complete_reassignment,
    controller_takes_over,
    expand_isr,
    session_ends,
    shrink_isr,
)
from kafka_chaos.reference_model.lockstep.environment import ACTIONS
from kafka_chaos.reference_model.lockstep.observation.cluster import Comparison, Observation, compare
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.lockstep.quorum import active_controller_changes, doubted_sessions_end
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState
from kafka_chaos.reference_model.search import ScopeNotExhausted

Internal = Callable[[ClusterState, ClusterConfig], Iterator[Outcome]]

URGENT: tuple[Internal, ...] = (
    session_ends,
    controller_takes_over,
    active_controller_changes,
    doubted_sessions_end,
    deliver,
    truncate,
    fetch,
    expand_isr,
    shrink_isr,
    complete_reassignment,
    send,
    answer,
)
OPTIONAL: tuple[Internal, ...] = (end_parked_fetch, send_astray, send_to_unnamed)
MAX_STATES = 200_000

Checkpoints = tuple[int, ...]
"""Each replica's checkpointed high watermark."""
_AS_BEFORE = -1


@dataclass(frozen=True, slots=True)
class Step:
    """One external action of a scenario: its name in `ACTIONS`, and its arguments."""

    name: str
    arguments: tuple[tuple[str, Any], ...] = ()


def step(name: str, **arguments: Any) -> Step:
    """A step by name; an unknown one raises `ActionError`."""
    return step_of(ACTIONS, name, **arguments)


def step_of(actions: Collection[str], name: str, **arguments: Any) -> Step:
    """A step by the name of one of these actions; an unknown one raises `ActionError`."""
    if name not in actions:
        raise ActionError(f"{name!r}: expected an action out of {', '.join(sorted(actions))}")
    return Step(name, tuple(sorted(arguments.items())))


class _Search(NamedTuple):
    """The states that were passed, each with its story, and those of them that have settled."""

    passed: dict[ClusterState, tuple[str, ...]]
    settled: list[ClusterState]


@dataclass(slots=True)
class ClusterModel:
    """A cluster under a configuration, and the states it may be in now."""

    config: ClusterConfig
    urgent: tuple[Internal, ...] = URGENT
    optional: tuple[Internal, ...] = OPTIONAL
    states: frozenset[ClusterState] = field(default_factory=frozenset)
    stories: dict[ClusterState, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.states:
            self.states = self.settle([self.config.initial()])

    def apply(self, action: Step) -> frozenset[ClusterState]:
        """Take an external action in every state there may be, and settle.

        Raises `ActionError` if the action is possible in none of them, or its arguments do not fit.
        """
        after, refused = [], None
        for state in self.states:
            try:
                after.append(ACTIONS[action.name](state, self.config, **dict(action.arguments)))
            except ActionError as error:
                refused = error
            except TypeError as error:
                raise ActionError(f"{action.name}: {error}") from error
        if not after and refused is not None:
            raise refused
        self.states = self.settle(after)
        return self.states

    def settle(self, states: Iterable[ClusterState]) -> frozenset[ClusterState]:
        """Every settled state that internal actions lead to, with the shortest story to each in `stories`.

        Raises `ScopeNotExhausted` beyond `MAX_STATES` states. Nothing that happens between two steps depends on
        checkpoints: states that differ in them alone are searched once, and what was written meanwhile is added at the
        end.
        """
        checkpoints: dict[ClusterState, list[Checkpoints]] = {}
        for state in states:
            bare, written = _without_checkpoints(state)
            checkpoints.setdefault(bare, []).append(written)
        self.stories = {}
        passed = 0
        for bare, all_written in checkpoints.items():
            stories = self._run_until_settled(bare, MAX_STATES - passed)
            passed += len(stories.passed)
            for written in all_written:
                for settled in stories.settled:
                    self.stories.setdefault(_with_checkpoints(settled, written), stories.passed[settled])
        return frozenset(self._closure(list(self.stories)))

    def _run_until_settled(self, start: ClusterState, most: int) -> _Search:
        search = _Search({start: ()}, [])
        frontier = [start]
        while frontier:
            reached = []
            for state in frontier:
                is_settled = True
                for sentence, after in self._internal(state):
                    is_settled = is_settled and sentence is None
                    if after not in search.passed:
                        story = search.passed[state]
                        search.passed[after] = (*story, sentence) if sentence else story
                        reached.append(after)
                if is_settled:
                    search.settled.append(state)
            if len(search.passed) > most:
                raise ScopeNotExhausted(f"more than {MAX_STATES} states between two steps")
            frontier = reached
        return search

    def _closure(self, settled: list[ClusterState]) -> set[ClusterState]:
        """The settled states with every checkpoint that may have been written on the way."""
        closure = set(settled)
        frontier = settled
        while frontier:
            reached = []
            for state in frontier:
                for _, after in checkpoint_meanwhile(state, self.config):
                    if after not in closure:
                        closure.add(after)
                        self.stories.setdefault(after, self.stories[state])
                        reached.append(after)
            frontier = reached
        return closure

    def _internal(self, state: ClusterState) -> Iterator[tuple[str | None, ClusterState]]:
        """Each internal action's outcome; without a sentence if it is optional. One that commutes with all others comes
        alone: whether they come before or after it, the cluster settles in the same states."""
        if self.config.kraft and (first := next(deliver_news_of_isr(state), None)) is not None:
            yield first
            return
        for urgent in self.urgent:
            yield from urgent(state, self.config)
        for optional in self.optional:
            for _, after in optional(state, self.config):
                yield None, after

    def compare(self, observation: Observation) -> Comparison[ClusterState]:
        """Whether an observation is one of the states there may be, and if not, what differs."""
        return compare(self.states, observation)

    def narrow(self, observation: Observation) -> Comparison[ClusterState]:
        """`compare`, and keep only the states that match, if any do."""
        comparison = self.compare(observation)
        if comparison.matching:
            self.states = comparison.matching
        return comparison


def _without_checkpoints(state: ClusterState) -> tuple[ClusterState, Checkpoints]:
    written = tuple(replica.checkpointed_high_watermark for replica in state.replicas)
    bare = tuple(replica._replace(checkpointed_high_watermark=_AS_BEFORE) for replica in state.replicas)
    return state._replace(replicas=bare), written


def _with_checkpoints(state: ClusterState, written: Checkpoints) -> ClusterState:
    """The state with the checkpoints from before, except those of replicas that were deleted meanwhile."""
    replicas = tuple(
        replica._replace(checkpointed_high_watermark=value)
        if replica.checkpointed_high_watermark == _AS_BEFORE
        else replica
        for replica, value in zip(state.replicas, written, strict=True)
    )
    return state._replace(replicas=replicas)
