"""Actions of the group coordinator: who joins, when a generation begins, who gets the partition, who is removed.

Sources: KIP-62 (members that are not heard from, or do not poll, are removed), KIP-345 (a static member that comes back
within its session time-out keeps its partition, without a rebalance), KIP-429 and KIP-848 (a partition that is to move
is revoked first). The assignor is free to choose.
"""

from collections.abc import Iterator

from kafka_chaos.contract.lane.groups import IN_TRANSACTION
from kafka_chaos.reference_model.groups.state import (
    ABSENT,
    ACTIVE,
    DEAD,
    EXPELLED,
    FIRST_DONE,
    NONE,
    SECOND_DONE,
    Action,
    Member,
    Setup,
    State,
    Step,
    slots_in,
)
from kafka_chaos.reference_model.tuples import with_item


def join(state: State, setup: Setup) -> Iterator[Step]:
    """A member that is not in the group joins it: a new one, one that comes back, or one that was removed."""
    for slot, member in enumerate(state.members):
        if state.coordinator.generations[slot] != NONE or member.record != NONE:
            continue
        is_new = member.phase == ABSENT
        knows_it_is_out = not member.owns and member.generation == NONE
        if (is_new and not state.joins) or (member.phase == ACTIVE and not knows_it_is_out):
            continue
        number = member.number if member.phase == ACTIVE else state.incarnations
        after = state.with_member(slot, Member(ACTIVE, number))
        # The member is in the group now; 0 stands for no generation until the next one begins.
        generations = with_item(state.coordinator.generations, slot, 0)
        after = after.with_coordinator(setup, state.coordinator._replace(generations=generations))
        after = after._replace(
            preparing=True,
            joined=state.joined | 1 << slot,
            joins=state.joins - is_new,
            incarnations=max(state.incarnations, number + 1),
        )
        yield Action("join", slot), after


def join_again(state: State, setup: Setup) -> Iterator[Step]:
    """A member of the group takes part in a rebalance, between batches. An eager one first gives up what it owns."""
    if not state.preparing or not setup.rules.awaits_members:
        return
    for slot in slots_in(state):
        member = state.members[slot]
        if member.phase != ACTIVE or member.record != NONE or state.joined >> slot & 1:
            continue
        rejoining = member._replace(owns=False, position=NONE) if setup.rules.revokes_all else member
        after = state.with_member(slot, rejoining)._replace(joined=state.joined | 1 << slot)
        yield Action("join_again", slot, detail="owns" if member.owns else ""), after


def assign(state: State, setup: Setup) -> Iterator[Step]:
    """The next generation begins: the partition stays, moves, or is first revoked from its owner."""
    present = slots_in(state)
    if not state.preparing or not present:
        return
    if setup.rules.awaits_members and any(not state.joined >> slot & 1 for slot in present):
        return
    if setup.rules.awaits_members:  # Members say what they own when they join.
        owners = [slot for slot in present if state.members[slot].owns]
    else:  # KIP-848: the coordinator has given the partition to its owner, and has not got it back.
        owners = [slot for slot in present if slot == state.coordinator.owner]
    for target in present:
        if not setup.rules.awaits_members and state.members[target].phase != ACTIVE:
            continue
        if owners and target not in owners and setup.rules.revokes_first:
            if all(state.members[slot].phase == ACTIVE and state.members[slot].record == NONE for slot in owners):
                after = _with_new_generation(state, setup, present if setup.rules.awaits_members else owners, NONE)
                yield Action("give_back", owners[0]), after._replace(preparing=True)
        else:
            after = _with_new_generation(state, setup, present if setup.rules.awaits_members else [target], target)
            yield Action("assign", target), after


def _with_new_generation(state: State, setup: Setup, moved: list[int], owner: int) -> State:
    """The state after a generation has begun for the members `moved`: all, or with KIP-848 those that gain or lose the
    partition."""
    generation = state.coordinator.generation + 1
    generations = state.coordinator.generations
    for slot in moved:
        generations = with_item(generations, slot, generation)
        member = state.members[slot]
        if member.phase == ACTIVE:
            owns = slot == owner or (member.owns and not setup.rules.revokes_first)
            position = member.position if owns and member.owns else NONE
            state = state.with_member(slot, member._replace(generation=generation, owns=owns, position=position))
    changed = state.coordinator._replace(generation=generation, generations=generations, owner=owner)
    return state.with_coordinator(setup, changed)._replace(preparing=False, joined=0)


