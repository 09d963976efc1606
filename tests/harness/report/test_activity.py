"""The pictures of transactions and of groups, and what is told of them in words."""

import re
from pathlib import Path
from xml.etree import ElementTree

import report_runs as runs
from activity_runs import S, group_over_time, transactional_id
from test_page import full_run, page_of, series_of

from kafka_chaos.contract.events import FaultRequested
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.inputs.series import Series
from kafka_chaos.harness.report.timeline.activities import draw_group, draw_transactions
from kafka_chaos.harness.report.timeline.events import FaultSpan, MemberChange, Offsets, timeline_of
from kafka_chaos.harness.report.timeline.frame import Activity, Frame

REQUEST = FaultRequested(
    ts_ns=3 * S, fault_id="load/pause-1", kind="pause", target="leader(orders)", resolved=("broker-1",), lanes=None
)
PAUSE = FaultSpan(REQUEST, healed_ns=8 * S, proven=True)
FRAME = Frame("orders", S, 11 * S, [PAUSE])
CHANGES = [MemberChange(5 * S, "0", "freezes"), MemberChange(6 * S, "0", "crashes"), MemberChange(6 * S, "1", "joins")]


def description(activity: Activity) -> str:
    picture = ElementTree.fromstring(activity.picture)
    return next(one.text or "" for one in picture.iter() if one.tag == "desc")


def test_transactions_are_told_in_words() -> None:
    drawn = draw_transactions(FRAME, [transactional_id("orders-0")], [], number=0, rows=12, events=60)
    assert "pause of broker-1 from 2 s to 7 s; orders-0: 24 committed, 7 aborted and 1 in doubt" in description(drawn)
    assert drawn.events == [
        ("+3.00 s", "orders-0 begins a transaction, in doubt after 2.0 s: _FENCED"),
        ("+6.00 s", "orders-0 begins a transaction, left open, aborted after 1.0 s"),
        ("+7.00 s", "producer 1 takes orders-0 over"),
    ]


def test_a_last_stable_offset_that_stands_still_is_told() -> None:
    steps = [Offsets(2 * S, 5, 5), Offsets(3 * S, 25, 5), Offsets(5 * S, 30, 5), Offsets(6 * S, 30, 30)]
    drawn = draw_transactions(FRAME, [], [(0, steps)], number=0, rows=12, events=60)
    told = "partition 0: the last stable offset is up to 25 behind the high watermark, and stands still for up to 2.0 s"
    assert told in description(drawn)
    assert "up to 25 held back" in drawn.picture


def test_offsets_of_transactional_lanes_are_read_from_events(tmp_path: Path) -> None:
    place = {"lane": "orders", "partition": 0}
    events = [
        runs.event(1, "phase_started", phase="load", lanes=["orders"]),
        runs.event(2, "high_watermark", **place, broker=1, leader_epoch=0, high_watermark=9),
        runs.event(3, "last_stable_offset", **place, broker=1, last_stable_offset=4),
        runs.event(4, "last_stable_offset", **place, broker=1, last_stable_offset=12),
        runs.event(4.5, "last_stable_offset", lane="orders"),
        runs.event(5, "member_changed", group="orders-group", member="orders-group-3", change="joins"),
    ]
    run = runs.write(tmp_path / "run", [runs.lane("orders")], [runs.judged("orders")], events=events)
    found = timeline_of(read_evidence(run))
    assert found.offsets == {"orders": {0: [Offsets(3 * S, 9, 4), Offsets(4 * S, 9, 9)]}}
    assert found.members == {"orders-group": [MemberChange(5 * S, "3", "joins")]}


def test_a_group_is_told_in_words() -> None:
    drawn = draw_group(FRAME, group_over_time("orders", "g"), CHANGES, name="group-0-0", rows=12, events=60)
    assert drawn.summary == (
        "2 members, 6 partitions, 2 generations. Commits of offsets: 240 acknowledged, 2 refused and 1 with an unknown "
        "outcome."
    )
    assert "partition 1: member 0 from 1 s, member 1 from 6 s, nobody for 1.0 s from 5 s" in description(drawn)
    assert drawn.events == [
        ("+1.00 s", "generation 1 has its first member"),
        ("+4.00 s", "member 0 freezes"),
        ("+5.00 s", "member 0 crashes"),
        ("+5.00 s", "member 1 joins"),
        ("+5.00 s", "nobody holds partitions 1, 2, 3, 4 and 5 for 1.0 s"),
        ("+6.00 s", "generation 3 has its first member"),
        ("+7.00 s", "2 commits of partitions 0 and 1 refused: ILLEGAL_GENERATION"),
        ("+8.00 s", "a commit of partition 1 without an answer: REQUEST_TIMED_OUT"),
    ]


def active() -> Series:
    """The series of the lane `orders` with transactions, a group, and a loop that reads another lane."""
    return Series(
        lanes=series_of("orders").lanes,
        transactions={"orders": [transactional_id(f"orders-{number}") for number in range(3)]},
        groups={key: group_over_time(*key) for key in (("orders", "orders-group"), ("source", "orders-loop"))},
    )


def test_a_page_has_the_transactions_and_groups_of_a_lane(tmp_path: Path) -> None:
    page = page_of(full_run(tmp_path), active())
    parts = ["Transactions 96 transactions", "Group orders-group 2 members", "Group orders-loop, which reads source"]
    places = [re.sub(r"\s+", " ", page.text).index(part) for part in parts]
    assert places == sorted(places)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {"transactions-0", "group-0-0", "group-0-1-description"} <= set(ids)
    assert "below a lane's picture" in page.text.lower()
    assert "below a lane's picture" not in page_of(full_run(tmp_path / "plain"), series_of("orders")).text.lower()
