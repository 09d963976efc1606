"""Transactions in lock step: what the model says after each step of the scenarios, and how it names what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from negative_controls import TRANSACTIONS_WITHOUT

from kafka_chaos.reference_model.lockstep.observation import Observation, TransactionsObservation
from kafka_chaos.reference_model.lockstep.state import ActionError
from kafka_chaos.reference_model.lockstep.stepping import step
from kafka_chaos.reference_model.lockstep.transactions import TransactionsConfig, TransactionsModel
from kafka_chaos.reference_model.transactions.rules import V1, Rules


class Played:
    """A model and its state after the steps so far."""

    def __init__(self, rules: Rules = V1, **config: Any) -> None:
        self.model = TransactionsModel(TransactionsConfig(rules=rules, **config))

    def take(self, name: str, **arguments: Any) -> Played:
        self.model.apply(step(name, **arguments))
        return self

    def begin(self, producer: str = "p", id: str = "t") -> Played:
        return self.take("initialise", producer=producer, id=id)

    def write(self, record: str, partition: int = 0, producer: str = "p") -> Played:
        return self.take("write", producer=producer, record=record, partition=partition)

    def end(self, commit: bool, producer: str = "p") -> Played:
        return self.take("end", producer=producer, commit=commit)

    @property
    def seen(self) -> TransactionsObservation:
        (state,) = self.model.states
        return self.model.observe(state).transactions or TransactionsObservation()

    def log(self, partition: int = 0) -> list[str]:
        return [f"{name}·{epoch}" for _, name, epoch in self.seen.partitions[partition].log]


def test_a_marker_that_was_held_arrives_where_its_coordinator_is_the_same() -> None:
    one = written(Played()).take("hold_markers", partition=0).end(commit=True)
    assert one.take("release_markers").log() == ["a·0", "COMMIT·0"]


def test_a_request_to_a_transaction_that_cannot_end_is_refused_as_a_step() -> None:
    one = Played().begin().write("a").take("hold_markers", partition=0).end(commit=True)
    with pytest.raises(ActionError, match="repeated forever"):
        one.write("b")


def test_what_differs_is_named() -> None:
    one = Played().begin().write("a")
    seen = one.seen
    assert one.model.compare(Observation(transactions=seen)).matching == one.model.states
    wrong = {0: replace(seen.partitions[0], last_stable_offset=1), 1: seen.partitions[1]}
    found = one.model.compare(Observation(transactions=replace(seen, partitions=wrong)))
    assert not found.conforms
    assert [str(one) for one in found.differences] == [
        "transactions, partition 0, last_stable_offset: observed 1, the model allows 0"
    ]


def test_a_transactional_id_that_is_not_there_differs() -> None:
    one = Played().begin()
    found = one.model.compare(Observation(transactions=replace(one.seen, transactions={})))
    assert [difference.field for difference in found.differences] == [
        "transactional id t, epoch", "transactional id t, partitions", "transactional id t, state",
    ]  # fmt: skip


def written(one: Played) -> Played:
    return one.begin().write("a")


STORIES: Mapping[str, Callable[[Played], Played]] = {
    "fencing of producers at the coordinator": lambda one: written(one).begin("q").write("a", producer="q").end(True),
    "markers that a new coordinator writes again": lambda one: (
        written(one).take("hold_markers", partition=0).end(True).take("fail_over")
    ),
    "the last stable offset": written,
    "the abort by InitProducerId": lambda one: written(one).begin("q"),
}


@pytest.mark.parametrize("rule", STORIES)
def test_a_model_without_a_rule_is_found_by_the_steps_of_a_scenario(rule: str) -> None:
    whole, broken = (STORIES[rule](Played(rules)) for rules in (V1, TRANSACTIONS_WITHOUT[rule].rules))
    assert broken.model.compare(Observation(transactions=whole.seen)).differences


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write", {"producer": "p", "record": "a", "partition": 2}),
        ("write", {"producer": "q", "record": "a", "partition": 0}),
        ("initialise", {"producer": "p", "id": "v"}),
        ("release", {}),
    ],
)
def test_impossible_steps_are_refused(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ActionError):
        Played().begin().take(name, **arguments)
