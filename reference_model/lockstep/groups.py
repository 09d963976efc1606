"""A consumer group in lock step, by the rules of `reference_model/groups/`: what steps do, and what follows by itself.

Those rules tell of one partition. A group that reads several is in a state of each at once: its members join, leave,
die and begin a generation in all of them together. A generation in which one partition was given back is followed by
one in which no other is, unless members come or go: assignors that are cooperative are sticky (KIP-429). With the
protocol `consumer` members have epochs of their own, so it may read one partition only, and generations are not
compared.

What follows by itself is urgent, except that the coordinator removes a member that it does not hear from: that may
happen at any time, to a member that is dead or frozen. A frozen member does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from kafka_chaos.contract.groups import OF_GROUPS
from kafka_chaos.reference_model.groups.anomalies import CHECKS, ending
from kafka_chaos.reference_model.groups.examine import GROUPS
from kafka_chaos.reference_model.groups.state import ACTIVE, DEAD, NONE, Setup, State, initial_state, slots_in
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, Step
from kafka_chaos.reference_model.lockstep.group_observation import (
    COMMITTED,
    GIVEN,
    NOBODY,
    PROCESSED,
    REFUSED,
    Deed,
    GroupObservation,
    MemberObservation,
)
from kafka_chaos.reference_model.lockstep.observation import GROUP, Comparison, Difference, Observation, nearest
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.lockstep.state import ClusterState
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.search import ScopeNotExhausted
from kafka_chaos.reference_model.tuples import exchanged

MAX_STATES = 20_000


class GroupState(NamedTuple):
    """A state of the rules for each partition, the slots of members that are frozen, and by slot what members did.

    `gave_back`: some partition was given back in the last generation, and nobody has come or gone since.
    """

    partitions: tuple[State, ...]
    frozen: frozenset[int]
    did: tuple[tuple[Deed, ...], ...]
    gave_back: bool = False


def first_state(setup: Setup, partitions: int) -> GroupState:
    """One member has all partitions and has read nothing yet. Raises `ActionError` for what this can't follow."""
    if partitions > 1 and not setup.rules.waits_for_all:
        raise ActionError(f"{partitions} partitions: expected one with the protocol consumer")
    return GroupState((initial_state(setup),) * partitions, frozenset(), ((),) * setup.slots)


# --- Steps of scenarios ----------------------------------------------------------------------------------------------


def _at_partition(name: str, deed: str) -> Callable[[GroupState, Setup, int, int], Iterator[GroupState]]:
    """What a member does with a record of one partition."""

    def act(state: GroupState, setup: Setup, slot: int, partition: int) -> Iterator[GroupState]:
        for action, after in GROUPS.steps(state.partitions[partition], setup):
            if action.name == name and action.slot == slot and slot not in state.frozen:
                parts = exchanged(state.partitions, partition, after)
                done = (*state.did[slot], (deed, partition, action.offset))
                yield state._replace(partitions=parts, did=exchanged(state.did, slot, done))

    return act


