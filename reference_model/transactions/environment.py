"""What no producer does: late requests arrive, the coordinator writes markers and fails over, logs lose their ends.

Sources: KIP-98 (the log of the coordinator is replayed, markers are written again), KIP-588 (a time-out fences).

`lose_ends` stands for everything that costs a partition or __transaction_state acknowledged records at its end. The
model of replication says whether that can happen (`predict/`). Consumers keep what they have read.
"""

from collections.abc import Iterator
from itertools import product

from kafka_chaos.reference_model.transactions import state as states
from kafka_chaos.reference_model.transactions.coordinator import COMPLETED_STATUS, PREPARED
from kafka_chaos.reference_model.transactions.effects import Action, Step, abort_by_coordinator, append_to, arrive
from kafka_chaos.reference_model.transactions.partitions import takes_marker
from kafka_chaos.reference_model.transactions.producers import action_of
from kafka_chaos.reference_model.tuples import bits, without


def arrive_late(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """A late request arrives; its producer no longer awaits the answer."""
    for index, request in enumerate(state.late):
        rest = state._replace(late=without(state.late, index))
        reached, reply = arrive(rest, setup, request)
        action = action_of(request, setup)
        yield action._replace(name=f"late_{action.name}", detail=reply.value), reached


def marker_of(state: states.State, id: int) -> states.Entry:
    """The marker that ends a transactional id's prepared transaction, from its present coordinator."""
    last_entry = state.coordinated[id].last_entry
    kind = states.COMMIT if last_entry.status == states.PREPARE_COMMIT else states.ABORT
    return states.Entry(kind, id, last_entry.epoch, state.coordinator_epoch)


def write_marker(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """At the coordinator's request, a leader appends the marker of a prepared transaction to its partition."""
    for id, (_, unmarked, earlier) in enumerate(state.coordinated):
        for partition in bits(unmarked):
            marker = marker_of(state, id)
            if takes_marker(state.logs[partition], marker, setup.rules):
                last_entry = state.coordinated[id].last_entry
                after = append_to(state, setup, partition, (*state.logs[partition], marker))
                coordinated = states.Coordinated(last_entry, unmarked & ~(1 << partition), earlier)
                yield _marker_action(marker, partition, setup), after.with_coordinated(id, coordinated)


def _marker_action(marker: states.Entry, partition: int, setup: states.Setup) -> Action:
    detail = "commit" if marker.kind == states.COMMIT else "abort"
    return Action("write_marker", only_producer(marker.id, setup), partition=partition, detail=detail)


def only_producer(id: int, setup: states.Setup) -> int:
    """The producer of a transactional id if each id has only one, or else `NONE`."""
    return setup.ids.index(id) if len(set(setup.ids)) == len(setup.ids) else states.NONE


def complete_transaction(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """All markers are written: the coordinator notes that, and the next transaction may begin."""
    for id, (last_entry, unmarked, _) in enumerate(state.coordinated):
        if last_entry.status in PREPARED and not unmarked:
            completed = states.StateEntry(COMPLETED_STATUS[last_entry.status], last_entry.epoch, 0)
            yield Action("complete", only_producer(id, setup)), state.with_entry(setup, id, completed, 0)


def time_out(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """`transaction.timeout.ms` has passed: the coordinator aborts the transaction and fences its producer."""
    for id, (last_entry, _, _) in enumerate(state.coordinated):
        if last_entry.status == states.ONGOING and setup.rules.aborts_on_time_out:
            yield Action("time_out", only_producer(id, setup)), abort_by_coordinator(state, setup, id)


def fail_over(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """Another broker becomes coordinator and replays __transaction_state; markers of the old one may still arrive."""
    if state.failovers:
        yield Action("fail_over"), _with_new_coordinator(state._replace(failovers=state.failovers - 1), setup)


def _with_new_coordinator(state: states.State, setup: states.Setup) -> states.State:
    """The state with a new coordinator. If the rules say so, it writes all prepared markers again: some may exist."""
    sent = [
        states.Marker(p, marker_of(state, id)) for id, held in enumerate(state.coordinated) for p in bits(held.unmarked)
    ]
    state = state._replace(late_markers=(*state.late_markers, *sent), coordinator_epoch=state.coordinator_epoch + 1)
    for id, coordinated in enumerate(state.coordinated):
        writes_markers = coordinated.last_entry.status in PREPARED and setup.rules.writes_markers_again
        unmarked = coordinated.last_entry.partitions if writes_markers else 0
        state = state.with_coordinated(id, coordinated._replace(unmarked=unmarked))
    return state


def arrive_late_marker(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """A marker arrives from a coordinator that was replaced."""
    for index, (partition, marker) in enumerate(state.late_markers):
        if takes_marker(state.logs[partition], marker, setup.rules):
            rest = state._replace(late_markers=without(state.late_markers, index))
            log = (*state.logs[partition], marker)
            action = _marker_action(marker, partition, setup)._replace(name="late_marker")
            yield action, append_to(rest, setup, partition, log)


def lose_ends(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """A broker that leads all partitions loses any suffix of each log whose end may be lost.

    If it loses the end of __transaction_state, a new coordinator replays the rest.
    """
    if not state.losses:
        return
    rest = state._replace(losses=state.losses - 1)
    possible_ends = [range(len(log) + 1) if setup.data_may_be_lost else (len(log),) for log in state.logs]
    # None: __transaction_state loses nothing. (id, n): the last entry of a transactional id is its `earlier[n]` again.
    earlier_states = [None, *((id, n) for id, held in enumerate(state.coordinated) for n in range(len(held.earlier)))]
    for ends in product(*possible_ends):
        for replayed in earlier_states:
            logs = tuple(log[:end] for log, end in zip(state.logs, ends, strict=True))
            after = rest._replace(logs=logs)
            if replayed is not None:
                id, index = replayed
                earlier = state.coordinated[id].earlier
                coordinated = states.Coordinated(earlier[index], 0, earlier[:index] if rest.losses else ())
                after = _with_new_coordinator(after.with_coordinated(id, coordinated), setup)
            if logs != state.logs or replayed is not None:
                detail = "" if replayed is None else str(after.coordinated[replayed[0]].last_entry.status)
                yield Action("lose_ends", detail=detail), after
