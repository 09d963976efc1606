from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.harness.report.inputs.actions import ACTIONS, actions_of
from kafka_chaos.reference_model.lane.story import SENTENCES
from tests.harness.report.activity_runs import table
from tests.harness.report.report_runs import event, write

PLACE = {"lane": "a", "partition": 0}


def elected(at: int, broker: int, epoch: int, isr: list[int]) -> dict[str, Any]:
    fields = {"broker": broker, "leader_epoch": epoch, "start_offset": 0, "isr": isr}
    return event(at, "leader_elected", **PLACE, **fields)


def isr(at: int, *members: int) -> dict[str, Any]:
    return event(at, "isr_changed", **PLACE, isr=list(members))


def fault(kind: str, begin: int, end: int | None, *, proven: bool = True) -> list[dict[str, Any]]:
    events = [event(begin, "fault_requested", fault_id="f", kind=kind, resolved=["broker-1"], lanes=["a"])]
    if proven:
        events.append(event(begin + 1, "fault_proven", fault_id="f"))
    if end is not None:
        events.append(event(end, "fault_healed", fault_id="f"))
    return events


def found(folder: Path, *events: dict[str, Any]) -> dict[str, int]:
    """The actions of lane a in a run with these events; lane b has none."""
    lanes = actions_of(write(folder, [{"lane": name, "topic": name} for name in ("a", "b")], [], events=events))
    assert not lanes["b"]
    return dict(lanes["a"])


FIRST = (elected(1, 1, 0, [1, 2]), isr(2, 1, 2))


def test_every_action_is_one_of_the_model() -> None:
    assert set(ACTIONS) <= set(SENTENCES)


def test_members_leave_and_join_the_isr(tmp_path: Path) -> None:
    assert found(tmp_path, *FIRST, isr(5, 1), isr(7, 1, 2)) == {"shrink_isr": 1, "expand_isr": 1}


@pytest.mark.parametrize(("leader", "action"), [(1, "elect"), (2, "elect_unclean")])
def test_a_leader_is_elected_from_the_isr_or_from_outside(tmp_path: Path, leader: int, action: str) -> None:
    assert found(tmp_path, *FIRST, isr(5, 1), elected(6, leader, 1, [leader])) == {"shrink_isr": 1, action: 1}


@pytest.mark.parametrize(
    ("kind", "actions"),
    [
        ("kill", {"kill", "restart"}), ("power-loss", {"power_loss", "restart"}), ("pause", {"pause", "thaw", "learn"}),
        ("isolate", {"partition", "learn"}), ("session-expiry", {"session_expiry", "learn"}), ("packet-loss", set()),
    ],
)  # fmt: skip
def test_a_fault_and_its_end_at_a_leader_that_is_replaced(tmp_path: Path, kind: str, actions: set[str]) -> None:
    events = found(tmp_path, *FIRST, *fault(kind, 10, 20), elected(15, 2, 1, [2, 1]))
    assert events == {**dict.fromkeys(actions, 1), "elect": 1}


def test_a_fault_without_its_proof_or_its_end_shows_no_more_than_that(tmp_path: Path) -> None:
    assert found(tmp_path, *FIRST, *fault("kill", 10, 20, proven=False)) == {}
    assert found(tmp_path, *FIRST, *fault("kill", 10, None)) == {"kill": 1}


def test_what_producers_learned(tmp_path: Path) -> None:
    learned = [
        ("ok", None), ("info", "_MSG_TIMED_OUT"), ("info", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
        ("fail", "NOT_ENOUGH_REPLICAS"), ("fail", "OUT_OF_ORDER_SEQUENCE_NUMBER"), ("fail", "MSG_SIZE_TOO_LARGE"),
    ]  # fmt: skip
    sent = {"lane": "a", "producer_id": 0, "seq": 0, "invoke_ns": 0}
    table(tmp_path, "produced", [{**sent, "outcome": outcome, "error": error} for outcome, error in learned])
    assert found(tmp_path) == {
        "acknowledge": 1, "give_up": 2, "not_enough_replicas": 1,
        "not_enough_replicas_after_append": 1, "out_of_order_sequence": 1,
    }  # fmt: skip


def test_a_run_whose_documents_cannot_be_used_shows_nothing(tmp_path: Path) -> None:
    assert actions_of(tmp_path) == {}