def _of_group(name: str) -> Callable[[GroupState, Setup, int], Iterator[GroupState]]:
    """What happens to a member in all partitions at once."""

    def act(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
        choices = [
            [after for action, after in GROUPS.steps(part, setup) if action.name == name and action.slot == slot]
            for part in state.partitions
        ]
        for parts in product(*choices):
            yield state._replace(partitions=parts, gave_back=state.gave_back and name == "join_again")

    return act


def _freeze(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
    if slot not in state.frozen:
        yield state._replace(frozen=state.frozen | {slot})


def _thaw(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
    if slot in state.frozen:
        yield state._replace(frozen=state.frozen - {slot})


def _any_of(*acts: Callable[..., Iterator[GroupState]]) -> Callable[..., Iterator[GroupState]]:
    def act(state: GroupState, setup: Setup, slot: int, partition: int) -> Iterator[GroupState]:
        for one in acts:
            yield from one(state, setup, slot, partition)

    return act


ACTIONS: Mapping[str, Callable[..., Iterator[GroupState]]] = {
    "member_polls": _at_partition("poll", GIVEN),
    "member_processes": _at_partition("process", PROCESSED),
    "member_commits": _any_of(
        _at_partition("commit", COMMITTED), _at_partition("auto_commit", COMMITTED), _at_partition("refused", REFUSED)
    ),
    "member_joins": _of_group("join"),
    "member_leaves": _of_group("leave"),
    "member_crashes": _of_group("crash"),
    "member_comes_back": _of_group("come_back"),
    "member_freezes": _freeze,
    "member_thaws": _thaw,
}


def group_step(name: str, *, member: int, partition: int | None = None) -> Step:
    """A step of a member by name; an unknown one raises `ActionError`."""
    if name not in ACTIONS:
        raise ActionError(f"{name!r}: expected an action out of {', '.join(sorted(ACTIONS))}")
    where = () if partition is None else (("partition", partition),)
    return Step(name, (*where, ("slot", member - 1)))


# --- What follows by itself ------------------------------------------------------------------------------------------


def urgent(state: GroupState, setup: Setup) -> Iterator[GroupState]:
    """What members that are not frozen do without being told, and how a generation begins."""
    for slot in range(setup.slots):
        if slot in state.frozen:
            continue
        if all(part.members[slot].phase == ACTIVE for part in state.partitions):
            yield from _of_group("join")(state, setup, slot)
        for name in ("join_again", "learn"):
            yield from _of_group(name)(state, setup, slot)
        for partition, part in enumerate(state.partitions):
            for action, after in GROUPS.steps(part, setup):
                if action.name == "ask" and action.slot == slot:
                    yield state._replace(partitions=exchanged(state.partitions, partition, after))
    yield from _begin_generation(state, setup)


def optional(state: GroupState, setup: Setup) -> Iterator[GroupState]:
    """The coordinator removes a member that is dead, or one that is frozen."""
    for slot in range(setup.slots):
        if slot in state.frozen:
            yield from _of_group("remove")(state, setup, slot)
        if any(part.members[slot].phase == DEAD for part in state.partitions):
            yield from _of_group("expire")(state, setup, slot)


def _begin_generation(state: GroupState, setup: Setup) -> Iterator[GroupState]:
    """A generation begins in all partitions; if one of them was given back in it, another one is due.

    One of nobody begins when the last member is gone.
    """
    if setup.rules.waits_for_all and state.partitions[0].preparing and not slots_in(state.partitions[0]):
        yield state._replace(partitions=tuple(map(_of_nobody, state.partitions)))
    choices = [
        [
            after
            for action, after in GROUPS.steps(part, setup)
            if action.name == "assign"
            or (action.name == "give_back" and action.slot not in state.frozen and not state.gave_back)
        ]
        for part in state.partitions
    ]
    for parts in product(*choices):
        is_due = any(part.preparing for part in parts)
        together = tuple(part._replace(preparing=is_due) for part in parts)
        yield state._replace(partitions=together, gave_back=is_due)


def _of_nobody(part: State) -> State:
    coordinator = part.coordinator._replace(generation=part.coordinator.generation + 1)
    return part._replace(coordinator=coordinator, preparing=False)


# --- The model -------------------------------------------------------------------------------------------------------


@dataclass
class GroupModel:
    """A group under a setup, and the states that it may be in now."""

    setup: Setup
    states: frozenset[GroupState]

    def __post_init__(self) -> None:
        self.states = self.settled(self.states)

    def apply(self, action: Step) -> None:
        """Take a step in every state there may be. Raises `ActionError` if it is possible in none of them."""
        act = ACTIONS[action.name]
        after = [found for state in self.states for found in act(state, self.setup, **dict(action.arguments))]
        if not after:
            raise ActionError(f"{action.name} {dict(action.arguments)}: impossible in every state of the group")
        self.states = self.settled(after)

    def settled(self, states: Iterable[GroupState]) -> frozenset[GroupState]:
        """Every state in which nothing urgent is left to happen; raises `ScopeNotExhausted` beyond `MAX_STATES`."""
        known = set(states)
        frontier, found = list(known), set()
        while frontier:
            state = frontier.pop()
            follows = list(urgent(state, self.setup))
            if not follows:
                found.add(state)
            for after in (*follows, *optional(state, self.setup)):
                if after not in known:
                    known.add(after)
                    frontier.append(after)
            if len(known) > MAX_STATES:
                raise ScopeNotExhausted(f"more than {MAX_STATES} states of a group between two steps")
        return frozenset(found)

    def compare(self, seen: GroupObservation) -> tuple[frozenset[GroupState], tuple[Difference, ...]]:
        """The states that match an observation, or, if none does, what differs."""
        return nearest({state: self._mismatches(state, seen) for state in self.states})

    def _mismatches(self, state: GroupState, seen: GroupObservation) -> dict[tuple[int, str], tuple[object, object]]:
        expected = observe_group(state, self.setup).values()
        return {
            (GROUP, name): (value, expected[name])
            for name, value in seen.values().items()
            if name in expected and expected[name] != value
        }

    def anomalies(self) -> list[str]:
        """What the group would have shown if the run ended now, by the definitions of docs/anomalies.md."""
        ends = [ending(part, self.setup) for state in self.states for part in state.partitions]
        found = {anomaly for end in ends for anomaly in shown(end, CHECKS, OF_GROUPS)}
        return sorted(str(anomaly) for anomaly in found)


def observe_group(state: GroupState, setup: Setup) -> GroupObservation:
    """A state of the model, as one would observe all of it."""
    first = state.partitions[0]
    each = {
        slot + 1: MemberObservation(
            generation=max(member.generation, 0) if setup.rules.waits_for_all else None,
            has=tuple(number for number, part in enumerate(state.partitions) if part.members[slot].owns),
            did=state.did[slot],
        )
        for slot, member in enumerate(first.members)
    }
    return GroupObservation(
        members=tuple(slot + 1 for slot in slots_in(first)),
        owners=tuple(
            NOBODY if part.coordinator.owner == NONE else part.coordinator.owner + 1 for part in state.partitions
        ),
        committed=tuple(part.coordinator.committed for part in state.partitions),
        each=each,
    )


class GroupedModel(ClusterModel):
    """A cluster, and a group that reads from it: each has its own states, and an observation must match both."""

    def __init__(self, cluster: ClusterModel, group: GroupModel) -> None:
        self.group = group
        super().__init__(cluster.config, cluster.urgent, cluster.optional, cluster.states)

    def apply(self, action: Step) -> frozenset[ClusterState]:
        """As `ClusterModel.apply`; steps of members too."""
        if action.name not in ACTIONS:
            return super().apply(action)
        self.group.apply(action)
        return self.states

    def settle(self, states: Iterable[ClusterState]) -> frozenset[ClusterState]:
        """As `ClusterModel.settle`; whatever the group does by itself may have happened meanwhile."""
        self.group.states = self.group.settled(self.group.states)
        return super().settle(states)

    def compare(self, observation: Observation) -> Comparison[ClusterState]:
        """As `ClusterModel.compare`, with the differences of the group after those of the cluster."""
        cluster = super().compare(observation)
        _, differences = self.group.compare(observation.group or GroupObservation())
        return Comparison(frozenset() if differences else cluster.matching, (*cluster.differences, *differences))

    def narrow(self, observation: Observation) -> Comparison[ClusterState]:
        """As `ClusterModel.narrow`, the group's states too."""
        matching, _ = self.group.compare(observation.group or GroupObservation())
        self.group.states = matching or self.group.states
        return super().narrow(observation)
