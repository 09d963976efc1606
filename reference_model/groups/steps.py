"""All that can happen next, and which states are alike."""

from __future__ import annotations

from kafka_chaos.reference_model.groups import coordinator, members
from kafka_chaos.reference_model.groups.state import Setup, State

ACTIONS = (
    members.ask_for_offset,
    members.poll,
    members.process,
    members.commit,
    members.commit_automatically,
    members.add_offset,
    members.end_transaction,
    members.learn,
    members.leave,
    coordinator.join,
    coordinator.join_again,
    coordinator.assign,
    coordinator.crash,
    coordinator.come_back,
    coordinator.remove,
    coordinator.abort_transaction,
    coordinator.fail_over,
    coordinator.lose,
)


def canonical(state: State, setup: Setup) -> State:
    """The representative of all states that behave alike.

    They may differ in who was given records in generations that nobody is in and that no loss can bring back, and in
    what the coordinator's log held before, if nothing can be lost any more.
    """
    if state.losses:
        return state
    present = {member.generation for member in state.members}
    given = frozenset(pair for pair in state.given if pair[0] in present)
    return state._replace(given=given, earlier=())
