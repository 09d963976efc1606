"""The coordinator's answers, against the tables of Kafka's TransactionCoordinator and the texts of the KIPs."""

from __future__ import annotations

import pytest

from kafka_chaos.reference_model.transactions.coordinator import (
    Answer,
    Reply,
    add_partition,
    complete,
    end_transaction,
    init_producer_id,
    verify,
)
from kafka_chaos.reference_model.transactions.rules import V1, V2, Rules
from kafka_chaos.reference_model.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    Status,
)

OK, CONCURRENT, FENCED, INVALID = (
    Reply.OK,
    Reply.CONCURRENT_TRANSACTIONS,
    Reply.FENCED,
    Reply.INVALID_TXN_STATE,
)


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


@pytest.mark.parametrize(("rules", "epoch"), [(V1, 4), (V2, 5)])
def test_only_v2_takes_a_new_epoch_with_each_transaction(rules: Rules, epoch: int) -> None:
    prepared = end_transaction(Status(ONGOING, 4, 0b11), 4, True, rules).append
    assert prepared == Status(PREPARE_COMMIT, epoch, 0b11)
    assert complete(prepared) == Status(COMPLETE_COMMIT, epoch, 0)


def test_an_end_that_changes_nothing_appends_nothing() -> None:
    for status in (EMPTY, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT):
        assert end_transaction(Status(status, 4, 0b01), 4, True, V1).append is None


@pytest.mark.parametrize("status", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_new_incarnation_gets_the_next_epoch(status: int) -> None:
    assert init_producer_id(Status(status, 4, 0), None, V1) == (OK, Status(EMPTY, 5, 0))


def test_a_new_incarnation_has_an_open_transaction_aborted_and_fenced_first() -> None:
    assert init_producer_id(Status(ONGOING, 4, 0b10), None, V1) == (CONCURRENT, Status(PREPARE_ABORT, 5, 0b10))
    assert init_producer_id(Status(PREPARE_COMMIT, 4, 0b10), None, V1) == (CONCURRENT, None)


def test_a_producer_that_was_replaced_gets_no_new_epoch() -> None:
    assert init_producer_id(Status(EMPTY, 4, 0), 4, V1) == (OK, Status(EMPTY, 5, 0))
    assert init_producer_id(Status(EMPTY, 5, 0), 4, V1) == (FENCED, None)


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
