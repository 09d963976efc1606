"""A consumer group in lock step, by the rules of `reference_model/groups/`: what steps do, and what follows by itself.

Those rules describe one partition. A group that reads several has a state for each: its members join, leave, die and
begin a generation in all of them together. After a generation in which a partition was given back, the next one gives
none back unless members come or go: cooperative assignors are sticky (KIP-429). With the protocol `consumer` members
have epochs of their own, so the group may read one partition only, and generations are not compared.

What follows by itself is urgent, except that the coordinator removes a member that it does not hear from: that may
happen at any time, to a member that is dead or frozen. A frozen member does nothing. A static member whose
`group.instance.id` another one took over (KIP-345) is given no records and does nothing by itself; a step may still
tell it to commit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from kafka_chaos.contract.lane.groups import GROUP_ANOMALIES
from kafka_chaos.reference_model.groups.anomalies import CHECKS, ending
from kafka_chaos.reference_model.groups.examine import GROUPS
from kafka_chaos.reference_model.groups.state import ACTIVE, DEAD, NONE, Member, Setup, State, initial_state, slots_in
from kafka_chaos.reference_model.lockstep import observation as observed
from kafka_chaos.reference_model.lockstep.state import NOBODY, ActionError
from kafka_chaos.reference_model.lockstep.stepping import SteppedModel
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.tuples import with_item


class GroupState(NamedTuple):
    """The state of a group that reads several partitions: by partition, a state of the model of groups.

    `frozen`: the slots of frozen members. `did`: by slot, what the member did. `gave_back`: some partition was given
    back in the last generation, and no member has come or gone since. `replaced`: the slots of static members whose
    place another member has taken.
    """

    partitions: tuple[State, ...]
    frozen: frozenset[int]
    did: tuple[tuple[observed.Deed, ...], ...]
    gave_back: bool = False
    replaced: frozenset[int] = frozenset()


def first_state(setup: Setup, partitions: int) -> GroupState:
    """The state in which one member has all partitions and has read nothing yet.

    Raises `ActionError` for several partitions with the protocol `consumer`.
    """
    if partitions > 1 and not setup.rules.awaits_members:
        raise ActionError(f"{partitions} partitions: expected one with the protocol consumer")
    return GroupState((initial_state(setup),) * partitions, frozenset(), ((),) * setup.slots)


def _in_one_partition(**deeds: str) -> Callable[[GroupState, Setup, int, int], Iterator[GroupState]]:
    """A function that yields the states after a member has handled a record of one partition. `deeds`: what the member
    did then, by the name of the action in the model of groups."""

    def act(state: GroupState, setup: Setup, slot: int, partition: int) -> Iterator[GroupState]:
        for action, after in GROUPS.steps(state.partitions[partition], setup):
            if action.name not in deeds or action.slot != slot or slot in state.frozen:
                continue
            deed = deeds[action.name]
            if deed != observed.GIVEN or slot not in state.replaced:
                parts = with_item(state.partitions, partition, after)
                done = (*state.did[slot], (deed, partition, action.offset))
                yield state._replace(partitions=parts, did=with_item(state.did, slot, done))

    return act


def _in_all_partitions(name: str, state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
    """The states after a member has taken the action `name` of the model of groups in all partitions at once."""
    choices = [
        [after for action, after in GROUPS.steps(part, setup) if action.name == name and action.slot == slot]
        for part in state.partitions
    ]
    for parts in product(*choices):
        yield state._replace(partitions=parts, gave_back=state.gave_back and name == "join_again")


def _take_over(state: GroupState, setup: Setup, slot: int, former: int) -> Iterator[GroupState]:
    """A static member with the `group.instance.id` of member `former` takes over its partitions and generation."""
    former_slot, occupied = former - 1, slots_in(state.partitions[0])
    if setup.is_static and former_slot in occupied and slot not in occupied:
        parts = tuple(_with_successor(part, slot, former_slot) for part in state.partitions)
        yield state._replace(partitions=parts, replaced=state.replaced | {former_slot})


def _with_successor(part: State, slot: int, former: int) -> State:
    coordinator = part.coordinator
    generation, owns = coordinator.generations[former], coordinator.owner == former
    generations = with_item(with_item(coordinator.generations, former, NONE), slot, generation)
    owner = slot if owns else coordinator.owner
    after = part._replace(coordinator=coordinator._replace(generations=generations, owner=owner))
    # The successor counts as the same member, like one that comes back: the former one is given no more records.
    return after.with_member(slot, Member(ACTIVE, part.members[former].number, generation, owns=owns))


def _freeze(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
    if slot not in state.frozen:
        yield state._replace(frozen=state.frozen | {slot})


def _thaw(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
    if slot in state.frozen:
        yield state._replace(frozen=state.frozen - {slot})


ACTIONS: Mapping[str, Callable[..., Iterator[GroupState]]] = {
    "member_polls": _in_one_partition(poll=observed.GIVEN),
    "member_processes": _in_one_partition(process=observed.PROCESSED),
    "member_commits": _in_one_partition(
        commit=observed.COMMITTED, auto_commit=observed.COMMITTED, refused=observed.REFUSED
    ),
    "member_joins": partial(_in_all_partitions, "join"),
    "member_leaves": partial(_in_all_partitions, "leave"),
    "member_crashes": partial(_in_all_partitions, "crash"),
    "member_comes_back": partial(_in_all_partitions, "come_back"),
    "member_takes_over": _take_over,
    "member_freezes": _freeze,
    "member_thaws": _thaw,
}


def urgent_steps(state: GroupState, setup: Setup) -> Iterator[GroupState]:
    """The steps that members take on their own unless they are frozen, and the beginning of a generation."""
    for slot in range(setup.slots):
        if slot in state.frozen or slot in state.replaced:
            continue
        if all(part.members[slot].phase == ACTIVE for part in state.partitions):
            yield from _in_all_partitions("join", state, setup, slot)
        for name in ("join_again", "learn"):
            yield from _in_all_partitions(name, state, setup, slot)
        for partition, part in enumerate(state.partitions):
            for action, after in GROUPS.steps(part, setup):
                if action.name == "ask" and action.slot == slot:
                    yield state._replace(partitions=with_item(state.partitions, partition, after))
    yield from _begin_generation(state, setup)


def optional_steps(state: GroupState, setup: Setup) -> Iterator[GroupState]:
    """The coordinator removes a member that is dead, or one that is frozen."""
    for slot in range(setup.slots):
        if slot in state.frozen:
            yield from _in_all_partitions("remove", state, setup, slot)
        if any(part.members[slot].phase == DEAD for part in state.partitions):
            yield from _in_all_partitions("expire", state, setup, slot)


def _begin_generation(state: GroupState, setup: Setup) -> Iterator[GroupState]:
    """A generation begins in all partitions; if it gives one back, another generation is due.

    A generation without members begins when the last member is gone.
    """
    if setup.rules.awaits_members and state.partitions[0].preparing and not slots_in(state.partitions[0]):
        yield state._replace(partitions=tuple(map(_with_empty_generation, state.partitions)))
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


def _with_empty_generation(part: State) -> State:
    coordinator = part.coordinator._replace(generation=part.coordinator.generation + 1)
    return part._replace(coordinator=coordinator, preparing=False)


@dataclass
class GroupModel(SteppedModel[GroupState]):
    """A group under a setup, and the states that it may be in now."""

    actions = ACTIONS
    setup: Setup
    states: frozenset[GroupState]

    def __post_init__(self) -> None:
        self.states = self.settle(self.states)

    def after(self, act: Callable[..., Any], state: GroupState, **arguments: Any) -> Iterator[GroupState]:
        """The states right after a member's step; members are numbered from 1, and their slots from 0."""
        yield from act(state, self.setup, arguments.pop("member") - 1, **arguments)

    def observe(self, state: GroupState) -> observed.Observation:
        """What a complete observation of a group in this state shows."""
        by_member = {}
        for slot, member in enumerate(state.partitions[0].members):
            owned = tuple(number for number, part in enumerate(state.partitions) if part.members[slot].owns)
            is_replaced = slot in state.replaced  # Then its own view is not compared.
            by_member[slot + 1] = observed.MemberObservation(
                generation=max(member.generation, 0) if self.setup.rules.awaits_members and not is_replaced else None,
                has=None if is_replaced else owned,
                did=state.did[slot],
            )
        owners = [part.coordinator.owner for part in state.partitions]
        group = observed.GroupObservation(
            members=tuple(slot + 1 for slot in slots_in(state.partitions[0])),
            owners=tuple(NOBODY if slot == NONE else slot + 1 for slot in owners),
            committed=tuple(part.coordinator.committed for part in state.partitions),
            by_member=by_member,
        )
        return observed.Observation(group=group)

    def following(self, state: GroupState) -> Iterator[tuple[GroupState, bool]]:
        """The steps that follow by themselves, and whether each is urgent."""
        yield from ((after, True) for after in urgent_steps(state, self.setup))
        yield from ((after, False) for after in optional_steps(state, self.setup))

    def anomalies(self) -> list[str]:
        """The anomalies of the group if the run ended now, by the definitions of docs/anomalies.md."""
        ends = [ending(part, self.setup) for state in self.states for part in state.partitions]
        return sorted({str(anomaly) for end in ends for anomaly in shown(end, CHECKS, GROUP_ANOMALIES)})
