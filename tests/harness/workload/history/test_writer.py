"""Rows on their way to files."""

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.columns import TRANSACTIONS, arrow_schema
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import locked
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.workload.history.recovery import recover
from kafka_chaos.harness.workload.history.reservations import (
    LEAST_SEQS,
    RESERVATIONS,
    Reservations,
    ReservedSeqs,
    reservations_in,
)
from kafka_chaos.harness.workload.history.writer import PRODUCED_SCHEMA, HistoryWriter, gather_parts
from tests.harness.workload.history.rows import produced


def test_rows_of_all_lanes_share_files_in_order_whatever_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark passes over files whose names begin with `.` or `_`."""
    # Until a writer is closed, it gathers rows.
    monkeypatch.setattr("kafka_chaos.harness.workload.history.writer._FILE_INTERVAL_S", 60)
    lanes = ["a.b", "a_b", "a-b", ".a", "_a", "a", "a-0", "ä/b"]
    writer = HistoryWriter(tmp_path / "produced")
    for number in range(40):
        writer.write(produced([number], lane=lanes[number % len(lanes)]))
    writer.close()
    names = sorted(path.name for path in (tmp_path / "produced").iterdir())
    assert names == ["part-000001.parquet"]
    table = pq.read_table(tmp_path / "produced")
    assert table["seq"].to_pylist() == list(range(40))
    assert set(table["lane"].to_pylist()) == set(lanes)


def test_rows_are_on_disk_within_a_second(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    waits = []
    for number in range(4):
        start = time.monotonic()
        writer.write(produced([number]))
        wait_until(lambda number=number: rows_in(tmp_path / "produced") > number, "the row", timeout=30, interval=0.01)  # type: ignore[misc]
        waits.append(time.monotonic() - start)
    writer.close()
    # A disk that others keep busy delays a row, not all of them.
    assert min(waits) < 1.0
    assert sorted(pq.read_table(tmp_path / "produced")["seq"].to_pylist()) == list(range(4))


def rows_in(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def test_rows_that_a_source_keeps_are_taken_from_it_in_time_and_at_the_end(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    kept = [produced([0]), produced([1])]
    writer.sources.append(lambda: kept.pop() if kept else None)
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


@pytest.mark.parametrize(("schema", "rows", "files"), [(None, 0, 0), (PRODUCED_SCHEMA, 0, 1), (PRODUCED_SCHEMA, 1, 1)])
def test_a_history_without_rows_has_a_file_where_readers_need_one(
    tmp_path: Path, schema: pa.Schema | None, rows: int, files: int
) -> None:
    writer = HistoryWriter(tmp_path / "produced", schema, keeps_empty=schema is not None)
    writer.write(produced([1] * rows))
    writer.close()
    assert [pq.read_metadata(path).num_rows for path in (tmp_path / "produced").iterdir()] == [rows] * files


def test_an_error_of_the_writing_thread_is_raised(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    (tmp_path / "produced" / "part-000001.parquet").mkdir()
    writer.write(produced([1]))
    with pytest.raises(OSError, match=r"part-000001\.parquet"):
        writer.close()


def test_an_error_of_a_source_is_raised(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    writer.sources.append(lambda: pa.table({"seq": ["not a number"]}).cast(PRODUCED_SCHEMA))
    with pytest.raises(ValueError, match="schema"):
        writer.close()


def test_files_are_gathered_in_order_and_the_next_phase_goes_on_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_chaos.harness.workload.history.writer.ROWS_PER_FILE", 7)
    write_files(tmp_path, [[0, 1], [2, 3, 4], [5, 6, 7], [8]])
    gather_parts(tmp_path)
    assert read_files(tmp_path) == {"part-000001-000002": [0, 1, 2, 3, 4], "part-000003-000004": [5, 6, 7, 8]}
    write_files(tmp_path, [[9], [10]])
    gather_parts(tmp_path)
    assert read_files(tmp_path) == {"part-000001-000002": [0, 1, 2, 3, 4], "part-000003-000006": [5, 6, 7, 8, 9, 10]}


def test_a_run_that_goes_on_is_not_completed(tmp_path: Path) -> None:
    write_files(tmp_path / "produced", [[0], [1]])
    (tmp_path / RESERVATIONS).write_text("")
    with locked(tmp_path), pytest.raises(UsageFailure, match="its run has not ended yet"):
        recover(tmp_path)
    assert len(read_files(tmp_path / "produced")) == 2
    assert recover(tmp_path) == 0
    assert len(read_files(tmp_path / "produced")) == 1


def test_a_crash_amid_the_gathering_doubles_no_row(tmp_path: Path) -> None:
    folder = tmp_path / "produced"
    write_files(folder, [[0], [1], [2]])
    kept = {path: path.read_bytes() for path in folder.iterdir() if path.stem != "part-000001"}
    gather_parts(folder)
    for path, content in kept.items():
        path.write_bytes(content)
    (tmp_path / RESERVATIONS).write_text("")
    assert recover(tmp_path) == 0
    assert read_files(folder) == {"part-000001-000003": [0, 1, 2]}


def write_files(folder: Path, files: list[list[int]]) -> None:
    """A file for each list of seqs."""
    for seqs in files:
        writer = HistoryWriter(folder)
        writer.write(produced(seqs))
        writer.close()


def read_files(folder: Path) -> dict[str, list[int]]:
    return {path.stem: pq.read_table(path)["seq"].to_pylist() for path in sorted(folder.iterdir())}


def test_reserved_records_without_a_row_become_info_after_a_crash(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    reservations = Reservations(tmp_path)
    reservations.write({"lane": "a", "producer_id": 0, "first_seq": 0, "count": 4, "ns": 11})
    reservations.write({"lane": "b", "producer_id": 3, "first_seq": 4, "count": 2, "ns": 22})
    writer.write(produced([0, 2]))
    writer.close()
    reservations.close()
    (tmp_path / "produced" / ".part-000002.parquet.part").write_bytes(b"PAR1 and no end")
    (tmp_path / ".log.abcd.part").mkdir()
    assert recover(tmp_path) == 4
    assert list(tmp_path.rglob(".*")) == []
    rows = pq.read_table(tmp_path / "produced", filters=[("outcome", "==", "info")]).to_pylist()
    found = sorted((row["lane"], row["producer_id"], row["seq"], row["invoke_ns"], row["offset"]) for row in rows)
    assert found == [("a", 0, 1, 11, None), ("a", 0, 3, 11, None), ("b", 3, 4, 22, None), ("b", 3, 5, 22, None)]
    assert recover(tmp_path) == 0


def test_transactions_and_assignments_without_a_row_get_one_after_a_crash(tmp_path: Path) -> None:
    writers = {name: HistoryWriter(tmp_path / name) for name in ("produced", "transactions", "assignments")}
    reservations = Reservations(tmp_path)
    reserved = {"lane": "a", "first_seq": 0, "count": 4, "ns": 11}
    reservations.write({**reserved, "producer_id": 0, "transactional_id": "a-0"})
    reader = {"lane": "a", "consumer": "a-read_committed-1", "partition": 2, "member": "a-read_committed"}
    reservations.write({"assigned": [{**reader, "isolation": "read_committed", "start_ns": 200}]})
    reservations.close()
    sent = {"lane": "a", "producer_id": 0, "outcome": "ok"}
    rows = [{**sent, "seq": seq, "invoke_ns": 100 + seq, "transaction": seq // 2} for seq in range(4)]
    writers["produced"].write(pa.Table.from_pylist(rows, schema=PRODUCED_SCHEMA))
    ended = {"lane": "a", "producer_id": 0, "transaction": 0, "transactional_id": "a-0", "begin_ns": 99}
    committed = [{**ended, "end_ns": 105, "outcome": "committed"}]
    writers["transactions"].write(pa.Table.from_pylist(committed, schema=arrow_schema(TRANSACTIONS)))
    for writer in writers.values():
        writer.close()
    assert recover(tmp_path) == 0
    transactions = pq.read_table(tmp_path / "transactions").to_pylist()
    assert [(row["transaction"], row["outcome"], row["begin_ns"], row["transactional_id"]) for row in transactions] == [
        (0, "committed", 99, "a-0"),
        (1, "info", 102, "a-0"),
    ]
    [assigned] = pq.read_table(tmp_path / "assignments").to_pylist()
    assert {key: value for key, value in assigned.items() if value is not None} == {
        "lane": "a", "consumer": "a-read_committed-1", "partition": 2,
        "member": "a-read_committed", "isolation": "read_committed", "start_ns": 200,
    }  # fmt: skip


def test_the_journal_s_torn_last_line_reserved_nothing(tmp_path: Path) -> None:
    line = json.dumps({"lane": "a", "producer_id": 0, "first_seq": 0, "count": 2, "ns": 5})
    (tmp_path / RESERVATIONS).write_text(f"{line}\n{line[:20]}")
    (tmp_path / "produced").mkdir()
    assert recover(tmp_path) == 2


def test_reservations_in_pieces_and_several_producers_of_a_lane_are_told_apart(tmp_path: Path) -> None:
    reservations = Reservations(tmp_path)
    for producer_id in (0, 1):
        for first in (0, 256):
            range_ = {"first_seq": first, "count": 256, "ns": 10 * producer_id + first}
            reservations.write({"lane": "a", "producer_id": producer_id, **range_})
    reservations.close()
    writer = HistoryWriter(tmp_path / "produced")
    writer.write(produced(list(range(300)), producer_id=0))
    writer.write(produced([0, 511], producer_id=1))
    # Rows of a lane and of seqs that nobody reserved change nothing.
    writer.write(produced([400, 9_999], lane="b"))
    writer.close()
    assert recover(tmp_path) == (512 - 300) + (512 - 2)
    rows = pq.read_table(tmp_path / "produced", filters=[("outcome", "==", "info")]).to_pylist()
    by_producer = {
        number: [(row["seq"], row["invoke_ns"]) for row in rows if row["producer_id"] == number] for number in (0, 1)
    }
    assert by_producer[0] == [(seq, 256) for seq in range(300, 512)]
    assert by_producer[1] == [(seq, 10 if seq < 256 else 266) for seq in range(1, 511)]


def test_seqs_are_reserved_once_and_without_gaps(tmp_path: Path) -> None:
    reservations = Reservations(tmp_path)
    reserved = ReservedSeqs(reservations, lane="a", producer_id=3, transactional_id="a-0")
    ends = (1, 2, LEAST_SEQS, LEAST_SEQS + 1, 5 * LEAST_SEQS, 7)
    on_disk = []
    for end in ends:
        reserved.reserve_up_to(end)
        entries = list(reservations_in(tmp_path / RESERVATIONS))
        on_disk.append([(entry["first_seq"], entry["count"]) for entry in entries])
        assert sum(entry["count"] for entry in entries) >= end, "on disk before anything is sent"
    reservations.close()
    first, second, third = (0, LEAST_SEQS), (LEAST_SEQS, LEAST_SEQS), (2 * LEAST_SEQS, 3 * LEAST_SEQS)
    assert on_disk == [[first], [first], [first], [first, second], [first, second, third], [first, second, third]]
    assert {(entry["lane"], entry["producer_id"], entry["transactional_id"]) for entry in entries} == {("a", 3, "a-0")}
