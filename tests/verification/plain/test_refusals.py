"""Rows that break the contract, and the errors that name them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.plain.refusals import refuse_stray_rows
from kafka_chaos.verification.plain.tables import Part

PLAIN, IN_TRANSACTIONS = Lane(lane="a", partitions=2), Lane(lane="b", idempotence=True, transactional=Transactional())
READ = Lane(lane="c", group=Group(members=2))
RUN: Any = SimpleNamespace(lanes=[PLAIN, IN_TRANSACTIONS, READ], place=lambda table: Path("run") / table)
USUAL: dict[str, dict[str, Any]] = {
    "produced": {"lane": "a", "producer_id": 0, "seq": 0, "partition": 1, "outcome": "ok"},
    "consumed": {"lane": "a", "partition": None},
    "replicas": {"lane": "b", "partition": 0, "kind": None},
    "transactions": {"lane": "b", "producer_id": 0, "transaction": 0, "outcome": "info"},
    "assignments": {
        "lane": "c", "partition": 0, "consumer": "c1", "isolation": "read_committed", "start_ns": 10, "end_ns": 10,
    },
    "commits": {
        "lane": "c", "partition": 0, "consumer": "c1", "group": "c-group", "offset": 0, "outcome": "ok",
        "invoke_ns": 10, "complete_ns": 10,
    },
}  # fmt: skip


def part(table: str, *rows: dict[str, Any], file: str = "part-1") -> Part:
    found = [{**USUAL[table], **row} for row in rows or [{}]]
    return Part(table, Path("run") / table / file, {name: [row[name] for row in found] for name in USUAL[table]})


def refused(*parts: Part, run: Any = RUN) -> str | None:
    given = [*parts, *(part(table) for table in USUAL if table not in {one.table for one in parts})]
    try:
        refuse_stray_rows(run, given)
    except RunDirectoryError as error:
        return str(error)
    return None


def test_rows_as_the_contract_has_them_are_read() -> None:
    assert refused() is None
    later = {"start_ns": 20, "end_ns": None}
    assert refused(part("assignments", later, {}), part("commits", {"complete_ns": None})) is None
    # Of a consumer that was assigned nothing, nothing is known.
    assert refused(part("commits", {"consumer": "c2", "invoke_ns": 1, "complete_ns": 1})) is None


@pytest.mark.parametrize(
    ("table", "row", "column", "problem"),
    [
        ("produced", {"lane": "x"}, "lane", "'x' is not in lanes.json (a, b, c)"),
        ("consumed", {"partition": 2}, "partition", "lane 'a' has partitions 0 to 1, not 2"),
        ("produced", {"partition": -1}, "partition", "lane 'a' has partitions 0 to 1, not -1"),
        ("produced", {"outcome": "maybe"}, "outcome", "'maybe', expected one of ok, fail, info"),
        ("transactions", {"outcome": "ok"}, "outcome", "'ok', expected one of committed, aborted, info"),
        ("replicas", {"kind": "marker"}, "kind", "'marker', expected one of data, commit, abort"),
        ("assignments", {"isolation": "none"}, "isolation", "'none', expected one of read_committed, read_uncommitted"),
        ("assignments", {"end_ns": 9}, "end_ns", "9, expected no end before the start"),
        ("commits", {"outcome": "committed"}, "outcome", "'committed', expected one of ok, fail, info"),
        ("commits", {"offset": -1}, "offset", "-1, expected an offset of at least 0"),
        ("commits", {"complete_ns": 9}, "complete_ns", "9, expected no answer before the commit was sent"),
        ("commits", {"group": "d-group"}, "group", "'d-group', expected the group of a lane, one of c-group"),
        ("commits", {"lane": "a"}, "group", "'c-group', expected the group of a lane, one of c-group"),
        ("commits", {"invoke_ns": 9}, "invoke_ns", "9, expected no commit before the first assignment of its consumer"),
    ],
)
def test_a_stray_value_is_refused_with_its_file_and_column(
    table: str, row: dict[str, Any], column: str, problem: str
) -> None:
    assert refused(part(table, {}, row)) == f"run/{table}/part-1: {column}: {problem}"


def test_levels_of_isolation_are_those_of_lanes_with_groups_alone_too() -> None:
    run = SimpleNamespace(lanes=[PLAIN, Lane(lane="b"), READ], place=RUN.place)
    problem = "'none', expected one of read_committed, read_uncommitted"
    assert (
        refused(part("assignments", {"isolation": "none"}), run=run) == f"run/assignments/part-1: isolation: {problem}"
    )
    assert refused(part("transactions", {"outcome": "ok"}), run=run) is None


def test_a_transaction_that_is_there_twice_is_refused() -> None:
    twice = refused(part("transactions", {}, {"producer_id": 1}, {"outcome": "committed"}))
    assert twice == "run/transactions: transaction: lane 'b', producer_id 0, transaction 0 occurs twice"


def test_an_identity_that_is_there_twice_is_refused_with_both_files() -> None:
    second, third = part("produced", {"seq": 1}, file="part-3"), part("produced", {}, {"seq": 1}, file="part-2")
    assert refused(part("produced"), second, third) == (
        "run/produced/part-1: seq: lane 'a', producer_id 0, seq 0 occurs twice, in part-1 and part-2"
    )
    assert refused(part("produced", {}, {})) == (
        "run/produced/part-1: seq: lane 'a', producer_id 0, seq 0 occurs twice, in part-1"
    )
