"""The plain checker finds what is planted in a transactional lane, and nothing else."""

from __future__ import annotations

from kafka_chaos.verification.plain.anomalies import check
from tests.verification.samples.planted_transactions import PLANTS, clean


def test_what_is_aborted_or_dropped_is_no_false_failure() -> None:
    history, _ = clean()
    aborted = {row.transaction for row in history.transactions if row.producer_id == 0 and row.outcome == "aborted"}
    history.produced = [
        row._replace(outcome="fail") if row.producer_id == 0 and row.transaction in aborted else row
        for row in history.produced
    ]
    assert check(history) == []


def test_aborted_records_are_due_to_those_who_read_everything() -> None:
    history, _ = clean()
    aborted = next(row for row in history.transactions if row.outcome == "aborted")
    missed = next(row for row in history.produced if row.transaction == aborted.transaction and row.producer_id == 0)
    who = (missed.producer_id, missed.seq)
    history.consumed = [row for row in history.consumed if (row.producer_id, row.seq) != who]
    assert [case.anomaly for case in check(history)] == ["skipped_poll", "unseen"]
    history.consumed = [row for row in history.consumed if row.consumer == "committed"]
    assert check(history) == []


def test_a_transaction_within_its_time_out_does_not_hang() -> None:
    history, expected = PLANTS[6]()
    assert [case.anomaly for case in expected] == ["hanging_transaction"]
    history.healed_ns = max(row.poll_ns for row in history.consumed)
    assert check(history) == []
