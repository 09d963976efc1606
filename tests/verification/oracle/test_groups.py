"""The oracle's view of a group, against cases worked out by hand."""

from typing import Any

import pytest

from tests.verification.oracle.groups import Effect, Group, History, find_in_groups
from tests.verification.oracle.rows import (
    Assigned,
    Case,
    Commit,
    LaneHistory,
    Produced,
    Read,
    Stored,
    Transaction,
    View,
)


def source(*, commits: list[Commit] = [], **rows: Any) -> LaneHistory:  # noqa: B006
    """A lane of which ten records (0, 0) to (0, 9) were sent to partition 0 and stored."""
    lane = LaneHistory(
        produced=[Produced(0, seq, 0, seq, "ok") for seq in range(10)],
        log=[Stored(0, seq, 0, seq) for seq in range(10)],
        commits=commits,
    )
    for name, given in rows.items():
        getattr(lane, name).extend(given)
    return lane


def owns(consumer: str = "c", partition: int = 0, **keys: Any) -> Assigned:
    return Assigned(consumer, partition, "read_uncommitted", "g", **keys)


def committed(partition: int, offset: int, outcome: str = "ok", at: int = 10, **keys: Any) -> Commit:
    complete_ns = None if outcome == "info" else at + 5
    return Commit("g", keys.pop("consumer", "c"), partition, offset, at, complete_ns, outcome, **keys)


def read(offset: int, poll_ns: int = 1, consumer: str = "c", partition: int = 0, seq: int | None = None) -> Read:
    return Read(consumer, partition, offset, 0, offset if seq is None else seq, poll_ns)


def history_of(lane: LaneHistory, *, output: LaneHistory | None = None, **final: int) -> History:
    finally_at = {int(name[1:]): offset for name, offset in final.items()}
    return History(Group("g", View(lane), None if output is None else View(output), finally_at, "in"))


def found(history: History, anomaly: str) -> list[tuple[Case, str | None]]:
    return [(one.case, one.cause) for one in find_in_groups([history.of]) if one.case.anomaly == anomaly]


def test_its_range_is_from_what_it_first_read_or_committed_to_what_it_has_committed() -> None:
    commits = [
        committed(0, 0, "fail"),
        committed(0, 2, "info"),
        committed(0, 5),
        committed(0, 7),
        committed(0, 6),
        committed(0, 9, "fail"),
        committed(0, 8, "info"),
        committed(1, 4, "ok"),
        committed(2, 3, "ok"),
        committed(3, 1, "info"),
    ]
    rows = [read(3), read(4), read(6, partition=3, seq=6)]
    history = history_of(source(commits=commits, consumed=rows, assignments=[owns(), owns(partition=3)]), p1=1)
    assert history.first() == {0: 2, 1: 4, 2: 3, 3: 1}
    assert history.past() == {0: 7, 1: 1, 2: 3}


def test_it_was_to_be_given_all_in_between_but_what_others_have_the_place_of() -> None:
    others = [Stored(1, 0, 0, 10), Stored(3, 0, 0, 11), Stored(0, 10, 5, 5)]
    sent = [Produced(0, 10, 1, 0, "ok"), Produced(0, 11, 3, 0, "ok")]
    # At offset 4 it was given another record; what is at 10 nobody sent; of partition 3 it has committed nothing.
    reads = [read(2), read(4, seq=77), read(0, partition=3, seq=11)]
    lane = source(produced=sent, log=others, consumed=reads, assignments=[owns(), owns(partition=3)])
    assert list(history_of(lane, p0=11, p1=1).passed()) == [((0, seq), (0, seq)) for seq in (2, 3, 5, 6, 7, 8, 9)]
    assert list(history_of(lane, p0=4).passed()) == [((0, 2), (0, 2)), ((0, 3), (0, 3))]


def outputs(*of: int) -> LaneHistory:
    """An output of each of these inputs."""
    return LaneHistory(
        produced=[Produced(7, n, 0, n, "ok", source_producer_id=0, source_seq=seq) for n, seq in enumerate(of)],
        log=[Stored(0, n, 7, n) for n in range(len(of))],
    )


def test_an_input_has_no_more_outputs_than_it_has_places() -> None:
    # Input 1 is stored twice, 2 twice, 3 nowhere and 4 once; nobody sent 99.
    lane = source(log=[Stored(0, 10, 0, 1), Stored(0, 11, 0, 2)])
    lane.log = [row for row in lane.log or () if row.seq != 3]
    history = history_of(lane, output=outputs(1, 1, 2, 2, 2, 3, 4, 5, 5, 99, 99), p0=0)
    assert sorted(found(history, "processed_twice"), key=str) == [
        (Case("processed_twice", None, None, 0, 2), "input of lane in, with 3 outputs"),
        (Case("processed_twice", None, None, 0, 5), "input of lane in, with 2 outputs"),
    ]


