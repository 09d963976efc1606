"""The steps of a group's members in scenarios: each leads from one state to the states that may follow."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from kafka_chaos.reference_model.groups.examine import GROUPS
from kafka_chaos.reference_model.groups.state import ACTIVE, NONE, Member, Setup, State, initial_state, slots_in
from kafka_chaos.reference_model.lockstep.observation.clients import COMMITTED, GIVEN, PROCESSED, REFUSED, Deed
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.tuples import exchanged


class GroupState(NamedTuple):
    """The state of a group that reads several partitions: by partition, a state of the model of groups.

    `frozen`: the slots of frozen members. `did`: by slot, what the member did. `gave_back`: some partition was given
    back in the last generation, and no member has come or gone since. `replaced`: the slots of static members whose
    place another member has taken.
    """

    partitions: tuple[State, ...]
    frozen: frozenset[int]
    did: tuple[tuple[Deed, ...], ...]
    gave_back: bool = False
    replaced: frozenset[int] = frozenset()


def first_state(setup: Setup, partitions: int) -> GroupState:
    """The state in which one member has all partitions and has read nothing yet.

    Raises `ActionError` for several partitions with the protocol `consumer`.
    """
    if partitions > 1 and not setup.rules.waits_for_all:
        raise ActionError(f"{partitions} partitions: expected one with the protocol consumer")
    return GroupState((initial_state(setup),) * partitions, frozenset(), ((),) * setup.slots)


def _at_partition(**deeds: str) -> Callable[[GroupState, Setup, int, int], Iterator[GroupState]]:
    """The step by which a member handles a record of one partition: by action of the model, what the member has
    done."""

    def act(state: GroupState, setup: Setup, slot: int, partition: int) -> Iterator[GroupState]:
        for action, after in GROUPS.steps(state.partitions[partition], setup):
            if action.name not in deeds or action.slot != slot or slot in state.frozen:
                continue
            deed = deeds[action.name]
            if deed != GIVEN or slot not in state.replaced:
                parts = exchanged(state.partitions, partition, after)
                done = (*state.did[slot], (deed, partition, action.offset))
                yield state._replace(partitions=parts, did=exchanged(state.did, slot, done))

    return act


def of_group(name: str) -> Callable[[GroupState, Setup, int], Iterator[GroupState]]:
    """The step of a member in all partitions at once."""

    def act(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
        choices = [
            [after for action, after in GROUPS.steps(part, setup) if action.name == name and action.slot == slot]
            for part in state.partitions
        ]
        for parts in product(*choices):
            yield state._replace(partitions=parts, gave_back=state.gave_back and name == "join_again")

    return act


def _take_over(state: GroupState, setup: Setup, slot: int, former: int) -> Iterator[GroupState]:
    """A static member starts with the `group.instance.id` of member `former`: it has what that one had, in its
    generation."""
    place, taken = former - 1, slots_in(state.partitions[0])
    if setup.is_static and place in taken and slot not in taken:
        parts = tuple(_with_successor(part, slot, place) for part in state.partitions)
        yield state._replace(partitions=parts, replaced=state.replaced | {place})


def _with_successor(part: State, slot: int, former: int) -> State:
    coordinator = part.coordinator
    generation, owns = coordinator.known[former], coordinator.owner == former
    known = exchanged(exchanged(coordinator.known, former, NONE), slot, generation)
    owner = slot if owns else coordinator.owner
    after = part._replace(coordinator=coordinator._replace(known=known, owner=owner))
    # It counts as the same member, as a member that comes back does: the former one is given no records any more.
    return after.with_member(slot, Member(ACTIVE, part.members[former].number, generation, owns=owns))


def _freeze(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
    if slot not in state.frozen:
        yield state._replace(frozen=state.frozen | {slot})


def _thaw(state: GroupState, setup: Setup, slot: int) -> Iterator[GroupState]:
    if slot in state.frozen:
        yield state._replace(frozen=state.frozen - {slot})


ACTIONS: Mapping[str, Callable[..., Iterator[GroupState]]] = {
    "member_polls": _at_partition(poll=GIVEN),
    "member_processes": _at_partition(process=PROCESSED),
    "member_commits": _at_partition(commit=COMMITTED, auto_commit=COMMITTED, refused=REFUSED),
    "member_joins": of_group("join"),
    "member_leaves": of_group("leave"),
    "member_crashes": of_group("crash"),
    "member_comes_back": of_group("come_back"),
    "member_takes_over": _take_over,
    "member_freezes": _freeze,
    "member_thaws": _thaw,
}
