"""All that can happen next, and which states are alike."""

from __future__ import annotations

from kafka_chaos.reference_model.transactions import environment, producers
from kafka_chaos.reference_model.transactions.partitions import is_fenced, takes_marker
from kafka_chaos.reference_model.transactions.producers import over
from kafka_chaos.reference_model.transactions.rules import Kind
from kafka_chaos.reference_model.transactions.state import DATA, READY, RENEWING, Marker, Request, Setup, State

ACTIONS = (
    producers.write,
    producers.end,
    producers.initialise,
    environment.write_marker,
    environment.complete_transaction,
    environment.arrive_late,
    environment.late_marker,
    environment.time_out,
    environment.fail_over,
    environment.lose_ends,
)


def canonical(state: State, setup: Setup) -> State:
    """The representative of all states that behave alike.

    They may differ in what a producer could do that has no transaction left to write, in requests and markers on their
    way that nothing would take any more, in the order of the others, and in how often a coordinator was replaced when
    nothing of an earlier one is left.
    """
    producers = state.producers
    if len(state.outcomes) == setup.transactions:
        producers = tuple(over(one) if one.phase in (READY, RENEWING) else one for one in producers)
    late = tuple(sorted(r for r in state.late if state.losses or not _is_refused(state, setup, r)))
    markers = tuple(sorted({m for m in state.late_markers if state.losses or _is_taken(state, setup, m)}))
    state = state._replace(producers=producers, late=late, late_markers=markers)
    if markers or state.failovers or state.losses or not state.coordinator_epoch:
        return state
    logs = tuple(
        tuple(entry if entry.kind == DATA or not entry.number else entry._replace(number=0) for entry in log)
        for log in state.logs
    )
    return state._replace(logs=logs, coordinator_epoch=0)


def _is_refused(state: State, setup: Setup, request: Request) -> bool:
    """Whether a request will be refused whenever it arrives: epochs only rise where nothing is lost."""
    id = setup.ids[request.producer]
    if request.kind is Kind.PRODUCE:
        return is_fenced(state.logs[setup.partition_of(request.detail)], id, request.epoch, setup.rules)
    return setup.rules.fences_at_coordinator and request.epoch < state.coordinated[id].status.epoch


def _is_taken(state: State, setup: Setup, marker: Marker) -> bool:
    return takes_marker(state.logs[marker.partition], marker.entry, setup.rules)
