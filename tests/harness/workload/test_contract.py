"""Whatever drives a client, the same of its records makes the same rows."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafka_chaos.harness.workload.clients import produced
from kafka_chaos.harness.workload.history.writer import HistoryWriter
from tests.harness.workload.drivers import CONSUMERS, PRODUCERS, Fate, consuming, producing

SEVERAL = {
    0: Fate(offset=7),
    1: Fate(),  # as a broker acknowledges a retry of what it has stored long ago
    2: Fate("info", "_MSG_TIMED_OUT"),
    3: Fate("fail", "MSG_SIZE_TOO_LARGE"),
    4: None,
    5: Fate(offset=8),
}


@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_record_has_the_outcome_that_its_client_says(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = producing(kind, tmp_path, monkeypatch)(6, SEVERAL.__getitem__)
    assert [(row["seq"], row["partition"], row["outcome"], row["offset"]) for row in made.rows] == [
        (0, 0, "ok", 7), (1, 1, "ok", None), (2, 0, "info", None),
        (3, 1, "fail", None), (4, 0, "info", None), (5, 1, "ok", 8),
    ]  # fmt: skip
    silent = "no outcome when the run ended" if kind == "application" else None
    errors = [None, None, "_MSG_TIMED_OUT", "MSG_SIZE_TOO_LARGE", silent, None]
    assert [row["error"] for row in made.rows] == errors
    assert [row["seq"] for row in made.rows if row["complete_ns"] is None] == [4]
    assert all(row["invoke_ns"] <= row["complete_ns"] for row in made.rows if row["complete_ns"] is not None)
    assert {(row["lane"], row["producer_id"], row["transaction"]) for row in made.rows} == {("orders", 0, None)}
    sources = {(row["source_producer_id"], row["source_seq"]) for row in made.rows}
    assert sources == ({(9, seq) for seq in range(6)} if kind == "loop" else {(None, None)})
    assert (made.sent, made.acknowledged) == (6, 3)


@pytest.mark.parametrize("kind", PRODUCERS)
def test_every_record_has_one_row_and_was_reserved(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, records = HistoryWriter.write, 1_500
    monkeypatch.setattr(produced, "MAX_KEPT", 1_000)

    def has_no_room(writer: HistoryWriter, table: pa.Table) -> None:
        """The writer's thread has to take what sources keep before there is room again."""
        taken: list[pa.Table | None] = [table]
        for take in writer.sources:
            thread = threading.Thread(target=lambda take=take: taken.append(take()), daemon=True)  # type: ignore[misc]
            thread.start()
            thread.join(20)
            assert not thread.is_alive(), "nobody who waits for the writer keeps it waiting"
        for one in taken:
            if one is not None:
                write(writer, one)

    monkeypatch.setattr(HistoryWriter, "write", has_no_room)
    made = producing(kind, tmp_path, monkeypatch)(records, lambda seq: Fate(offset=seq // 2))
    found = [(row["seq"], row["partition"], row["offset"], row["outcome"]) for row in made.rows]
    assert found == [(seq, seq % 2, seq // 2, "ok") for seq in range(records)]
    assert (made.sent, made.acknowledged) == (records, records)
    assert made.reserved >= records


@pytest.mark.parametrize("kind", PRODUCERS)
def test_records_name_their_transaction(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = producing(kind, tmp_path, monkeypatch)(6, lambda seq: Fate(offset=seq), transactions=[3, 1, 2])
    assert [row["transaction"] for row in made.rows] == [0, 0, 0, 1, 2, 2]


POLLS = [[(0, 0, (1, 10)), (1, 0, (1, 11)), (0, 1, (1, 12))], [(0, 0, (1, 10)), (0, 1, (1, 12)), (1, 1, (-1, -1))]]


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.parametrize("ends", [{0: 2, 1: 2}, {0: 2, 1: 5}])
def test_what_is_read_has_a_row_and_a_name_that_a_lost_position_changes(
    kind: str, ends: dict[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, told = consuming(kind, tmp_path, monkeypatch)(POLLS, ends)
    first, second = dict.fromkeys(row["consumer"] for row in rows)
    assert [(row["consumer"], row["partition"], row["offset"], (row["producer_id"], row["seq"])) for row in rows] == [
        (name, *read) for name, poll in zip((first, second), POLLS, strict=True) for read in poll
    ]
    assert {(row["lane"], row["leader_epoch"]) for row in rows} == {("orders", 4)}
    times: list[Any] = [row["poll_ns"] for row in rows]
    assert times == sorted(set(times)), "each is later than the one before"
    report_unread = ends[1] == 5
    assert len(told) == report_unread
    assert all("partition 1" in text and "2 of 5" in text for text in told)
