"""Histories of Jepsen's kafka workload with transactions: what its own tests expect is what is found."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.verification.importers.jepsen import import_jepsen
from kafka_chaos.verification.importers.writing import HistoryError
from kafka_chaos.verification.inputs.run_directory import open_run
from tests.parquet import rows_in
from tests.verification.importers.jepsen_cases import CASES, COUNTERPARTS, WITHOUT, history, move, poll, send
from tests.verification.samples.engines import Verified, counted, verified_by_duckdb

pytestmark = pytest.mark.usefixtures("everything_forbidden")

LANES = {name: name.replace(" ", "-") for name in CASES}


def imported(folder: Path, operations: list[dict[str, Any]], lane: str, **options: Any) -> Path:
    log = folder / f"{lane}.jsonl"
    log.write_text("".join(json.dumps(operation) + "\n" for operation in operations))
    options.setdefault("transactional", True)
    import_jepsen(log, str(folder / lane), lane=lane, **options)
    return folder / lane


def test_what_jepsen_finds_is_found_and_each_of_its_errors_is_in_some_case() -> None:
    for name, case in CASES.items():
        for error in COUNTERPARTS.keys() & case.jepsen.keys():
            same = bool(case.jepsen[error]) == bool(case.found.get(COUNTERPARTS[error]))
            assert same != (error in case.differs), (name, error)
    shown = {error for case in CASES.values() for error, count in case.jepsen.items() if count}
    assert shown == {*COUNTERPARTS, *WITHOUT}


def test_the_verdicts_of_all_cases(tmp_path: Path, verified: Verified) -> None:
    """One lane per case. No lane conforms: without brokers' logs, nothing shows how transactions ended."""
    runs = {lane: imported(tmp_path, CASES[name].operations, lane) for name, lane in LANES.items()}
    verdict = verified(together(tmp_path / "all", runs))
    for name, lane in LANES.items():
        found = {str(anomaly): seen.count for anomaly, seen in verdict.lane(lane).observed.items()}
        assert found == CASES[name].found, name
        expected = Verdict.VIOLATION if {*found} - {Anomaly.UNSEEN} else Verdict.UNKNOWN
        assert verdict.lane(lane).verdict == expected, name


def together(folder: Path, runs: Mapping[str, Path]) -> Path:
    """One run directory with the lanes of several."""
    entries = []
    for lane, run_dir in runs.items():
        entries += json.loads((run_dir / "lanes.json").read_text())["lanes"]
        for file in sorted(run_dir.glob("*/*.parquet")):
            target = folder / file.parent.name / f"{lane}-{file.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            file.rename(target)
    (folder / "lanes.json").write_text(json.dumps({"format_version": 2, "lanes": entries}))
    return folder


def test_operations_become_transactions(tmp_path: Path) -> None:
    operations = history(
        send(0, "ok", ("x", 1, 0), ("y", 1, 0)),
        poll(1, {"x": [(0, 1)]}, f="txn"),
        send(0, "fail", ("x", 2, 1)),
        send(0, "info", ("x", 3, 5)),
        send(2, "info", ("x", 4, 7)),
        poll(1, {"x": [(7, 4)]}, f="txn"),
    )
    operations.append({**send(3, "ok", ("y", 9, None))[0], "time": 99})
    run_dir = imported(tmp_path, operations, "j", transactional=None)
    found = [
        (row["transactional_id"], row["producer_id"], row["transaction"], row["outcome"])
        for row in rows_in(run_dir / "transactions")
    ]
    assert sorted(found) == [
        ("process-0", 0, 0, "committed"), ("process-0", 0, 1, "aborted"), ("process-0", 0, 2, "info"),
        ("process-2", 2, 0, "committed"), ("process-3", 3, 0, "info"),
    ]  # fmt: skip
    sent = {
        (row["producer_id"], row["seq"]): (row["transaction"], row["offset"], row["outcome"])
        for row in rows_in(run_dir / "produced")
    }
    assert sent == {
        (0, 0): (0, 0, "ok"), (0, 1): (0, 0, "ok"), (0, 2): (1, None, "fail"), (0, 3): (2, 5, "info"),
        (2, 0): (0, 7, "ok"), (3, 0): (0, None, "info"),
    }  # fmt: skip
    assert [(row["consumer"], row["member"], row["isolation"]) for row in rows_in(run_dir / "assignments")] == [
        ("process-1/0", "process-1", "read_committed")
    ]
    lane = open_run(run_dir).lane("j")
    assert (lane.idempotence, lane.transactional is not None and lane.transactional.producers) == (True, 3)


def test_what_an_uncommitted_reader_is_told_proves_nothing(tmp_path: Path) -> None:
    operations = history(send(0, "info", ("x", 1, 0)), poll(1, {"x": [(0, 1)]}))
    run_dir = imported(tmp_path, operations, "j", isolation="read_uncommitted")
    assert [row["outcome"] for row in rows_in(run_dir / "transactions")] == ["info"]


def test_a_seek_to_the_beginning_keeps_no_position(tmp_path: Path) -> None:
    seek = [{**one, "seek-to-beginning?": True} for one in move(1, "assign", "x")]
    operations = history(
        send(0, "ok", ("x", 1, 0), ("x", 2, 1)), poll(1, {"x": [(0, 1), (1, 2)]}), seek, poll(1, {"x": [(0, 1)]})
    )
    assert not counted(verified_by_duckdb(imported(tmp_path, operations, "j")))


def test_a_rebalance_may_lie_between_any_two_polls_of_an_operation(tmp_path: Path) -> None:
    invoked, polled = poll(1, {"x": [(0, 1), (1, 2)]}, {"x": [(0, 1)]})
    sent = send(0, "ok", ("x", 1, 0), ("x", 2, 1))
    for more in ({}, {"rebalance-log": [{"keys": ["x"]}]}):
        run_dir = imported(tmp_path, history(sent, [invoked, {**polled, **more}]), f"j{len(more)}")
        assert bool(counted(verified_by_duckdb(run_dir))) is not bool(more)


def test_without_transactions_a_failed_write_that_is_read_is_a_false_failure(tmp_path: Path) -> None:
    operations = CASES["a failed write is read"].operations
    run_dir = imported(tmp_path, operations, "plain", transactional=None)
    assert counted(verified_by_duckdb(run_dir)) == {"false_failure": 1}
    assert not (run_dir / "transactions").exists()


def test_a_history_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="holds no send and no poll"):
        imported(tmp_path, history(move(0, "assign", "x")), "j")
