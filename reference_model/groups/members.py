"""Actions of members: ask for the committed offset, poll, process, commit, and leave.

A member gets batches of one record. `Setup.commits` says what it does with the record. With `after` it processes the
record and then commits, with `before` the other way round. With `transaction` it writes an output, adds the offset, and
commits the transaction. With `auto` the client commits, at any moment, the offset after the record that the member got
last: librdkafka stores this offset when it hands the record out (`enable.auto.offset.store`), whether the record is
processed or not. To process a record, a loop's member writes an output. A committed offset is the next one to read.
"""

from collections.abc import Iterator

from kafka_chaos.contract.lane.groups import AFTER, AUTO, BEFORE, IN_TRANSACTION
from kafka_chaos.reference_model.groups.state import (
    ACTIVE,
    EXPELLED,
    FIRST_DONE,
    GIVEN,
    NONE,
    SECOND_DONE,
    Action,
    Member,
    Setup,
    State,
    Step,
)
from kafka_chaos.reference_model.tuples import with_item

MOST_OUTPUTS = 2
"""Outputs of one input are counted up to this number: two show a duplicate, and more show nothing else."""


def ask_for_offset(state: State, setup: Setup) -> Iterator[Step]:
    """A member that got the partition asks where to begin; it may have to wait for offsets in open transactions."""
    if setup.rules.waits_for_stable and any(offset != NONE for offset in state.coordinator.pending):
        return
    for slot, member in _active_members(state):
        if member.owns and member.position == NONE:
            committed = state.coordinator.committed
            if committed or not setup.resets_to_end:
                starts = [(Action("ask", slot, committed), committed)]
            else:
                # Nothing is committed, so the member begins at the log's end, wherever the producers are by then.
                starts = [(Action("begin_at_end", slot, end), end) for end in range(state.log_end + 1)]
            for action, position in starts:
                yield action, state.with_member(slot, member._replace(position=position, promised=state.acknowledged))


def poll(state: State, setup: Setup) -> Iterator[Step]:
    """A member gets the next record. After a loss, a position past the log's end is reset (`auto.offset.reset`)."""
    for slot, member in _active_members(state):
        if not member.owns or member.position == NONE or member.record != NONE:
            continue
        if setup.resets_to_end and member.position > state.log_end:
            # Producers have gone on since the loss, or will.
            grown = state._replace(log_end=setup.records)
            for end in range(state.log_end, setup.records + 1):
                yield Action("reset_to_end", slot, end), grown.with_member(slot, member._replace(position=end))
            continue
        offset, name = (0, "reset") if member.position > state.log_end else (member.position, "poll")
        if offset >= state.log_end:
            continue
        with_record = member._replace(position=offset + 1, promised=NONE, record=offset, stage=GIVEN)
        readers = {number for generation, number in state.readers if generation == member.generation}
        after = state._replace(
            readers=state.readers | {(member.generation, member.number)},
            is_owned_twice=state.is_owned_twice or bool(readers - {member.number}),
            is_commit_lost=state.is_commit_lost or offset < member.promised,
        )
        yield Action(name, slot, offset), after.with_member(slot, with_record)


def process(state: State, setup: Setup) -> Iterator[Step]:
    """A member processes its record; a loop's member writes an output. Without transactions, it counts at once."""
    for slot, member in _active_members(state):
        # Before the marker is written, no further transaction may begin (CONCURRENT_TRANSACTIONS).
        if member.record == NONE or state.coordinator.decided >> slot & 1:
            continue
        if member.stage == (FIRST_DONE if setup.commits == BEFORE else GIVEN):
            outputs = state.outputs
            if setup.is_loop and setup.commits != IN_TRANSACTION:
                outputs = _with_output(outputs, member.record)
            after = state._replace(processed=state.processed | 1 << member.record, outputs=outputs)
            ends_batch = setup.commits in (BEFORE, AUTO)
            next_member = _without_record(member) if ends_batch else member._replace(stage=FIRST_DONE)
            yield Action("process", slot, member.record), after.with_member(slot, next_member)


def _with_output(outputs: tuple[int, ...], record: int) -> tuple[int, ...]:
    return with_item(outputs, record, min(MOST_OUTPUTS, outputs[record] + 1))


def _without_record(member: Member) -> Member:
    return member._replace(record=NONE, stage=GIVEN)


def commit(state: State, setup: Setup) -> Iterator[Step]:
    """A member commits the offset after its record, before or after it has processed the record."""
    for slot, member in _active_members(state):
        due_stage = {AFTER: FIRST_DONE, BEFORE: GIVEN}.get(setup.commits)
        if member.record == NONE or member.stage != due_stage:
            continue
        offset = member.record + 1
        if not state.is_present(slot) and setup.rules.fences:
            yield Action("refused", slot, offset), state.with_member(slot, _without_group(member))
            continue
        after = state.with_coordinator(setup, state.coordinator._replace(committed=offset))
        next_member = _without_record(member) if setup.commits == AFTER else member._replace(stage=FIRST_DONE)
        yield Action("commit", slot, offset), _with_acknowledged_commit(after.with_member(slot, next_member), offset)
        if state.failovers:
            # The coordinator moves before it answers, so the member will commit again.
            yield Action("unanswered", slot, offset), after._replace(failovers=state.failovers - 1)