def test_what_is_stored_and_not_visible_is_no_place() -> None:
    lane = source(log=[Stored(0, 10, 0, 1)])
    history = history_of(lane, output=outputs(1, 1))
    history.of.source.visible.discard((0, 10))
    assert [case.seq for case, _ in found(history, "processed_twice")] == [1]


@pytest.mark.parametrize(
    ("ended", "outcome", "effect"),
    [
        ("committed", "ok", (90, "ok")),
        ("aborted", "ok", (90, "fail")),
        ("info", "ok", (90, "info")),
        (None, "ok", (None, "info")),
        ("committed", "fail", (90, "fail")),
        (None, "fail", (None, "fail")),
    ],
)
def test_a_commit_of_a_transaction_takes_effect_as_that_ends(
    ended: str | None, outcome: str, effect: tuple[int | None, str]
) -> None:
    output = outputs()
    if ended is not None:
        output.transactions.append(Transaction(7, 3, "t", 1, 90, ended))
    row = committed(0, 4, outcome, producer_id=7, transaction=3)
    history = history_of(source(commits=[row]), output=output)
    assert history.commits == [Effect("c", 0, 4, 10, *effect)]
    assert [one[-1] for one in history.known[0]] == (history.commits if effect == (90, "ok") else [])


LOST = committed(0, 5, at=10)


@pytest.mark.parametrize(
    ("other", "is_lost"),
    [
        (None, True),
        (committed(0, 3, at=40), False),
        (committed(0, 4, at=40), True),
        (committed(1, 3, at=40), True),
        (committed(0, 3, "fail", at=40), True),
        (committed(0, 3, "info", at=40), False),
        # The reader began at 50; the lost commit was sent at 10.
        (committed(0, 3, "info", at=50), True),
        (committed(0, 3, "info", at=49), False),
        (committed(0, 3, at=5), True),
        (committed(0, 3, at=6), False),
        (committed(0, 3, "fail", at=12), True),
        (committed(0, 3, "info", at=1)._replace(complete_ns=2), False),
    ],
)
def test_who_begins_before_what_was_committed_lost_it_unless_another_commit_may_be_later(
    other: Commit | None, is_lost: bool
) -> None:
    commits = [LOST] if other is None else [LOST, other]
    reads = [read(3, poll_ns=50, consumer="d"), read(4, poll_ns=60, consumer="d")]
    history = history_of(source(commits=commits, consumed=reads, assignments=[owns("d", start_ns=30)]))
    expected = [(Case("commit_lost", 0, 5, None, None), "committed by c; d began at 3")]
    assert found(history, "commit_lost") == (expected if is_lost else [])


def test_a_commit_that_failed_is_none_that_a_reader_has_lost() -> None:
    reads = [read(3, poll_ns=50, consumer="d")]
    lane = source(commits=[committed(0, 5, "fail", at=10)], consumed=reads, assignments=[owns("d", start_ns=30)])
    assert found(history_of(lane), "commit_lost") == []


@pytest.mark.parametrize(
    ("final", "other", "is_lost"), [(4, None, True), (5, None, False), (4, 4, False), (3, 4, True)]
)
def test_what_is_committed_in_the_end_is_not_behind(final: int, other: int | None, is_lost: bool) -> None:
    commits = [committed(0, 5, at=10), *([] if other is None else [committed(0, other, "info", at=12)])]
    lost = (Case("commit_lost", 0, 5, None, None), f"committed by c; in the end, {final} is committed")
    assert found(history_of(source(commits=commits), p0=final), "commit_lost") == ([lost] if is_lost else [])


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [((1, 5), (5, 9), True), ((1, 5), (6, 9), False), ((5, 9), (1, 5), True), ((6, 9), (1, 5), False)],
)
def test_two_members_own_a_partition_twice_where_both_read_at_one_time(
    first: tuple[int, int], second: tuple[int, int], together: bool
) -> None:
    reads = [
        read(n, poll_ns=at, consumer=who) for who, times in (("x", first), ("w", second)) for n, at in enumerate(times)
    ]
    # The one that was given the partition first is named first, whatever its name and the order of the rows.
    rows = [owns("w", member="m2", generation=1, start_ns=2), owns("x", member="m1", generation=1, start_ns=1)]
    cases = [(Case("owned_twice", 0, 0, None, None), "x and w in generation 1")] if together else []
    assert found(history_of(source(consumed=reads, assignments=rows)), "owned_twice") == cases


@pytest.mark.parametrize(
    "keys", [{"member": "m1"}, {"generation": 2}, {"generation": None}], ids=["one member", "another", "none"]
)
def test_one_member_or_two_generations_own_nothing_twice(keys: dict[str, Any]) -> None:
    reads = [read(0, poll_ns=5, consumer=who) for who in "xw"]
    second = {"member": "m2", "generation": 1} | keys
    rows = [owns("x", member="m1", generation=1), owns("w", **second), owns("idle", member="m3", generation=1)]
    assert found(history_of(source(consumed=reads, assignments=rows)), "owned_twice") == []
