"""What is added to a history whose harness died."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.harness.workload.history.recovery import recover
from kafka_chaos.harness.workload.history.reservations import (
    RESERVATIONS,
    RESERVED,
    Reservations,
    ReservedSeqs,
    reservations_in,
)
from kafka_chaos.harness.workload.history.writer import (
    CONSUMED_SCHEMA,
    PRODUCED_SCHEMA,
    TRANSACTIONS_SCHEMA,
    HistoryWriter,
)
from tests.harness.workload.history.rows import produced


def test_reserved_records_without_a_row_become_info_after_a_crash(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "produced")
    reservations = Reservations(tmp_path)
    reservations.reserve(lane="a", producer_id=0, first_seq=0, count=4, now_ns=11)
    reservations.reserve(lane="b", producer_id=3, first_seq=4, count=2, now_ns=22)
    writer.write(produced([0, 2]))
    writer.close()
    reservations.close()
    (tmp_path / "produced" / ".part-000002.parquet.part").write_bytes(b"PAR1 and no end")
    assert recover(tmp_path) == 4
    assert [path for path in (tmp_path / "produced").iterdir() if path.name.startswith(".")] == []
    rows = pq.read_table(tmp_path / "produced", filters=[("outcome", "==", "info")]).to_pylist()
    found = sorted((row["lane"], row["producer_id"], row["seq"], row["invoke_ns"], row["offset"]) for row in rows)
    assert found == [("a", 0, 1, 11, None), ("a", 0, 3, 11, None), ("b", 3, 4, 22, None), ("b", 3, 5, 22, None)]
    assert recover(tmp_path) == 0


def test_transactions_and_assignments_without_a_row_get_one_after_a_crash(tmp_path: Path) -> None:
    writers = {name: HistoryWriter(tmp_path / name) for name in ("produced", "consumed", "transactions", "assignments")}
    reservations = Reservations(tmp_path)
    reserved = {"lane": "a", "first_seq": 0, "count": 4, "now_ns": 11}
    reservations.reserve(**reserved, producer_id=0, transactional_id="a-0")  # type: ignore[arg-type]
    reservations.close()
    sent = {"lane": "a", "producer_id": 0, "outcome": "ok"}
    rows = [{**sent, "seq": seq, "invoke_ns": 100 + seq, "transaction": seq // 2} for seq in range(4)]
    writers["produced"].write(pa.Table.from_pylist(rows, schema=PRODUCED_SCHEMA))
    ended = {"lane": "a", "producer_id": 0, "transaction": 0, "transactional_id": "a-0", "begin_ns": 99}
    committed = [{**ended, "end_ns": 105, "outcome": "committed"}]
    writers["transactions"].write(pa.Table.from_pylist(committed, schema=TRANSACTIONS_SCHEMA))
    read = {"lane": "a", "consumer": "a-read_committed-1", "partition": 2, "producer_id": 0}
    seen = [{**read, "offset": number, "seq": number, "poll_ns": 200 + number} for number in range(2)]
    writers["consumed"].write(pa.Table.from_pylist(seen, schema=CONSUMED_SCHEMA))
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
        "lane": "a",
        "consumer": "a-read_committed-1",
        "partition": 2,
        "member": "a-read_committed",
        "isolation": "read_committed",
        "start_ns": 200,
    }


def test_the_journal_s_torn_last_line_reserved_nothing(tmp_path: Path) -> None:
    line = json.dumps({"lane": "a", "producer_id": 0, "first_seq": 0, "count": 2, "ns": 5})
    (tmp_path / RESERVATIONS).write_text(f"{line}\n{line[:20]}")
    (tmp_path / "produced").mkdir()
    assert recover(tmp_path) == 2


def test_reservations_in_pieces_and_several_producers_of_a_lane_are_told_apart(tmp_path: Path) -> None:
    reservations = Reservations(tmp_path)
    for producer_id in (0, 1):
        for first in (0, 256):
            reservations.reserve(
                lane="a", producer_id=producer_id, first_seq=first, count=256, now_ns=10 * producer_id + first
            )
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
    names = {path.name for path in (tmp_path / "produced").iterdir()}
    assert "part-000001.parquet" in names
    assert len(names) == 3


def test_a_run_that_ended_in_order_is_left_alone(tmp_path: Path) -> None:
    assert recover(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_seqs_are_reserved_once_and_without_gaps(tmp_path: Path) -> None:
    reservations = Reservations(tmp_path)
    reserved = ReservedSeqs(reservations, lane="a", producer_id=3, transactional_id="a-0")
    ends = (1, 2, RESERVED, RESERVED + 1, 5 * RESERVED, 7)
    on_disk = []
    for end in ends:
        reserved.up_to(end)
        entries = list(reservations_in(tmp_path / RESERVATIONS))
        on_disk.append([(entry["first_seq"], entry["count"]) for entry in entries])
        assert sum(entry["count"] for entry in entries) >= end, "on disk before anything is sent"
    reservations.close()
    first, second, third = (0, RESERVED), (RESERVED, RESERVED), (2 * RESERVED, 3 * RESERVED)
    assert on_disk == [[first], [first], [first], [first, second], [first, second, third], [first, second, third]]
    assert {(entry["lane"], entry["producer_id"], entry["transactional_id"]) for entry in entries} == {("a", 3, "a-0")}


def test_without_a_transactional_id_the_journal_names_none(tmp_path: Path) -> None:
    reservations = Reservations(tmp_path)
    ReservedSeqs(reservations, lane="a", producer_id=0, transactional_id=None).up_to(1)
    reservations.close()
    [entry] = reservations_in(tmp_path / RESERVATIONS)
    assert "transactional_id" not in entry