def _with_acknowledged_commit(state: State, offset: int) -> State:
    is_regressed = state.is_commit_regressed or offset < state.acknowledged
    return state._replace(acknowledged=offset, is_commit_regressed=is_regressed)


def _without_group(member: Member) -> Member:
    """The member once it knows that it is not in the group any more."""
    return Member(ACTIVE, member.number)


def commit_automatically(state: State, setup: Setup) -> Iterator[Step]:
    """A member's client commits the member's position (`enable.auto.commit`)."""
    if setup.commits != AUTO:
        return
    for slot, member in _active_members(state):
        if not member.owns or member.position == NONE or member.position == state.coordinator.committed:
            continue
        if state.is_present(slot) or not setup.rules.fences:
            after = state.with_coordinator(setup, state.coordinator._replace(committed=member.position))
            yield Action("auto_commit", slot, member.position), _with_acknowledged_commit(after, member.position)
        else:
            # The member is out of the group, but still processes the record that it got.
            outsider = member._replace(owns=False, position=NONE, generation=NONE)
            yield Action("refused", slot, member.position), state.with_member(slot, outsider)


def add_offset(state: State, setup: Setup) -> Iterator[Step]:
    """A member of a loop adds the offset after its record to its transaction."""
    if setup.commits != IN_TRANSACTION:
        return
    for slot, member in _active_members(state):
        if member.record == NONE or member.stage != FIRST_DONE:
            continue
        offset = member.record + 1
        if not state.is_present(slot) and setup.rules.fences_transactions:
            yield Action("refused_in_transaction", slot, offset), state.with_member(slot, _without_group(member))
            continue
        coordinator = state.coordinator
        with_pending = coordinator._replace(pending=with_item(coordinator.pending, slot, offset))
        after = state.with_coordinator(setup, with_pending)
        yield Action("add_offset", slot, offset), after.with_member(slot, member._replace(stage=SECOND_DONE))


def end_transaction(state: State, setup: Setup) -> Iterator[Step]:
    """A member commits its transaction, output and offset together, or learns that the transaction was aborted."""
    if setup.commits != IN_TRANSACTION:
        return
    for slot, member in _active_members(state):
        if member.stage == EXPELLED:
            yield Action("expelled", slot), state.with_member(slot, _without_group(member))
        if member.record == NONE or member.stage != SECOND_DONE:
            continue
        offset = member.record + 1
        coordinator = state.coordinator
        none_pending = coordinator._replace(pending=with_item(coordinator.pending, slot, NONE))
        with_offset = none_pending._replace(committed=offset)
        after = state.with_member(slot, _without_record(member))
        with_output = after._replace(outputs=_with_output(state.outputs, member.record))
        # EndTxn is answered before markers are written, which nobody sees where members wait for them.
        without_marker = coordinator._replace(decided=coordinator.decided | 1 << slot)
        ended = with_offset if setup.rules.waits_for_stable else without_marker
        committed = with_output.with_coordinator(setup, ended)
        yield Action("end", slot, offset), _with_acknowledged_commit(committed, offset)
        if setup.ends_may_tear and state.losses:
            # A loss tears the transaction: it is committed for the offset alone, or for the output alone.
            losses = state.losses - 1
            offset_alone = after._replace(losses=losses).with_coordinator(setup, with_offset)
            yield Action("torn", slot, offset, "offset"), _with_acknowledged_commit(offset_alone, offset)
            output_alone = with_output.with_coordinator(setup, none_pending)._replace(losses=losses)
            yield Action("torn", slot, offset, "output"), output_alone


def write_marker(state: State, setup: Setup) -> Iterator[Step]:
    """The marker of an acknowledged transaction is written in `__consumer_offsets`: its offset is the committed one."""
    log = state.coordinator
    for slot, offset in enumerate(log.pending):
        if log.decided >> slot & 1:
            pending = with_item(log.pending, slot, NONE)
            marked = log._replace(committed=offset, pending=pending, decided=log.decided & ~(1 << slot))
            yield Action("marker", slot, offset), state.with_coordinator(setup, marked)


def learn(state: State, setup: Setup) -> Iterator[Step]:
    """A member between batches learns that it is not in the group any more."""
    for slot, member in _active_members(state):
        if member.generation != NONE and state.coordinator.generations[slot] == NONE and member.record == NONE:
            yield Action("learn", slot), state.with_member(slot, _without_group(member))


def leave(state: State, setup: Setup) -> Iterator[Step]:
    """A member leaves gracefully, between batches."""
    if not state.leaves:
        return
    for slot, member in _active_members(state):
        if state.is_present(slot) and member.record == NONE:
            after = state.without_member(setup, slot).with_member(slot, Member())
            yield Action("leave", slot), after._replace(leaves=state.leaves - 1)


def _active_members(state: State) -> list[tuple[int, Member]]:
    return [(slot, member) for slot, member in enumerate(state.members) if member.phase == ACTIVE]
