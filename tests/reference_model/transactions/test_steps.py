"""Single steps: what producers, coordinator and leaders do in states that a test leads them into."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafka_chaos.reference_model.transactions import state as states
from kafka_chaos.reference_model.transactions.effects import Action
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS, canonical
from kafka_chaos.reference_model.transactions.rules import V1, V2, Rules

steps = TRANSACTIONS.steps
LOSING = states.Setup(V1, late_requests=0, failovers=0, losses=1, data_may_be_lost=True, states_may_be_lost=True)


def play(setup: states.Setup, *names: str, state: states.State | None = None) -> states.State:
    """The state after actions, each written as its name and, after a colon, its detail; `0` without one."""
    now = states.initial_state(setup) if state is None else state
    for name in names:
        now = next(after for action, after in steps(now, setup) if matches(action, name))
    return now


def matches(action: Action, wanted: str) -> bool:
    name, _, detail = wanted.partition(":")
    name, _, producer = name.partition("@")
    return action.name == name and (not producer or action.producer == int(producer)) and detail in ("", action.detail)


def possible(state: states.State, setup: states.Setup) -> Iterator[str]:
    yield from (f"{action.name}:{action.detail}" for action, _ in steps(state, setup))


V1_WRITES = ("add_partition:OK", "produce:OK", "add_partition:OK", "produce:OK")
V2_WRITES = ("produce:OK", "produce:OK")
ENDS = ("write_marker", "write_marker", "complete")


@pytest.mark.parametrize(("rules", "writes", "epoch"), [(V1, V1_WRITES, 0), (V2, V2_WRITES, 1)], ids=["v1", "v2"])
def test_a_transaction_is_committed(rules: Rules, writes: tuple[str, ...], epoch: int) -> None:
    setup = states.Setup(rules, failovers=1)
    asked = play(setup, "start", *writes, "commit:OK")
    assert asked.outcomes == (states.COMMITTED,)
    assert asked.coordinated[0].last_entry == (states.PREPARE_COMMIT, epoch, 0b11)
    assert asked.read == 0
    done = play(setup, *ENDS, state=asked)
    assert done.coordinated[0].last_entry == (states.COMPLETE_COMMIT, epoch, 0)
    assert [[entry.kind for entry in log] for log in done.logs] == [[states.DATA, states.COMMIT]] * 2
    assert done.read == 0b11
    assert (done.producers[0].phase, done.producers[0].epoch) == (states.READY, epoch)


def test_a_commit_needs_every_record_acknowledged() -> None:
    setup = states.Setup(V1, failovers=1)
    assert "commit:OK" not in possible(play(setup, "start", *V1_WRITES[:2]), setup)
    in_doubt = play(setup, "start", *V1_WRITES[:3], "produce:unanswered")
    assert "commit:OK" not in possible(in_doubt, setup)
    assert "commit:OK" in possible(play(setup, "produce:OK", state=in_doubt), setup)


def test_a_record_sent_twice_is_written_once() -> None:
    setup = states.Setup(V1, failovers=1)
    state = play(setup, "start", "add_partition:OK", "produce:unanswered", "produce:OK")
    assert len(state.logs[0]) == 1
    assert state.producers[0].written == 1


def test_a_record_behind_a_lost_one_is_refused() -> None:
    one = replace(LOSING, partitions=1)
    state = play(one, "start", "add_partition:OK", "produce:OK", "lose_ends")
    state = play(one, "produce:OUT_OF_ORDER_SEQUENCE_NUMBER", state=state._replace(coordinated=state.coordinated))
    assert state.producers[0].last_record == states.REFUSED
    assert state.logs == ((),)
    assert not [name for name in possible(state, one) if name.startswith(("produce", "commit"))]


def test_after_a_failed_record_v1_aborts_and_renews_its_epoch() -> None:
    setup = states.Setup(V1, failovers=1)
    state = play(setup, "start", "add_partition:OK", "produce:late", "abort:OK")
    assert state.outcomes == (states.ABORTED,)
    assert state.producers[0].phase == states.RENEWING
    assert state.coordinated[0].last_entry == (states.PREPARE_ABORT, 0, 0b01)
    state = play(setup, "write_marker", "complete", "renew_epoch", state=state)
    assert (state.producers[0].phase, state.producers[0].epoch) == (states.READY, 1)
    assert state.coordinated[0].last_entry == (states.EMPTY, 1, 0)
    assert "late_produce:PRODUCER_FENCED" in possible(state, setup)


def test_a_new_incarnation_fences_the_old_one() -> None:
    setup = states.Setup(V1, failovers=1)
    state = play(setup, "start@0", *V1_WRITES, "abort_before_start@1")
    assert state.outcomes == (states.ABORTED,)
    state = play(setup, *ENDS, "start@1:2", "commit@0:PRODUCER_FENCED", state=state)
    assert state.producers[0].phase == states.OVER
    assert [entry.kind for log in state.logs for entry in log] == [states.DATA, states.ABORT] * 2
    assert {entry.epoch for log in state.logs for entry in log if entry.kind == states.ABORT} == {1}


def test_a_new_coordinator_writes_every_marker_again_and_ignores_those_of_the_old_one() -> None:
    setup = states.Setup(V1, late_requests=0, failovers=1)
    state = play(setup, "start", *V1_WRITES, "commit:OK", "write_marker", "fail_over")
    assert state.coordinated[0].unmarked == 0b11
    assert [marker.partition for marker in state.late_markers] == [1]
    state = play(setup, "write_marker", "write_marker", "complete", state=state)
    assert [entry.number for entry in state.logs[0] if entry.kind == states.COMMIT] == [0, 1]
    assert not canonical(state, setup).late_markers


def test_a_loss_takes_the_coordinator_back_to_an_earlier_entry() -> None:
    state = play(LOSING, "start", *V1_WRITES, "commit:OK")
    lost = [after for action, after in steps(state, LOSING) if action.name == "lose_ends"]
    assert {states.PREPARE_COMMIT, states.EMPTY} <= {after.coordinated[0].last_entry.status for after in lost}
    assert not [action for action, _ in steps(state._replace(losses=0), LOSING) if action.name == "lose_ends"]


def test_nothing_is_lost_where_replication_loses_nothing() -> None:
    setup = replace(LOSING, data_may_be_lost=False, states_may_be_lost=False)
    state = play(setup, "start", *V1_WRITES, "commit:OK", *ENDS)
    assert "lose_ends:" not in possible(state, setup)
    data_only = replace(LOSING, states_may_be_lost=False)
    state = play(data_only, "start", *V1_WRITES, "commit:OK", *ENDS)
    lost = [after for action, after in steps(state, data_only) if action.name == "lose_ends"]
    assert len(lost) == 3 * 3 - 1
    assert {after.coordinated for after in lost} == {state.coordinated}
