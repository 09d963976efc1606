"""What footers show is what the rows say, and where they do not show it, the result is None."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.harness.report.inputs.footers import Extent, read_footers

SCHEMA = pa.schema(
    [("lane", pa.string()), ("invoke_ns", pa.int64()), ("complete_ns", pa.int64()), ("outcome", pa.string())]
)


def row(lane: str, invoke: int, complete: int | None, outcome: str = "ok") -> dict[str, Any]:
    return {"lane": lane, "invoke_ns": invoke, "complete_ns": complete, "outcome": outcome}


def write(path: Path, *rows: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), path, **options)
    return path


def test_extents_over_several_files_of_a_lane(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a", row("one", 10, 12), row("one", 20, None, "info")),
        write(tmp_path / "b", row("one", 5, 40)),
        write(tmp_path / "c", row("two", 7, None, "info")),
    ]
    found = read_footers({"produced": files, "log": files[:1]})
    assert found.extents == {"one": Extent(5, 40), "two": Extent(7, 7)}
    assert found.rows == 6
    assert not found.all_ok


def test_a_record_that_never_completed_counts_from_its_send(tmp_path: Path) -> None:
    file = write(tmp_path / "a", row("one", 10, 12), row("one", 20, None, "info"))
    assert read_footers({"produced": [file]}).extents == {"one": Extent(10, 20)}


def test_lanes_in_one_row_group_can_not_be_told_apart(tmp_path: Path) -> None:
    file = write(tmp_path / "a", row("one", 1, 2), row("two", 3, 4))
    assert read_footers({"produced": [file]}).extents is None
    apart = write(tmp_path / "b", row("one", 1, 2), row("two", 3, 4), row_group_size=1)
    assert read_footers({"produced": [apart]}).extents == {"one": Extent(1, 2), "two": Extent(3, 4)}


def test_files_without_statistics_tell_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "a", row("one", 1, 2), write_statistics=False)
    found = read_footers({"produced": [file]})
    assert found.extents is None
    assert not found.all_ok


def test_all_ok_is_returned_only_where_all_are(tmp_path: Path) -> None:
    assert read_footers({"produced": [write(tmp_path / "a", row("one", 1, 2))]}).all_ok
    mixed = write(tmp_path / "b", row("one", 1, 2), row("one", 3, 4, "fail"))
    assert not read_footers({"produced": [mixed]}).all_ok
