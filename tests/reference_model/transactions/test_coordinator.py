"""The coordinator's answers, against the tables of Kafka's TransactionCoordinator and the texts of the KIPs."""

from dataclasses import replace

import pytest

from kafka_chaos.reference_model.transactions.coordinator import Answer, Reply, add_partition, end_transaction, verify
from kafka_chaos.reference_model.transactions.partitions import (
    Contents,
    committed,
    contents,
    is_fenced,
    last_stable_offset,
    next_sequence,
    takes_marker,
)
from kafka_chaos.reference_model.transactions.rules import V1, V2
from kafka_chaos.reference_model.transactions.state import (
    ABORT,
    COMMIT,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DATA,
    EMPTY,
    NONE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    Entry,
    Log,
    Status,
)

OK, CONCURRENT, FENCED, INVALID = (Reply.OK, Reply.CONCURRENT_TRANSACTIONS, Reply.FENCED, Reply.INVALID_TXN_STATE)


@pytest.mark.parametrize(
    ("status", "commit", "abort"),
    [
        (EMPTY, INVALID, INVALID),
        (ONGOING, OK, OK),
        (PREPARE_COMMIT, CONCURRENT, INVALID),
        (PREPARE_ABORT, INVALID, CONCURRENT),
        (COMPLETE_COMMIT, OK, INVALID),
        (COMPLETE_ABORT, INVALID, OK),
    ],
)
def test_how_v1_ends_a_transaction(status: int, commit: Reply, abort: Reply) -> None:
    known = Status(status, 4, 0b01)
    assert end_transaction(known, 4, True, V1).reply is commit
    assert end_transaction(known, 4, False, V1).reply is abort
    assert {end_transaction(known, epoch, True, V1) for epoch in (3, 5)} == {Answer(FENCED)}


@pytest.mark.parametrize(
    ("status", "abort_again", "abort", "commit_again", "commit"),
    [
        (EMPTY, FENCED, OK, FENCED, INVALID),
        (ONGOING, FENCED, OK, FENCED, OK),
        (PREPARE_COMMIT, INVALID, FENCED, CONCURRENT, FENCED),
        (PREPARE_ABORT, CONCURRENT, FENCED, INVALID, FENCED),
        (COMPLETE_ABORT, OK, OK, INVALID, INVALID),
        (COMPLETE_COMMIT, INVALID, OK, OK, INVALID),
    ],
)
def test_how_v2_ends_a_transaction(
    status: int, abort_again: Reply, abort: Reply, commit_again: Reply, commit: Reply
) -> None:
    """ "Again" is the request of the epoch before: with one epoch per transaction, the same request a second time."""
    known = Status(status, 4, 0b01)
    assert end_transaction(known, 3, False, V2).reply is abort_again
    assert end_transaction(known, 4, False, V2).reply is abort
    assert end_transaction(known, 3, True, V2).reply is commit_again
    assert end_transaction(known, 4, True, V2).reply is commit


def test_a_partition_opens_a_transaction_or_joins_it() -> None:
    assert add_partition(Status(COMPLETE_COMMIT, 4, 0), 4, 1, V1) == (OK, Status(ONGOING, 4, 0b10))
    assert add_partition(Status(ONGOING, 4, 0b10), 4, 0, V1) == (OK, Status(ONGOING, 4, 0b11))
    assert add_partition(Status(ONGOING, 4, 0b10), 4, 1, V1) == (OK, None)
    assert add_partition(Status(PREPARE_ABORT, 4, 0b10), 4, 0, V1) == (CONCURRENT, None)
    assert add_partition(Status(ONGOING, 4, 0b10), 3, 0, V1) == (FENCED, None)


def test_a_leader_is_told_whether_a_transaction_is_open_in_its_partition() -> None:
    assert verify(Status(ONGOING, 4, 0b10), 4, 1, V1) is OK
    assert verify(Status(ONGOING, 4, 0b10), 4, 0, V1) is Reply.TRANSACTION_ABORTABLE
    assert verify(Status(COMPLETE_COMMIT, 4, 0), 4, 1, V1) is Reply.TRANSACTION_ABORTABLE
    assert verify(Status(PREPARE_COMMIT, 4, 0b10), 4, 1, V1) is CONCURRENT
    assert verify(Status(ONGOING, 5, 0b10), 4, 1, V1) is FENCED


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
