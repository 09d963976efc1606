"""The oracle's counts, against a lane worked out by hand."""

from types import SimpleNamespace
from typing import Any

from kafka_chaos.contract.lane.groups import Group as GroupOf
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.verification.tables.facts import (
    GroupFacts,
    GroupPartitionFacts,
    OpenEnd,
    Owned,
    Pulse,
    TransactionFacts,
)
from tests.verification.oracle.facts import facts_of, owned_by, pulses_of
from tests.verification.oracle.groups import Group
from tests.verification.oracle.rows import (
    Assigned,
    Commit,
    LaneHistory,
    Produced,
    Read,
    Replicated,
    Stored,
    Transaction,
    View,
)

SECOND = 1_000_000_000
RUN: Any = SimpleNamespace(has_log=True, timings={}, events=SimpleNamespace(passing={}))


def test_a_second_s_pulse_is_its_first_and_its_last_moment() -> None:
    times = [SECOND + 5, SECOND + 900, SECOND + 3, SECOND + 7, 2 * SECOND]
    lane = LaneHistory(
        produced=[
            Produced(0, 0, 0, 0, "ok", invoke_ns=1, complete_ns=9),
            Produced(0, 1, 0, None, "fail", invoke_ns=2, complete_ns=8),
            Produced(0, 2, None, None, "info", invoke_ns=3, complete_ns=None),
        ],
        consumed=[Read("c", 0, at, 0, at, at) for at in times]
        + [Read(name, 1, 0, 0, 0, 4) for name in ("m", "p", "n")],
        assignments=[Assigned("m", 1, "read_committed", "g"), Assigned("n", 1, "read_committed")],
    )
    assert pulses_of(lane, ["p"]) == (
        Pulse("acknowledged", "", 0, 9, 9, 1, 0, 0),
        Pulse("given up", "", 0, 8, 8, 2),
        Pulse("read", "", 0, SECOND + 3, SECOND + 900, None, SECOND + 3, SECOND + 900),
        Pulse("read", "", 0, 2 * SECOND, 2 * SECOND, None, 2 * SECOND, 2 * SECOND),
        Pulse("read", "", 1, 4, 4, None, 0, 0),
        Pulse("read", "g", 1, 4, 4, None, 0, 0),
        Pulse("read", "p", 1, 4, 4, None, 0, 0),
        Pulse("sent", "", 0, 1, 2, 1),
        Pulse("sent", "", None, 3, 3, 3),
        Pulse("unanswered", "", None, 3, 3, 3),
    )


def group(lane: LaneHistory, final: dict[int, int]) -> Group:
    return Group("g", View(lane), None, final, "a")


def test_of_a_group_it_counts_members_commits_and_what_stands_twice() -> None:
    lane = LaneHistory(
        consumed=[Read("c", 0, offset, 0, offset, 1) for offset in (3, 7, 5)],
        log=[],
        assignments=[
            Assigned("c", 0, "read_committed", "g", "m1", 1, start_ns=10),
            Assigned("c", 0, "read_committed", "g", "m1", 1, start_ns=10),
            Assigned("d", 1, "read_committed", "g", "m2", None, start_ns=9, end_ns=30),
            Assigned("e", 1, "read_committed", "another"),
        ],
        commits=[
            Commit("g", "c", 0, 2, 1, 2, "fail"),
            Commit("g", "c", 0, 4, 2, None, "info"),
            Commit("g", "c", 0, 6, 3, 4, "ok"),
            Commit("g", "c", 0, 8, 5, 6, "ok"),
            Commit("g", "c", 0, 8, 5, 6, "ok"),
            Commit("g", "c", 2, 1, 5, 6, "fail"),
        ],
    )
    reader = group(lane, {3: 4})
    lane_of_group = Lane(lane="a", group=GroupOf(members=2))
    (facts,) = facts_of(RUN, lane_of_group, View(lane), [reader]).groups
    assert facts == GroupFacts(
        group="g",
        lane="a",
        assignments=3,
        members=2,
        without_generation=1,
        doubled=2,
        processed=3,
        acknowledged=3,
        refused=2,
        in_doubt=1,
        partitions={
            0: GroupPartitionFacts(processed_from=3, processed_to=7, committed_from=4, acknowledged=8),
            1: GroupPartitionFacts(),
            2: GroupPartitionFacts(),
            3: GroupPartitionFacts(final=4),
        },
    )
    assert owned_by([reader]) == (Owned("g", 0, 10, None), Owned("g", 0, 10, None), Owned("g", 1, 9, 30))


def test_of_transactions_it_counts_how_they_ended_and_what_is_outside() -> None:
    lane = LaneHistory(
        produced=[
            Produced(0, 0, 0, 0, "ok", 0, 1, 2),
            Produced(0, 1, 0, None, "fail", 0, 3, 4),
            Produced(0, 2, 0, 2, "ok", 1, 5, 6),
            Produced(0, 3, 0, 3, "ok", None, 7, 8),
            Produced(0, 4, None, None, "fail", None, 9, 10),
            Produced(0, 5, 0, None, "fail", 2, 11, 12),
        ],
        log=[Stored(0, 0, 0, 0), Stored(0, 2, 0, 2), Stored(0, 3, 0, 3)],
        replicas=[Replicated(0, 1, 1, 0, 0, -1, "commit"), Replicated(0, 1, 0, 0, 0, 0, "data")],
        transactions=[Transaction(0, 0, "t", 0, 20, "committed"), Transaction(0, 2, "t", 10, 40, "aborted")],
        assignments=[Assigned("c", 0, "read_committed")],
        consumed=[Read("c", 0, 0, 0, 0, 30), Read("stranger", 0, 3, 0, 3, 31)],
        timeout_ms=1000,
    )
    facts = facts_of(RUN, Lane(lane="a", idempotence=True, transactional=Transactional()), View(lane), []).transactions
    assert facts == TransactionFacts(
        transactions=2,
        committed=1,
        aborted=1,
        in_doubt=0,
        assignments=1,
        unnamed=1,
        outside=1,
        failed=2,
        markers=1,
        unknown_readers=("stranger",),
        read_to={0: 0},
        open_ends=(OpenEnd(0, 2, 0, 2, 1, 6),),
        ends_ns=40,
    )
