from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.harness.history import (
    PRODUCED_SCHEMA,
    RESERVATIONS,
    HistoryWriter,
    Reservations,
    file_stem,
    recover,
    write_parquet,
)


def produced(seqs: list[int], *, lane: str = "a", producer_id: int = 0) -> pa.Table:
    rows = [
        {
            "lane": lane, "producer_id": producer_id, "seq": seq, "partition": 0, "offset": seq, "invoke_ns": 1,
            "complete_ns": 2, "outcome": "ok", "error": None,
        }
        for seq in seqs
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=PRODUCED_SCHEMA)


def test_tables_are_written_whole_and_in_order(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    for number in range(40):
        writer.write(f"part-{number:03d}", produced([number]))
    writer.close()
    names = sorted(path.name for path in (tmp_path / "produced").iterdir())
    assert names == [f"part-{number:03d}.parquet" for number in range(40)]
    assert pq.read_table(tmp_path / "produced")["seq"].to_pylist() == list(range(40))


def test_lanes_never_share_a_file_and_none_is_hidden() -> None:
    lanes = ["a.b", "a_b", "a-b", ".a", "_a", "a", "a-0", "ä/b"]
    stems = {file_stem(lane, producer, "000000") for lane in lanes for producer in ("0", "1")}
    assert len(stems) == 2 * len(lanes)
    assert not [stem for stem in stems if stem.startswith((".", "_")) or "/" in stem]


def test_an_empty_table_makes_no_file(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    writer.write("nothing", produced([]))
    writer.close()
    assert list((tmp_path / "produced").iterdir()) == []


def test_an_error_of_the_writing_thread_is_raised(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    writer.write("no/such/folder", produced([1]))
    with pytest.raises(FileNotFoundError):
        writer.close()


def test_a_file_that_can_not_be_written_leaves_no_file_of_its_name(tmp_path: Path) -> None:
    target = tmp_path / "table.parquet"
    target.with_name(".table.parquet.part").mkdir()
    with pytest.raises(OSError, match=r"table\.parquet"):
        write_parquet(produced([1]), target)
    assert not target.exists()


def test_reserved_records_without_a_row_become_info_after_a_crash(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    reservations = Reservations(tmp_path)
    reservations.reserve(lane="a", producer_id=0, first_seq=0, count=4, now_ns=11)
    reservations.reserve(lane="b", producer_id=3, first_seq=4, count=2, now_ns=22)
    writer.write("a", produced([0, 2]))
    writer.close()
    reservations.close()
    assert recover(tmp_path) == 4
    rows = pq.read_table(tmp_path / "produced", filters=[("outcome", "==", "info")]).to_pylist()
    found = sorted((row["lane"], row["producer_id"], row["seq"], row["invoke_ns"], row["offset"]) for row in rows)
    assert found == [("a", 0, 1, 11, None), ("a", 0, 3, 11, None), ("b", 3, 4, 22, None), ("b", 3, 5, 22, None)]
    assert recover(tmp_path) == 0


def test_the_journal_s_torn_last_line_reserved_nothing(tmp_path: Path) -> None:
    line = json.dumps({"lane": "a", "producer_id": 0, "first_seq": 0, "count": 2, "ns": 5})
    (tmp_path / RESERVATIONS).write_text(f"{line}\n{line[:20]}")
    (tmp_path / "produced").mkdir()
    assert recover(tmp_path) == 2


def test_a_run_that_ended_in_order_is_left_alone(tmp_path: Path) -> None:
    assert recover(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []
