"""The coordinator's answers, against the tables of Kafka's TransactionCoordinator and the texts of the KIPs."""

import pytest

from kafka_chaos.reference_model.transactions import state as states
from kafka_chaos.reference_model.transactions.coordinator import Answer, Reply, end_transaction
from kafka_chaos.reference_model.transactions.rules import V1, V2

OK, CONCURRENT, FENCED, INVALID = (Reply.OK, Reply.CONCURRENT_TRANSACTIONS, Reply.FENCED, Reply.INVALID_TXN_STATE)


@pytest.mark.parametrize(
    ("status", "commit", "abort"),
    [
        (states.EMPTY, INVALID, INVALID), (states.ONGOING, OK, OK),
        (states.PREPARE_COMMIT, CONCURRENT, INVALID), (states.PREPARE_ABORT, INVALID, CONCURRENT),
        (states.COMPLETE_COMMIT, OK, INVALID), (states.COMPLETE_ABORT, INVALID, OK),
    ],
)  # fmt: skip
def test_how_v1_ends_a_transaction(status: int, commit: Reply, abort: Reply) -> None:
    known = states.StateEntry(status, 4, 0b01)
    assert end_transaction(known, 4, True, V1).reply is commit
    assert end_transaction(known, 4, False, V1).reply is abort
    assert {end_transaction(known, epoch, True, V1) for epoch in (3, 5)} == {Answer(FENCED)}


@pytest.mark.parametrize(
    ("status", "abort_again", "abort", "commit_again", "commit"),
    [
        (states.EMPTY, FENCED, OK, FENCED, INVALID),
        (states.ONGOING, FENCED, OK, FENCED, OK),
        (states.PREPARE_COMMIT, INVALID, FENCED, CONCURRENT, FENCED),
        (states.PREPARE_ABORT, CONCURRENT, FENCED, INVALID, FENCED),
        (states.COMPLETE_ABORT, OK, OK, INVALID, INVALID),
        (states.COMPLETE_COMMIT, INVALID, OK, OK, INVALID),
    ],
)
def test_how_v2_ends_a_transaction(
    status: int, abort_again: Reply, abort: Reply, commit_again: Reply, commit: Reply
) -> None:
    """ "Again" is the request of the epoch before: with one epoch per transaction, the same request a second time."""
    known = states.StateEntry(status, 4, 0b01)
    assert end_transaction(known, 3, False, V2).reply is abort_again
    assert end_transaction(known, 4, False, V2).reply is abort
    assert end_transaction(known, 3, True, V2).reply is commit_again
    assert end_transaction(known, 4, True, V2).reply is commit
