"""Each anomaly of transactions is defined by endings written by hand."""

import pytest
from negative_controls import TRANSACTIONS_WITHOUT, BrokenTransactions

from kafka_chaos.contract.lane.transactions import TransactionAnomaly as A
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.anomalies import CHECKS, Ending
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS
from kafka_chaos.reference_model.transactions.state import (
    ABORT,
    ABORTED,
    ASKED,
    COMMIT,
    COMMITTED,
    DATA,
    OPEN,
    Entry,
    Log,
    Setup,
)

C, X = Entry(COMMIT, 0, 0, 0), Entry(ABORT, 0, 0, 0)
OTHER = Entry(COMMIT, 1, 0, 0)


def data(*numbers: int, id: int = 0) -> Log:
    return tuple(Entry(DATA, id, 0, number) for number in numbers)


def end(*logs: Log, outcomes: tuple[int, ...], read: int = 0, early: int = 0, zombies: int = 0) -> Ending:
    return Ending(logs, outcomes, read, early, zombies, size=2)


@pytest.mark.parametrize(
    ("ending", "anomalies"),
    [
        (end((*data(0), C), (*data(1), C), outcomes=(COMMITTED,), read=0b11), set()),
        (end((*data(0), X), (*data(1), X), outcomes=(ABORTED,)), set()),
        (end((*data(0), X), (*data(1), X), outcomes=(ABORTED,), read=0b01), {A.ABORTED_READ}),
        (end((*data(0), X), (*data(1), X), outcomes=(ASKED,), read=0b10), {A.ABORTED_READ}),
        (end((*data(0), C), (*data(1), C), outcomes=(ASKED,), read=0b11, early=0b01), {A.PRECOMMITTED_READ}),
        (end((*data(0), C), (*data(1), C), outcomes=(OPEN,), read=0b11, early=0b10), {A.PRECOMMITTED_READ}),
        (end((*data(0), X), (*data(1), C), outcomes=(ASKED,)), {A.TORN_TRANSACTION}),
        (end((*data(0), X), (*data(1), C), outcomes=(OPEN,)), set()),
        (end((), (*data(1), C), outcomes=(COMMITTED,)), {A.TORN_TRANSACTION}),
        (end((), (), outcomes=(COMMITTED,)), {A.LOST_TRANSACTION}),
        (end((*data(0, 1), X, C), outcomes=(COMMITTED,)), {A.LOST_TRANSACTION}),
        (end((), (), outcomes=(ASKED,)), set()),
        (end((*data(0, 1), C, *data(2)), outcomes=(COMMITTED, OPEN)), {A.HANGING_TRANSACTION}),
        (end((*data(0, 1), C, *data(2, 3), C), outcomes=(COMMITTED, COMMITTED), zombies=0b01), {A.ZOMBIE_COMMIT}),
        (end((*data(0, 1), C, *data(2, 3), X), outcomes=(COMMITTED, ABORTED), zombies=0b01), {A.ZOMBIE_COMMIT}),
        (end((*data(0), *data(2, id=1), C, OTHER), (*data(3, id=1), *data(1), C, OTHER), outcomes=(COMMITTED,) * 2),
         {A.DEPENDENCY_CYCLE}),
        (end((*data(0), *data(2, id=1), *data(1), *data(3, id=1), C, OTHER), outcomes=(COMMITTED,) * 2),
         {A.DEPENDENCY_CYCLE}),
        (end((*data(0), *data(2, id=1), C, OTHER), (*data(1), *data(3, id=1), C, OTHER), outcomes=(ASKED,) * 2), set()),
        (end((*data(0), *data(2, id=1), X, OTHER), (*data(3, id=1), *data(1), X, OTHER), outcomes=(OPEN, COMMITTED)),
         set()),
    ],
)  # fmt: skip
def test_an_ending_shows_what_it_shows(ending: Ending, anomalies: set[A]) -> None:
    assert shown(ending, CHECKS) == anomalies


def setup_of(broken: BrokenTransactions) -> Setup:
    return Setup(broken.rules, late_requests=broken.late, failovers=broken.failovers)


@pytest.mark.slow
@pytest.mark.parametrize("broken", TRANSACTIONS_WITHOUT.values(), ids=TRANSACTIONS_WITHOUT)
def test_a_protocol_without_one_rule_is_caught(broken: BrokenTransactions) -> None:
    assert broken.shows
    _, first = TRANSACTIONS.search(set(broken.shows), setup_of(broken), Budget(200_000))
    assert first.keys() == set(broken.shows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lacking", "anomaly"),
    [
        ("fencing of producers at the coordinator", A.ZOMBIE_COMMIT),
        ("fencing of producers at the leader", A.ABORTED_READ),
    ],
)
def test_a_fence_prevents_more_than_what_is_found_first(lacking: str, anomaly: A) -> None:
    _, first = TRANSACTIONS.search({anomaly}, setup_of(TRANSACTIONS_WITHOUT[lacking]), Budget(400_000))
    assert first.keys() == {anomaly}
