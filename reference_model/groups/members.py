"""Actions of members: ask for the committed offset, poll, process, commit, and leave.

A batch is one record. `Setup.commits` says what a member does with it. With `after` it processes the record and then
commits its offset, with `before` the other way round. With `transaction` it writes an output, adds the offset, and
commits the transaction. With `auto` the client commits, at any moment, the offset of what the member was given:
librdkafka stores the offset of a record when it hands the record out (`enable.auto.offset.store`), whether it is
processed or not. A loop writes its output where a plain member processes.
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
from kafka_chaos.reference_model.tuples import exchanged

MOST_OUTPUTS = 2
"""Outputs of one input are counted up to this number: more of them show nothing else."""


def ask_for_offset(state: State, setup: Setup) -> Iterator[Step]:
    """A member that was given the partition asks where to begin."""
    is_unstable = any(offset != NONE for offset in state.coordinator.pending)
    if is_unstable and setup.rules.waits_for_stable:
        return
    for slot, member in _at_work(state):
        if member.owns and member.position == NONE:
            committed = state.coordinator.committed
            if committed or not setup.resets_to_end:
                begins = [(Action("ask", slot, committed), committed)]
            else:
                # The log ends wherever the producers are by then.
                begins = [(Action("begin_at_end", slot, end), end) for end in range(state.log_end + 1)]
            for action, position in begins:
                yield action, state.with_member(slot, member._replace(position=position, promised=state.acknowledged))


def poll(state: State, setup: Setup) -> Iterator[Step]:
    """A member is given the next record. A position past the log's end is reset by `auto.offset.reset`."""
    for slot, member in _at_work(state):
        if not member.owns or member.position == NONE or member.record != NONE:
            continue
        if setup.resets_to_end and member.position > state.log_end:
            begun = state.with_member(slot, member._replace(position=state.log_end))
            yield Action("reset_to_end", slot, state.log_end), begun
            continue
        offset, name = (0, "reset") if member.position > state.log_end else (member.position, "poll")
        if offset >= state.log_end:
            continue
        with_record = member._replace(position=offset + 1, promised=NONE, record=offset, stage=GIVEN)
        others = {number for generation, number in state.readers if generation == member.generation}
        yield (
            Action(name, slot, offset),
            state.with_member(slot, with_record)._replace(
                readers=state.readers | {(member.generation, member.number)},
                is_owned_twice=state.is_owned_twice or bool(others - {member.number}),
                is_lost=state.is_lost or offset < member.promised,
            ),
        )


def process(state: State, setup: Setup) -> Iterator[Step]:
    """A member processes its record; a member of a loop writes the output, which is acknowledged."""
    for slot, member in _at_work(state):
        if member.record == NONE:
            continue
        if member.stage == (FIRST_DONE if setup.commits == BEFORE else GIVEN):
            outputs = state.outputs
            if setup.is_loop and setup.commits != IN_TRANSACTION:
                outputs = _with_output(outputs, member.record)
            after = state._replace(processed=state.processed | 1 << member.record, outputs=outputs)
            is_last = setup.commits in (BEFORE, AUTO)
            done = _finished(member) if is_last else member._replace(stage=FIRST_DONE)
            yield Action("process", slot, member.record), after.with_member(slot, done)


def _with_output(outputs: tuple[int, ...], record: int) -> tuple[int, ...]:
    return exchanged(outputs, record, min(MOST_OUTPUTS, outputs[record] + 1))


def _finished(member: Member) -> Member:
    return member._replace(record=NONE, stage=GIVEN)


def commit(state: State, setup: Setup) -> Iterator[Step]:
    """A member commits the offset of its record, before or after it has processed the record."""
    for slot, member in _at_work(state):
        due_stage = {AFTER: FIRST_DONE, BEFORE: GIVEN}.get(setup.commits)
        if member.record == NONE or member.stage != due_stage:
            continue
        offset = member.record + 1
        if not state.is_present(slot) and setup.rules.fences:
            yield Action("refused", slot, offset), state.with_member(slot, _dropped(member))
            continue
        committed = _committed(state, setup, offset)
        done = _finished(member) if setup.commits == AFTER else member._replace(stage=FIRST_DONE)
        yield Action("commit", slot, offset), _acknowledged(committed.with_member(slot, done), offset)
        if state.failovers:
            # The coordinator moves before it answers: the member asks again.
            yield Action("unanswered", slot, offset), committed._replace(failovers=state.failovers - 1)


