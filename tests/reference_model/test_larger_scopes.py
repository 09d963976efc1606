"""What one more transaction, late request or member changes."""

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from larger_scopes import machines_of, sensitivity_of_machine

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model import Lane, predict_cached
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS
from kafka_chaos.reference_model.transactions.rules import V1_UNVERIFIED, Kind
from kafka_chaos.reference_model.transactions.state import Setup

LATE = TransactionAnomaly.HANGING_TRANSACTION, TransactionAnomaly.LOST_TRANSACTION


@dataclass(frozen=True)
class OneSearch:
    """A question with one search, of one producer that is never replaced."""

    transactions: int

    def searches(self) -> Iterator[tuple[Setup, Set[TransactionAnomaly]]]:
        rules = replace(V1_UNVERIFIED, late=V1_UNVERIFIED.late | {Kind.END})
        yield Setup(rules, (0,), self.transactions, size=1, partitions=1, failovers=0), frozenset(LATE)


def test_a_scope_that_is_too_small_is_noticed() -> None:
    """KAFKA-17754: a late EndTxn takes the next transaction for its own, so it takes two of them."""
    larger = list(sensitivity_of_machine(TRANSACTIONS, [OneSearch(1)], frozenset(LATE)))
    changed = dict.fromkeys(LATE, Status.PERMITTED)
    assert [(one.bound, dict(one.changes)) for one in larger] == [
        ("transactions: transactions", changed),
        ("transactions: late requests", {}),
    ]
    assert list(sensitivity_of_machine(TRANSACTIONS, [OneSearch(2)], frozenset())) == []


def test_a_search_that_was_not_exhausted_says_so() -> None:
    larger = sensitivity_of_machine(TRANSACTIONS, [OneSearch(2)], frozenset(LATE), max_states=100)
    assert all("more than 100 states" in one.reason and not one.changes for one in larger)


def test_what_a_lane_does_not_have_is_not_enlarged() -> None:
    lane = Lane(lane="orders", acks="all", group=Group(members=1))
    ((machine, asked, forbidden),) = machines_of(predict_cached(lane), lane)
    assert forbidden == {anomaly for anomaly, one in predict_cached(lane).groups.items() if one.status == "forbidden"}
    larger = list(sensitivity_of_machine(machine, asked, forbidden))
    assert [one.bound for one in larger] == ["groups: records", "groups: members", "groups: removals"]
    assert all(not one.changes and not one.reason for one in larger)
    failing = replace(lane, faults=("kill",), group=Group(members=2, crashes=1))
    ((machine, asked, forbidden),) = machines_of(predict_cached(failing), failing)
    bounds = {one.bound.partition(": ")[2] for one in sensitivity_of_machine(machine, asked, forbidden, max_states=10)}
    assert bounds == {"records", "members", "crashes", "removals", "joins", "failovers"}
