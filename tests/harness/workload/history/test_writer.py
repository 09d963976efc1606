"""Rows on their way to files."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.workload.history.writer import PRODUCED_SCHEMA, HistoryWriter
from tests.harness.workload.history.rows import produced


def test_rows_of_all_lanes_share_files_in_order(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    for number in range(40):
        writer.write(produced([number], lane=f"lane {number % 4}"))
    writer.close()
    names = sorted(path.name for path in (tmp_path / "produced").iterdir())
    assert names == ["part-000001.parquet"]
    assert pq.read_table(tmp_path / "produced")["seq"].to_pylist() == list(range(40))


def test_rows_are_on_disk_within_a_second_and_a_file_never_changes(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    seen: dict[Path, bytes] = {}
    waits = []
    for number in range(4):
        start = time.monotonic()
        writer.write(produced([number]))
        wait_until(lambda number=number: rows_in(tmp_path / "produced") > number, "the row", timeout=30, interval=0.01)  # type: ignore[misc]
        waits.append(time.monotonic() - start)
        for path in (tmp_path / "produced").glob("*.parquet"):
            assert seen.setdefault(path, path.read_bytes()) == path.read_bytes()
    writer.close()
    # A disk that others keep busy delays a row, not all of them.
    assert min(waits) < 1.0
    assert sorted(pq.read_table(tmp_path / "produced")["seq"].to_pylist()) == list(range(4))


def rows_in(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def test_rows_that_a_source_keeps_are_taken_from_it_in_time_and_at_the_end(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    kept = [produced([0]), produced([1])]
    writer.follow(lambda: kept.pop() if kept else None)
    wait_until(lambda: rows_in(tmp_path / "produced") == 2, "both rows", timeout=5)
    kept.append(produced([2]))
    writer.close()
    assert rows_in(tmp_path / "produced") == 3


def test_much_at_once_becomes_several_files(tmp_path: Path) -> None:
    tables = [produced(list(range(part * 60_000, (part + 1) * 60_000))) for part in range(3)]
    writer = HistoryWriter(tmp_path / "produced")
    for table in tables:
        writer.write(table)
    writer.close()
    rows = [pq.read_metadata(path).num_rows for path in (tmp_path / "produced").iterdir()]
    assert sum(rows) == 180_000
    assert max(rows) <= 120_000


def test_a_further_phase_goes_on_in_the_same_folder(tmp_path: Path) -> None:
    for number in range(3):
        writer = HistoryWriter(tmp_path / "produced")
        writer.write(produced([number]))
        writer.close()
    names = sorted(path.name for path in (tmp_path / "produced").iterdir())
    assert names == ["part-000001.parquet", "part-000002.parquet", "part-000003.parquet"]


def test_no_lane_s_name_hides_a_file(tmp_path: Path) -> None:
    """Spark passes over files whose names begin with `.` or `_`."""
    lanes = ["a.b", "a_b", "a-b", ".a", "_a", "a", "a-0", "ä/b"]
    writer = HistoryWriter(tmp_path / "produced")
    for lane in lanes:
        writer.write(produced([0], lane=lane))
    writer.close()
    assert [path.name[0] for path in (tmp_path / "produced").iterdir()] == ["p"]
    assert sorted(pq.read_table(tmp_path / "produced")["lane"].to_pylist()) == sorted(lanes)


def test_an_empty_table_makes_no_file(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    writer.write(produced([]))
    writer.close()
    assert list((tmp_path / "produced").iterdir()) == []


def test_an_error_of_the_writing_thread_is_raised(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    (tmp_path / "produced" / "part-000001.parquet").mkdir()
    writer.write(produced([1]))
    with pytest.raises(OSError, match=r"part-000001\.parquet"):
        writer.close()


def test_an_error_of_a_source_is_raised(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    writer.follow(lambda: pa.table({"seq": ["not a number"]}).cast(PRODUCED_SCHEMA))
    with pytest.raises(ValueError, match="schema"):
        writer.close()
