"""A protocol with one rule removed is caught: the anomalies see what the rule prevents."""

from __future__ import annotations

import pytest

from kafka_chaos.contract.transactions import TransactionAnomaly as A
from kafka_chaos.reference_model.search import Budget
from kafka_chaos.reference_model.transactions.examine import search_for
from kafka_chaos.reference_model.transactions.rules import BROKEN, V1, V1_UNVERIFIED, V2, Rules
from kafka_chaos.reference_model.transactions.state import Setup

CAUGHT: dict[str, tuple[set[A], int, int]] = {
    "no fencing at the coordinator": ({A.TORN_TRANSACTION, A.ABORTED_READ}, 0, 0),
    "no fencing at the leader": ({A.HANGING_TRANSACTION}, 0, 0),
    "no fencing of coordinators": ({A.TORN_TRANSACTION, A.ABORTED_READ}, 0, 1),
    "markers are not written again": ({A.HANGING_TRANSACTION, A.LOST_TRANSACTION, A.TORN_TRANSACTION}, 0, 1),
    "InitProducerId does not abort": ({A.HANGING_TRANSACTION}, 0, 0),
    "a read ignores the last stable offset": ({A.ABORTED_READ}, 0, 0),
    "no abort by time-out": ({A.HANGING_TRANSACTION}, 0, 0),
    "one epoch for all transactions": ({A.TORN_TRANSACTION, A.ABORTED_READ}, 1, 0),
    "no verification": ({A.HANGING_TRANSACTION}, 1, 0),
    "a leader takes open records for those of the transaction": (
        {A.TORN_TRANSACTION, A.LOST_TRANSACTION, A.ABORTED_READ}, 0, 0,
    ),
}  # fmt: skip
"""The anomalies that each broken protocol shows, with as many late requests and failovers."""


def test_every_broken_protocol_is_tried() -> None:
    assert CAUGHT.keys() == BROKEN.keys()


@pytest.mark.parametrize("name", CAUGHT)
def test_a_protocol_without_one_rule_is_caught(name: str) -> None:
    anomalies, delayed, failovers = CAUGHT[name]
    setup = Setup(BROKEN[name], delayed=delayed, failovers=failovers)
    _, first = search_for(anomalies, setup, Budget(200_000))
    assert first.keys() == anomalies


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "anomaly"),
    [("no fencing at the coordinator", A.ZOMBIE_COMMIT), ("no fencing at the leader", A.ABORTED_READ)],
)
def test_a_fence_prevents_more_than_what_is_found_first(name: str, anomaly: A) -> None:
    _, first = search_for({anomaly}, Setup(BROKEN[name], delayed=0, failovers=0), Budget(400_000))
    assert first.keys() == {anomaly}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_protocol_differs_from_a_whole_one_in_one_rule(name: str) -> None:
    def differing(whole: Rules) -> list[str]:
        return [field for field in Rules.__slots__ if getattr(BROKEN[name], field) != getattr(whole, field)]

    assert min(len(differing(whole)) for whole in (V1, V1_UNVERIFIED, V2)) == 1
