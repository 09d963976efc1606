"""Transactions, assignments and commits, condensed from planted tables."""

from pathlib import Path

from activity_runs import S, commit, held, table, transaction

from kafka_chaos.harness.report.inputs.groups import Holding, SimilarCommits, read_groups
from kafka_chaos.harness.report.inputs.transactions import Bar, Incarnation, read_transactions

FRAMES = {"orders": (0, 300_000_000)}
"""Slots of 0.1 s."""
GROUP = ("orders", "orders-group")


def test_short_transactions_of_a_slot_are_counted_and_long_ones_kept_by_themselves(tmp_path: Path) -> None:
    rows = [
        transaction(0, 1.00, 1.02),
        transaction(1, 1.03, 1.05),
        transaction(2, 1.06, 1.08, "aborted"),
        transaction(3, 1.09, 3.5),
        transaction(4, 3.6, 3.7, "aborted", error="ILLEGAL_GENERATION"),
        transaction(5, 3.8, 3.9, "info", error="_FENCED"),
    ]
    files = [table(tmp_path, "transactions", rows[:2]), table(tmp_path, "transactions", rows[2:])]
    ((lane, (one,)),) = read_transactions(files, FRAMES).items()
    assert (lane, one.name) == ("orders", "orders-0")
    assert one.bars == [
        Bar(S, round(1.05 * S), "committed", count=2),
        Bar(round(1.06 * S), round(1.08 * S), "aborted"),
        Bar(round(1.09 * S), round(3.5 * S), "committed"),
        Bar(round(3.6 * S), round(3.7 * S), "aborted", "ILLEGAL_GENERATION"),
        Bar(round(3.8 * S), round(3.9 * S), "info", "_FENCED"),
    ]
    assert (one.count("committed"), one.count("aborted"), one.count("info"), one.fenced_count) == (3, 2, 1, 1)
    assert one.longest_ns == round(3.5 * S) - round(1.09 * S)


def test_an_open_transaction_ends_when_the_next_producer_takes_its_id_over(tmp_path: Path) -> None:
    rows = [
        transaction(0, 1, None, "aborted", initialised_ns=S // 2),
        transaction(0, 5, 5.5, producer_id=1, initialised_ns=4 * S),
        transaction(1, 6, None, "info", producer_id=1, initialised_ns=4 * S),
    ]
    (one,) = read_transactions([table(tmp_path, "transactions", rows)], FRAMES)["orders"]
    assert one.incarnations == [Incarnation(S // 2, 0), Incarnation(4 * S, 1)]
    assert [one.ends_at(bar) for bar in one.bars] == [4 * S, round(5.5 * S), None]


def test_a_member_that_goes_on_with_a_partition_has_one_bar(tmp_path: Path) -> None:
    rows = [
        held("0", 0, 1, 3),
        held("0", 0, 3, 5, consumer="orders-group-0-2", generation=2),
        held("1", 1, 1, 3),
        held("1", 1, 4, None, consumer="orders-group-1-2", generation=2),
        held("7", 0, 1, 9, group=None, consumer="follower"),
    ]
    (group,) = read_groups([table(tmp_path, "assignments", rows)], [], FRAMES).values()
    assert group.holdings == [
        Holding(0, "0", S, 5 * S, (1, 2)), Holding(1, "1", S, 3 * S, (1, 1)), Holding(1, "1", 4 * S, None, (2, 2)),
    ]  # fmt: skip
    assert (group.members, group.partitions, group.generations) == (["0", "1"], [0, 1], [(S, 1), (3 * S, 2)])


def test_commits_are_counted_by_slot_outcome_and_error(tmp_path: Path) -> None:
    rows = [
        commit(0, 5, 1.01), commit(0, 7, 1.02), commit(0, 9, 1.5),
        commit(0, 9, 1.03, "fail", error="ILLEGAL_GENERATION"), commit(1, 3, 1.04, "info", complete_ns=None),
    ]  # fmt: skip
    found = read_groups([], [table(tmp_path, "commits", rows)], FRAMES)
    assert found[GROUP].commits == [
        SimilarCommits(0, round(1.01 * S) + 1000, "ok", None, 7, 2),
        SimilarCommits(0, round(1.03 * S) + 1000, "fail", "ILLEGAL_GENERATION", 9),
        SimilarCommits(1, round(1.04 * S), "info", None, 3),
        SimilarCommits(0, round(1.5 * S) + 1000, "ok", None, 9),
    ]
