"""A protocol with one rule removed is caught: the anomalies see what the rule prevents."""

from __future__ import annotations

import pytest

from kafka_chaos.contract.transactions import TransactionAnomaly as A
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS
from kafka_chaos.reference_model.transactions.rules import BROKEN, V1, V1_UNVERIFIED, V2, Broken, Rules
from kafka_chaos.reference_model.transactions.state import Setup


def setup_of(broken: Broken) -> Setup:
    return Setup(broken.rules, delayed=broken.delayed, failovers=broken.failovers)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_protocol_without_one_rule_is_caught(broken: Broken) -> None:
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
    _, first = TRANSACTIONS.search({anomaly}, setup_of(BROKEN[lacking]), Budget(400_000))
    assert first.keys() == {anomaly}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_protocol_differs_from_a_whole_one_in_one_rule(broken: Broken) -> None:
    def differing(whole: Rules) -> list[str]:
        return [field for field in Rules.__slots__ if getattr(broken.rules, field) != getattr(whole, field)]

    assert min(len(differing(whole)) for whole in (V1, V1_UNVERIFIED, V2)) == 1
