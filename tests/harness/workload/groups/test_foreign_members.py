"""Members of another client, as fake processes: what becomes of a group when they are lost, or break the protocol."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ClientFailed
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import EventHandler, SupervisedProcess
from kafka_chaos.harness.workload.groups.group_kinds import ConsumerGroup
from kafka_chaos.harness.workload.groups.settings import MemberSettings
from tests.harness.workload.loads import load_of
from tests.harness.workload.processes.fake_client import CLIENT

ORDERS = LaneSpec(lane="orders", group={"members": 2})  # type: ignore[arg-type]
MEMBER = """
assert (begin["role"], begin["group"]) == ("member", "orders-group")
number = int(begin["name"].rpartition("-")[2])
"""


def test_members_have_the_lanes_configs_but_for_what_its_group_decides(tmp_path: Path) -> None:
    given = {"fetch.min.bytes": 5, "auto.commit.interval.ms": 7, "group.id": "other", "session.timeout.ms": 1}
    lane = ORDERS.model_copy(update={"consumer_configs": given})
    load = load_of(tmp_path, lane)
    configs = ConsumerGroup(lane, lane, load).member_settings(slot=0, number=1)["configs"]
    load.tables.close()
    assert (configs["fetch.min.bytes"], configs["auto.commit.interval.ms"]) == (5, 7)
    assert (configs["group.id"], configs["session.timeout.ms"]) == ("orders-group", 6_000)


class ForeignGroup:
    """The group whose members have this behaviour; `problems` are those that were reported."""

    def __init__(self, behaviour: str, tmp_path: Path) -> None:
        self.problems: list[str] = []
        self.notices: list[str] = []
        self.begun: list[str] = []
        load = load_of(tmp_path, ORDERS, on_notice=self.notices.append)
        self.tables = load.tables

        def start(_: object, settings: MemberSettings, rows: EventHandler) -> SupervisedProcess:
            name = settings["name"]
            self.begun.append(name)
            return SupervisedProcess(
                [sys.executable, "-c", CLIENT % (MEMBER, behaviour)],
                {"role": "member", **settings},
                rows,
                name=name,
                on_notice=self.notices.append,
                emit=lambda event: isinstance(event, ClientFailed) and self.problems.append(f"{name} {event.problem}"),
                may_end=True,
            )

        kind = type("Group", (ConsumerGroup,), {"start_process": start})
        self.load = kind(ORDERS, ORDERS, load).begin()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Any]:
    made: list[ForeignGroup] = []

    def begin(behaviour: str) -> ForeignGroup:
        made.append(ForeignGroup(behaviour, tmp_path))
        return made[0]

    yield begin
    for one in made:
        one.load.close()
        one.tables.close()


def test_members_that_break_the_protocol_end_the_group_and_not_the_run(group: Any) -> None:
    made = group("tell('red')")
    wait_until(lambda: made.load.problem, "both members to have failed", timeout=30)
    made.load.raise_error()
    made.load.drain({0: 5}, timeout=30)
    assert sorted(made.problems) == [
        f"{name} a member of a group has no event 'red': it said '{{\"event\": \"red\"}}'"
        for name in ("orders-group-0", "orders-group-1")
    ]
    assert made.begun == ["orders-group-0", "orders-group-1"], "nobody takes their places"
    assert made.load.processes() == []


def test_one_that_ends_by_itself_has_a_problem_and_the_other_goes_on(group: Any) -> None:
    made = group("if number == 0: sys.exit(5)")
    wait_until(lambda: made.problems, "the problem", timeout=30)
    wait_until(lambda: len(made.load.processes()) == 1, "the other one to be alone", timeout=30)
    assert made.problems == ["orders-group-0 ended unexpectedly, with exit code 5"]
    assert made.load.problem == ""
    made.load.leave()
    assert len(made.problems) == 1


def test_one_whose_client_is_lost_is_replaced(group: Any) -> None:
    made = group("if number == 0: sys.exit(3)")
    wait_until(lambda: len(made.begun) == 3 and len(made.load.processes()) == 2, "another member", timeout=30)
    assert made.problems == []


def test_one_whose_client_is_lost_again_and_again_has_a_problem(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.harness.workload.groups.load._MAX_REPLACED", 2)
    made = group("if number != 1: sys.exit(3)")
    wait_until(lambda: made.problems, "the problem", timeout=30)
    assert made.problems == ["orders-group-3 failed for good, as 2 earlier members of its group did"]
    made.load.raise_error()


def test_a_group_that_does_not_get_to_the_end_has_a_problem(group: Any) -> None:
    made = group("")
    wait_until(lambda: len(made.load.processes()) == 2, "the members", timeout=30)
    made.load.drain({0: 5}, timeout=0.3)
    problem = "did not reach the end: partition 0 was read up to offset 0 of 5"
    assert made.notices == [f"the group orders-group {problem}"]
    assert sorted(made.problems) == [f"orders-group-{number} {problem}" for number in (0, 1)]
