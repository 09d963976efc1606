"""Rows that break the contract, and the errors that name them."""

from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.by_statements import examine
from kafka_chaos.verification.engines.duckdb_engine import DuckDb
from kafka_chaos.verification.inputs.run_directory import open_run
from tests.verification.samples.run_dirs import Rows, write_table

LANES: list[dict[str, Any]] = [
    {"lane": "a", "partitions": 2},
    {"lane": "b", "idempotence": True, "transactional": {}},
    {"lane": "c", "group": {"members": 2}},
]
USUAL: dict[str, dict[str, Any]] = {
    "produced": {"lane": "a", "producer_id": 0, "seq": 0, "partition": 1, "outcome": "ok", "invoke_ns": 1},
    "consumed": {
        "lane": "a", "consumer": "c1", "partition": 0, "offset": 0, "producer_id": 0, "seq": 0, "poll_ns": 1,
    },
    "replicas": {
        "lane": "b", "partition": 0, "broker": 1, "offset": 0, "leader_epoch": 0, "producer_id": 0, "seq": 0,
    },
    "transactions": {
        "lane": "b", "producer_id": 0, "transaction": 0, "transactional_id": "t", "begin_ns": 1, "outcome": "info",
    },
    "assignments": {
        "lane": "c", "group": "c-group", "partition": 0, "consumer": "c1", "member": "m", "isolation": "read_committed",
        "start_ns": 10, "end_ns": 10,
    },
    "commits": {
        "lane": "c", "partition": 0, "consumer": "c1", "group": "c-group", "offset": 0, "outcome": "ok",
        "invoke_ns": 10, "complete_ns": 10,
    },
}  # fmt: skip
Files = dict[str, list[list[dict[str, Any]]]]
"""By table the rows of each file, as far as they differ from the usual one."""


def refused(folder: Path, lanes: list[dict[str, Any]] = LANES, **changed: list[list[dict[str, Any]]]) -> str | None:
    rows = Rows(lanes=lanes, transactions=[], assignments=[], commits=[], replicas=[])
    run_dir = rows.write(folder / "run")
    for table, usual in USUAL.items():
        for file in (run_dir / table).iterdir():
            file.unlink()
        for number, of_file in enumerate(changed.get(table, [[{}]])):
            write_table(folder / "part", table, [{**usual, **row} for row in of_file])
            (folder / "part" / "part-00000.parquet").rename(run_dir / table / f"part-{number + 1}.parquet")
    run = open_run(run_dir)
    try:
        with DuckDb(run) as engine:
            examine(engine, run)
    except RunDirectoryError as error:
        return str(error).replace(str(folder / "run"), "run")
    return None


def test_rows_as_the_contract_has_them_are_read(tmp_path: Path) -> None:
    assert refused(tmp_path) is None
    later = {"start_ns": 20, "end_ns": None}
    assert refused(tmp_path / "later", assignments=[[later, {}]], commits=[[{"complete_ns": None}]]) is None
    # Of a consumer that was assigned nothing, nothing is known.
    unknown = {"consumer": "c2", "invoke_ns": 1, "complete_ns": 1}
    assert refused(tmp_path / "unknown", commits=[[unknown]]) is None


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
        ("commits", {"offset": -1}, "offset", "-1, expected 0 to 2^62"),
        ("commits", {"complete_ns": 9}, "complete_ns", "9, expected no answer before the commit was sent"),
        ("commits", {"group": "d-group"}, "group", "'d-group', expected the group of a lane, one of c-group"),
        ("commits", {"lane": "a"}, "group", "'c-group', expected the group of a lane, one of c-group"),
        ("commits", {"invoke_ns": 9}, "invoke_ns", "9, expected no commit before its consumer was assigned"),
        # Clients that know no offset say so in their own ways.
        ("produced", {"offset": -1001}, "offset", "-1001, expected 0 to 2^62, or null"),
        ("consumed", {"offset": -1}, "offset", "-1, expected 0 to 2^62"),
        ("replicas", {"offset": 2**63 - 1}, "offset", f"{2**63 - 1}, expected 0 to 2^62"),
        ("replicas", {"leader_epoch": -7}, "leader_epoch", "-7, expected -1 to 2^62"),
    ],
)
def test_a_stray_value_is_refused_with_its_file_and_column(
    tmp_path: Path, table: str, row: dict[str, Any], column: str, problem: str
) -> None:
    others = [] if table == "produced" else [[{}]]
    assert (
        refused(tmp_path, **{table: [*others, [row]]})
        == f"run/{table}/part-{1 + len(others)}.parquet: {column}: {problem}"
    )


def test_a_text_that_is_not_utf_8_is_refused_with_its_file_and_column(tmp_path: Path) -> None:
    run = Rows().read(0, 0, consumer="binary").write(tmp_path / "run")
    file = run / "consumed" / "part-00000.parquet"
    file.write_bytes(file.read_bytes().replace(b"binary", b"bi\xffary"))
    with DuckDb(open_run(run)) as engine, pytest.raises(RunDirectoryError, match="consumer: holds a text that is not"):
        engine.read()


def test_levels_of_isolation_are_those_of_lanes_with_groups_alone_too(tmp_path: Path) -> None:
    lanes = [LANES[0], {"lane": "b"}, LANES[2]]
    problem = "isolation: 'none', expected one of read_committed, read_uncommitted"
    stray = refused(tmp_path, lanes, assignments=[[{"isolation": "none"}]])
    assert stray == f"run/assignments/part-1.parquet: {problem}"
    assert refused(tmp_path / "again", lanes, transactions=[[{"outcome": "ok"}]]) is None


def test_a_transaction_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    twice = refused(tmp_path, transactions=[[{}, {"producer_id": 1}, {"outcome": "committed"}]])
    problem = "lane 'b', producer_id 0, transaction 0 occurs twice, in part-1.parquet"
    assert twice == f"run/transactions/part-1.parquet: transaction: {problem}"


def test_an_identity_that_is_there_twice_is_refused_with_both_files(tmp_path: Path) -> None:
    twice = refused(tmp_path, produced=[[{}], [{}, {"seq": 1}], [{"seq": 1}]])
    problem = "lane 'a', producer_id 0, seq 0 occurs twice, in"
    assert twice == f"run/produced/part-1.parquet: seq: {problem} part-1.parquet and part-2.parquet"
    twice = refused(tmp_path / "alone", produced=[[{}, {}]])
    assert twice == f"run/produced/part-1.parquet: seq: {problem} part-1.parquet"
