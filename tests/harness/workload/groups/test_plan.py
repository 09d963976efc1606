"""When the load does what to which member."""

from __future__ import annotations

from kafka_chaos.contract.groups import Group
from kafka_chaos.harness.workload.groups.plan import Action, Planned, planned


def test_actions_are_spread_over_the_load_and_over_the_members() -> None:
    assert planned(Group(members=2, crashes=3, freezes=1), 40) == [
        Planned(10, Action.CRASH, 0),
        Planned(20, Action.CRASH, 1),
        Planned(20, Action.FREEZE, 1),
        Planned(30, Action.CRASH, 0),
    ]


def test_members_join_before_they_leave() -> None:
    assert planned(Group(members=2, joins=1, leaves=2), 40) == [
        Planned(10, Action.JOIN, 2),
        Planned(20 + 20 / 3, Action.LEAVE, 2),
        Planned(20 + 40 / 3, Action.LEAVE, 1),
    ]


def test_a_group_that_is_left_alone_has_no_plan() -> None:
    assert planned(Group(), 40) == []
