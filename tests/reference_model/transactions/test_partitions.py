"""What a partition's leader derives from its log, and what a read_committed consumer is given of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_chaos.reference_model.transactions.partitions import (
    Contents,
    committed,
    contents,
    given,
    is_fenced,
    last_stable_offset,
    next_sequence,
    takes_marker,
)
from kafka_chaos.reference_model.transactions.rules import V1
from kafka_chaos.reference_model.transactions.state import ABORT, COMMIT, DATA, NONE, Entry, Log


def data(number: int, epoch: int = 0, id: int = 0) -> Entry:
    return Entry(DATA, id, epoch, number)


def marker(kind: int, epoch: int = 0, id: int = 0, coordinator_epoch: int = 0) -> Entry:
    return Entry(kind, id, epoch, coordinator_epoch)


def test_a_marker_ends_the_records_of_its_producer_alone() -> None:
    log = (data(0), data(4, id=1), marker(COMMIT), data(1))
    assert committed(log) == (0,)
    assert last_stable_offset(log) == 1
    assert contents(log, 0).open == (1,)
    assert contents(log, 1).open == (4,)


def test_an_open_transaction_holds_back_what_is_committed_behind_it() -> None:
    log = (data(4, id=1), data(0), marker(COMMIT))
    assert given(log, True) == 0
    assert given((*log, marker(ABORT, id=1)), True) == 0b1


def test_what_ignores_the_last_stable_offset_is_given_open_records() -> None:
    log = (data(0), data(4, id=1))
    assert given(log, False) == 0b10001
    assert given((*log, marker(ABORT)), False) == 0b10000


def test_a_leader_knows_the_highest_epoch_of_records_and_markers() -> None:
    log = (data(0), marker(ABORT, epoch=1, coordinator_epoch=3))
    assert contents(log, 0) == Contents(epoch=1, records=0, open=(), coordinator_epoch=3)
    assert contents((), 0) == Contents(epoch=NONE, records=0, open=(), coordinator_epoch=0)
    assert is_fenced(log, 0, 0, V1)
    assert not is_fenced(log, 0, 1, V1)
    assert not is_fenced(log, 1, 0, V1)
    assert not is_fenced(log, 0, 0, replace(V1, fences_at_leader=False))


def test_sequence_numbers_begin_anew_with_each_epoch_and_not_with_each_transaction() -> None:
    log = (data(0), marker(COMMIT), data(1))
    assert next_sequence(log, 0, 0) == 2
    assert next_sequence(log, 0, 1) == 0
    assert next_sequence((*log, data(2, epoch=1)), 0, 1) == 1
    assert next_sequence((*log, marker(COMMIT, epoch=1)), 0, 1) == 0


@pytest.mark.parametrize(
    ("log", "late", "taken"),
    [
        ((), marker(COMMIT), True),
        ((data(0), marker(COMMIT)), marker(COMMIT), True),
        ((data(0, epoch=1),), marker(COMMIT), False),
        ((data(0), marker(COMMIT, coordinator_epoch=1)), marker(COMMIT), False),
        ((data(0), marker(COMMIT, coordinator_epoch=1)), marker(COMMIT, coordinator_epoch=2), True),
    ],
)
def test_a_leader_takes_no_marker_of_a_fenced_producer_or_a_replaced_coordinator(
    log: Log, late: Entry, taken: bool
) -> None:
    assert takes_marker(log, late, V1) is taken