def crash(state: State, setup: Setup) -> Iterator[Step]:
    """A member dies without leaving the group."""
    if state.crashes:
        for slot, member in enumerate(state.members):
            if member.phase == ACTIVE and member.generation != NONE:
                dead = Member(DEAD, member.number, member.generation, record=NONE, stage=member.stage)
                yield Action("crash", slot), state.with_member(slot, dead)._replace(crashes=state.crashes - 1)


def come_back(state: State, setup: Setup) -> Iterator[Step]:
    """A static member starts again within its session time-out, and keeps its partition and its generation."""
    if not setup.is_static:
        return
    for slot in slots_in(state):
        member = state.members[slot]
        if member.phase == DEAD and state.is_present(slot) and not _is_open(state, slot):
            owns = state.coordinator.owner == slot
            back = Member(ACTIVE, member.number, member.generation, owns=owns)
            yield Action("come_back", slot), state.with_member(slot, back)


def remove(state: State, setup: Setup) -> Iterator[Step]:
    """The coordinator removes a member that it has not heard from: a dead one, or a live one that does not notice."""
    for slot in slots_in(state):
        member = state.members[slot]
        is_dead = member.phase == DEAD
        if not is_dead and (not state.removals or member.generation == NONE):
            continue
        after = state.without_member(setup, slot)._replace(removals=state.removals - (not is_dead))
        yield Action("expire" if is_dead else "remove", slot), after


def abort_transaction(state: State, setup: Setup) -> Iterator[Step]:
    """The coordinator aborts a transaction: its time-out has passed, or its producer's next incarnation has begun."""
    if setup.commits != IN_TRANSACTION:
        return
    for slot, member in enumerate(state.members):
        is_abandoned = member.phase == DEAD or state.coordinator.generations[slot] == NONE
        if not is_abandoned or not _is_open(state, slot) or state.coordinator.decided >> slot & 1:
            continue
        pending = with_item(state.coordinator.pending, slot, NONE)
        after = state.with_coordinator(setup, state.coordinator._replace(pending=pending))
        if member.phase == ACTIVE:
            after = after.with_member(slot, member._replace(stage=EXPELLED))
        yield Action("abort", slot), after


def _is_open(state: State, slot: int) -> bool:
    """Whether a member has a transaction that its coordinator may abort."""
    member = state.members[slot]
    is_writing = member.phase == ACTIVE and member.record != NONE and member.stage in (FIRST_DONE, SECOND_DONE)
    return state.coordinator.pending[slot] != NONE or is_writing


def fail_over(state: State, setup: Setup) -> Iterator[Step]:
    """Another broker becomes coordinator. If it does not read the former coordinator's log, it knows no commits."""
    if state.failovers and not setup.rules.replays and state.coordinator.committed:
        forgotten = state.coordinator._replace(committed=0)
        yield Action("fail_over"), state._replace(coordinator=forgotten, failovers=state.failovers - 1, earlier=())


def lose(state: State, setup: Setup) -> Iterator[Step]:
    """A log loses acknowledged records at its end."""
    if not state.losses:
        return
    rest = state._replace(losses=state.losses - 1)
    if setup.offsets_may_be_lost:
        for earlier in dict.fromkeys(state.earlier):
            # The coordinator only knows this earlier state: members in other generations have to join again.
            pairs = zip(earlier.generations, rest.members, strict=True)
            differs = any(generation not in (NONE, member.generation) for generation, member in pairs)
            after = rest._replace(coordinator=earlier, earlier=(), preparing=differs or rest.preparing, joined=0)
            yield Action("lose_offsets", offset=earlier.committed), after
    if setup.source_may_lose:
        for end in range(state.log_end):
            yield Action("lose_source", offset=end), rest._replace(log_end=end)
    if setup.output_may_lose:
        for record, count in enumerate(state.outputs):
            if count:
                lost = with_item(state.outputs, record, count - 1)
                yield Action("lose_output", offset=record), rest._replace(outputs=lost)
