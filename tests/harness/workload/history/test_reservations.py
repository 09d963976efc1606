"""What a producer reserves before it sends."""

from __future__ import annotations

from pathlib import Path

from kafka_chaos.harness.workload.history.reservations import (
    RESERVATIONS,
    RESERVED,
    Reservations,
    ReservedSeqs,
    reservations_in,
)


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