def _committed(state: State, setup: Setup, offset: int) -> State:
    return state.with_coordinator(setup, state.coordinator._replace(committed=offset))


def _acknowledged(state: State, offset: int) -> State:
    return state._replace(acknowledged=offset, is_regressed=state.is_regressed or offset < state.acknowledged)


def _dropped(member: Member) -> Member:
    """The member once it knows that it is not in the group any more."""
    return Member(ACTIVE, member.number)


def commit_automatically(state: State, setup: Setup) -> Iterator[Step]:
    """The client commits what its member was given (`enable.auto.commit`)."""
    if setup.commits != AUTO:
        return
    for slot, member in _at_work(state):
        if not member.owns or member.position == NONE or member.position == state.coordinator.committed:
            continue
        if state.is_present(slot) or not setup.rules.fences:
            committed = _committed(state, setup, member.position)
            yield Action("auto_commit", slot, member.position), _acknowledged(committed, member.position)
        else:
            # It still processes the record that it was given.
            outsider = member._replace(owns=False, position=NONE, generation=NONE)
            yield Action("refused", slot, member.position), state.with_member(slot, outsider)


def add_offset(state: State, setup: Setup) -> Iterator[Step]:
    """A member of a loop adds the offset of its record to its transaction."""
    if setup.commits != IN_TRANSACTION:
        return
    for slot, member in _at_work(state):
        if member.record == NONE or member.stage != FIRST_DONE:
            continue
        offset = member.record + 1
        if not state.is_present(slot) and setup.rules.fences_transactions:
            yield Action("refused_in_transaction", slot, offset), state.with_member(slot, _dropped(member))
            continue
        coordinator = state.coordinator
        pending = coordinator._replace(pending=exchanged(coordinator.pending, slot, offset))
        after = state.with_coordinator(setup, pending)
        yield (Action("add_offset", slot, offset), after.with_member(slot, member._replace(stage=SECOND_DONE)))


def end_transaction(state: State, setup: Setup) -> Iterator[Step]:
    """A member commits its transaction, output and offset together, or learns that the transaction was aborted."""
    if setup.commits != IN_TRANSACTION:
        return
    for slot, member in _at_work(state):
        if member.stage == EXPELLED:
            yield Action("expelled", slot), state.with_member(slot, _dropped(member))
        if member.record == NONE or member.stage != SECOND_DONE:
            continue
        offset = member.record + 1
        coordinator = state.coordinator
        closed = coordinator._replace(pending=exchanged(coordinator.pending, slot, NONE))
        done = state.with_member(slot, _finished(member))
        with_output = done._replace(outputs=_with_output(state.outputs, member.record))
        committed = closed._replace(committed=offset)
        yield (Action("end", slot, offset), _acknowledged(with_output.with_coordinator(setup, committed), offset))
        if setup.ends_may_tear and state.losses:
            losses = state.losses - 1
            offset_alone = _acknowledged(done._replace(losses=losses).with_coordinator(setup, committed), offset)
            yield Action("torn", slot, offset, "offset"), offset_alone
            output_alone = with_output.with_coordinator(setup, closed)._replace(losses=losses)
            yield Action("torn", slot, offset, "output"), output_alone


def learn(state: State, setup: Setup) -> Iterator[Step]:
    """A member between batches learns that it is not in the group any more."""
    for slot, member in _at_work(state):
        if member.generation != NONE and state.coordinator.generations[slot] == NONE and member.record == NONE:
            yield Action("learn", slot), state.with_member(slot, _dropped(member))


def leave(state: State, setup: Setup) -> Iterator[Step]:
    """A member leaves gracefully, between batches."""
    if not state.leaves:
        return
    for slot, member in _at_work(state):
        if state.is_present(slot) and member.record == NONE:
            after = state.without_member(setup, slot).with_member(slot, Member())
            yield Action("leave", slot), after._replace(leaves=state.leaves - 1)


def _at_work(state: State) -> list[tuple[int, Member]]:
    return [(slot, member) for slot, member in enumerate(state.members) if member.phase == ACTIVE]
