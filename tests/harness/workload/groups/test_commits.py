"""Since when a client may have committed by itself."""

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.harness.workload.groups import commits as commits_module
from kafka_chaos.harness.workload.groups.commits import Positions
from kafka_chaos.harness.workload.groups.load import plan_orders

SECOND = 1_000_000_000


@pytest.fixture
def held() -> Any:
    """An assignment that began at the first second."""
    return SimpleNamespace(name="m-1", begun_ns=SECOND)


@pytest.fixture
def positions(held: Any, monkeypatch: pytest.MonkeyPatch) -> Positions:
    """Its clock shows whole seconds, from the second one on, one later at each look."""
    monkeypatch.setattr(commits_module, "time", SimpleNamespace(monotonic_ns=count(2 * SECOND, SECOND).__next__))
    return Positions(held)


def since(positions: Positions, partition: int, offset: int) -> tuple[int, str]:
    ns, name = positions.earliest_commit(partition, offset)
    return ns // SECOND, name


def test_an_offset_may_be_committed_since_the_poll_before_it_was_reached(positions: Positions) -> None:
    positions.note_positions({0: 5})
    positions.note_positions({0: 8, 1: 3})
    positions.note_positions({0: 8, 1: 4})
    assert [since(positions, 0, offset)[0] for offset in (4, 5, 6, 8)] == [1, 1, 2, 2]
    assert since(positions, 1, 4) == (3, "m-1")


def test_of_what_was_never_reached_only_the_begin_of_the_assignment_is_known(positions: Positions) -> None:
    positions.note_positions({0: 5})
    positions.note_positions({0: 8})
    assert since(positions, 0, 9) == since(positions, 7, 1) == (1, "m-1")


def test_a_commit_that_is_answered_in_a_later_assignment_belongs_to_that_of_its_records(
    positions: Positions, held: Any
) -> None:
    positions.note_positions({0: 5})
    held.name, held.begun_ns = "m-2", 10 * SECOND
    assert since(positions, 0, 5) == (1, "m-1")
    positions.note_positions({0: 8})
    assert [since(positions, 0, offset) for offset in (5, 8)] == [(1, "m-1"), (10, "m-2")]


def test_a_position_that_is_set_back_may_have_been_reached_before(positions: Positions) -> None:
    positions.note_positions({1: 1})
    positions.note_positions({0: 5})
    positions.note_positions({0: 8})
    positions.note_positions({0: 2})
    assert since(positions, 0, 2) == since(positions, 0, 1) == (2, "m-1")


def test_polls_shortly_after_one_another_are_kept_together(
    positions: Positions, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_module, "_MERGE_WINDOW_NS", 60 * SECOND)
    for offset in range(1, 40):
        positions.note_positions({0: offset})
    assert since(positions, 0, 39) == (1, "m-1")
    held.name = "m-2"
    positions.note_positions({0: 40})
    assert since(positions, 0, 40)[1] == "m-2"


@pytest.mark.parametrize(
    ("group", "plan"),
    [
        (Group(), []),
        (
            Group(members=2, crashes=3, freezes=1),
            [(10, "crash", 0), (20, "crash", 1), (20, "freeze", 1), (30, "crash", 0)],
        ),
        # Members join before they leave.
        (Group(members=2, joins=1, leaves=2), [(10, "join", 2), (20 + 20 / 3, "leave", 2), (20 + 40 / 3, "leave", 1)]),
    ],
)
def test_actions_are_spread_over_the_load_and_over_the_members(group: Group, plan: list[Any]) -> None:
    assert plan_orders(group, 40) == plan
