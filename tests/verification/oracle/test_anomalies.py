"""The oracle, against cases worked out by hand. It is the control of the engines, so nothing else controls it."""

import pytest

from kafka_chaos.contract.anomalies import WIDEST_LISTED_GAP
from tests.verification.detection.test_planted import valid
from tests.verification.oracle.anomalies import check, find
from tests.verification.oracle.rows import Case, LaneHistory, Produced, Read, Stored, View, case_order
from tests.verification.samples.planted_transactions import clean, hanging_transaction


def history(*, log: list[Stored] | None = None, **rows: list[tuple[object, ...]]) -> LaneHistory:
    """Produced rows are (seq, offset, outcome), reads (offset, seq); one producer, partition, consumer."""
    return LaneHistory(
        produced=[Produced(0, seq, 0, offset, outcome) for seq, offset, outcome in rows.get("produced", [])],  # type: ignore[arg-type]
        consumed=[Read("c", 0, offset, 0, seq, poll) for poll, (offset, seq) in enumerate(rows.get("consumed", []))],  # type: ignore[arg-type]
        log=log,
    )


def test_a_valid_history_shows_nothing() -> None:
    assert check(valid()) == []
    without_log = valid()
    without_log.log = None
    assert check(without_log) == []


@pytest.mark.parametrize(
    ("width", "listed", "units"),
    [(WIDEST_LISTED_GAP, WIDEST_LISTED_GAP, 1), (WIDEST_LISTED_GAP + 1, 1, WIDEST_LISTED_GAP + 1)],
)
def test_a_hole_is_listed_offset_by_offset_up_to_a_width(width: int, listed: int, units: int) -> None:
    lane = history(log=[Stored(0, 0, 0, 0), Stored(0, width + 1, 0, 1)], produced=[(0, 0, "ok"), (1, width + 1, "ok")])
    found = [one for one in find(View(lane)) if one.case.anomaly == "offset_gap"]
    assert (len(found), {one.units for one in found}) == (listed, {units})
    assert found[0].cause == f"hole from offset 1 to {width}"


def test_cases_are_sorted_with_what_is_missing_first() -> None:
    cases = [
        Case("b", 0, 1, None, None),
        Case("b", None, 5, None, None),
        Case("a", 1, 0, 0, 0),
        Case("b", 0, None, 1, 0),
    ]
    assert sorted(cases, key=case_order) == [cases[2], cases[1], cases[3], cases[0]]


def test_without_a_log_a_loss_is_what_reads_passed() -> None:
    sent = [(0, 0, "ok"), (1, 1, "ok"), (2, 2, "ok"), (3, None, "ok"), (4, 4, "ok")]
    found = check(history(produced=sent, consumed=[(0, 0), (2, 2)]))
    assert found == [Case("lost_write", 0, 1, 0, 1), Case("skipped_poll", 0, 1, 0, 1), Case("unseen", 0, 4, 0, 4)]


def test_without_a_log_the_last_offset_read_is_passed() -> None:
    found = check(history(produced=[(0, 0, "ok"), (1, 0, "ok")], consumed=[(0, 0)]))
    assert [case for case in found if case.anomaly == "lost_write"] == [Case("lost_write", 0, 0, 0, 1)]


def test_without_a_log_duplicates_are_what_acknowledgements_and_reads_show() -> None:
    assert check(history(produced=[(0, 3, "ok")], consumed=[(5, 0)])) == [Case("duplicate", 0, 5, 0, 0)]


def test_only_reads_to_the_end_make_a_delivery_due() -> None:
    log = [Stored(0, 0, 0, 0), Stored(0, 1, 0, 1), Stored(0, 2, 0, 2), Stored(1, 0, 0, 3)]
    sent = [(seq, None, "ok") for seq in range(4)]
    assert check(history(log=log, produced=sent, consumed=[(0, 0), (1, 1)])) == []
    found = check(history(log=log, produced=sent, consumed=[(0, 0), (2, 2)]))
    assert found == [Case("skipped_poll", 0, 1, 0, 1), Case("unseen", 0, 1, 0, 1)]


def test_a_delivery_is_due_at_the_lowest_offset() -> None:
    log = [Stored(0, 0, 0, 0), Stored(0, 1, 0, 0), Stored(0, 2, 0, 1)]
    found = check(history(log=log, produced=[(0, None, "ok"), (1, None, "ok")], consumed=[(2, 1)]))
    assert found == [Case("duplicate", 0, 1, 0, 0), Case("unseen", 0, 0, 0, 0)]


def test_a_phantom_is_nothing_besides_and_the_highest_one_is_named() -> None:
    log = [Stored(0, 0, 0, 0), Stored(0, 1, 7, 7), Stored(0, 1, 7, 9), Stored(0, 2, -1, -1)]
    lane = history(log=log, produced=[(0, 0, "ok")], consumed=[(0, 0)])
    lane.produced.append(Produced(-1, -1, 0, 2, "ok"))
    lane.consumed.append(Read("c", 0, 2, -1, -1, 5))
    phantoms = [case for case in check(lane) if case.anomaly == "phantom"]
    assert phantoms == [Case("phantom", 0, 1, 7, 9), Case("phantom", 0, 2, -1, -1)]


@pytest.mark.parametrize(
    ("outcome", "surfaces", "found"),
    [("ok", False, True), ("info", False, False), ("info", True, True), ("fail", True, False)],
)
def test_whose_offsets_count_as_shown(outcome: str, surfaces: bool, found: bool) -> None:
    log = [Stored(0, 0, 0, 0), *([Stored(0, 1, 0, 1)] if surfaces else [])]
    lane = history(log=log, produced=[(0, 0, "ok"), (1, 0, outcome)], consumed=[(0, 0)])
    shared = [case for case in check(lane) if case.anomaly == "inconsistent_offset"]
    assert shared == ([Case("inconsistent_offset", 0, 0, 0, 1)] if found else [])


def test_a_read_shows_an_offset_too() -> None:
    lane = history(log=[Stored(0, 0, 0, 0)], produced=[(0, 0, "ok"), (1, None, "info")], consumed=[(0, 1)])
    assert Case("inconsistent_offset", 0, 0, 0, 1) in check(lane)


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
    history, expected = hanging_transaction()
    assert [case.anomaly for case in expected] == ["hanging_transaction"]
    history.healed_ns = max(row.poll_ns for row in history.consumed)
    assert check(history) == []
