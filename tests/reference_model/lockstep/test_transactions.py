"""Transactions in lock step: what the model says after each step of the scenarios, and how it names what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.reference_model.lockstep.observation.cluster import Observation
from kafka_chaos.reference_model.lockstep.observation.transactions import (
    OffsetsObservation,
    TransactionObservation,
    TransactionsObservation,
)
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.lockstep.transactions.model import (
    TransactionsModel,
    observe_transactions,
    transaction_step,
)
from kafka_chaos.reference_model.lockstep.transactions.steps import TransactionsConfig
from kafka_chaos.reference_model.transactions.rules import BROKEN, V1, V2, Rules


class Played:
    """A model and its state after the steps so far."""

    def __init__(self, rules: Rules = V1, **config: Any) -> None:
        self.model = TransactionsModel(TransactionsConfig(rules=rules, **config))

    def take(self, name: str, **arguments: Any) -> Played:
        self.model.apply(transaction_step(name, **arguments))
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
        return observe_transactions(state, self.model.config)

    def log(self, partition: int = 0) -> list[str]:
        return [f"{name}·{epoch}" for _, name, epoch in self.seen.partitions[partition].log]

    def given(self, partition: int = 0) -> tuple[str, ...]:
        return self.seen.partitions[partition].read_committed

    def reply(self, producer: str = "p") -> str:
        return self.seen.producers[producer].reply


def offsets(one: Played, partition: int = 0) -> tuple[int, int]:
    found = one.seen.partitions[partition]
    return found.last_stable_offset, found.high_watermark


@pytest.mark.parametrize(("rules", "epoch"), [(V1, 0), (V2, 1)])
def test_markers_end_a_transaction_in_every_partition(rules: Rules, epoch: int) -> None:
    one = Played(rules).begin().write("a").write("b", 1)
    assert (offsets(one, 0), offsets(one, 1), one.given()) == ((0, 1), (0, 1), ())
    assert one.seen.partitions[0].read_uncommitted == ("a",)
    assert one.seen.transactions["t"] == TransactionObservation(state="Ongoing", epoch=0, partitions=(0, 1))
    one.end(commit=True)
    assert (one.log(0), one.log(1)) == (["a·0", f"COMMIT·{epoch}"], ["b·0", f"COMMIT·{epoch}"])
    assert (one.given(0), one.given(1), offsets(one)) == (("a",), ("b",), (2, 2))
    assert one.seen.transactions["t"] == TransactionObservation(state="CompleteCommit", epoch=epoch)
    one.write("c").end(commit=False)
    assert one.log()[-2:] == [f"c·{epoch}", f"ABORT·{2 * epoch}"]
    assert (one.given(), one.seen.partitions[0].read_uncommitted) == (("a",), ("a", "c"))


def test_what_another_producer_commits_waits_behind_an_open_transaction() -> None:
    one = Played(ids=("t", "u")).begin().write("a").begin("q", "u").write("x", producer="q").end(True, "q")
    assert (offsets(one), one.given()) == ((0, 3), ())
    one.end(commit=True)
    assert (offsets(one), one.given()) == ((4, 4), ("a", "x"))


def test_the_next_producer_fences_the_one_before() -> None:
    one = Played().begin("p1").write("a", producer="p1").begin("p2")
    assert one.log() == ["a·0", "ABORT·1"]
    assert one.seen.transactions["t"] == TransactionObservation(state="Empty", epoch=2)
    one.write("b", producer="p2").write("c", producer="p1").write("d", 1, "p1").end(True, "p1")
    assert (one.reply("p1"), one.log()[2:], one.log(1)) == ("PRODUCER_FENCED", ["b·2"], [])
    one.end(True, "p2")
    assert one.given() == ("b",)


def test_with_an_epoch_per_transaction_an_abort_after_the_time_out_is_answered_with_the_next_epoch() -> None:
    one = Played(V2).begin().write("a").take("time_out", id="t")
    assert one.end(commit=True).reply() == "INVALID_TXN_STATE"
    assert one.end(commit=False).reply() == "OK"
    assert one.seen.producers["p"].epoch == 1


def test_a_time_out_aborts_and_fences() -> None:
    one = Played().begin().write("a").take("time_out", id="t")
    assert (one.log(), one.seen.transactions["t"].state) == (["a·0", "ABORT·1"], "CompleteAbort")
    assert one.end(commit=True).reply() == "PRODUCER_FENCED"
    with pytest.raises(ActionError, match="no transaction that could time out"):
        one.take("time_out", id="t")


def test_the_next_coordinator_completes_what_is_prepared_and_repeats_markers() -> None:
    one = Played().begin().write("a").write("b", 1).take("hold_markers", partition=1).end(commit=True)
    assert one.reply() == "OK"
    assert one.seen.transactions["t"] == TransactionObservation(state="PrepareCommit", epoch=0, partitions=(1,))
    assert (one.given(0), one.given(1)) == (("a",), ())
    one.take("fail_over")
    assert (one.log(0), one.log(1)) == (["a·0", "COMMIT·0", "COMMIT·0"], ["b·0", "COMMIT·0"])
    assert one.seen.transactions["t"].state == "CompleteCommit"
    one.write("c", 1).take("release_markers")
    assert (one.log(1), one.given(1)) == (["b·0", "COMMIT·0", "c·0"], ("b",))


def test_a_leader_that_takes_markers_of_a_replaced_coordinator_is_found() -> None:
    rules = BROKEN["fencing of coordinators that were replaced"].rules
    one = Played(rules).begin().write("a").take("hold_markers", partition=0).end(commit=True).take("fail_over")
    assert one.write("b").take("release_markers").given() == ("a", "b")


def test_a_marker_that_was_held_arrives_where_its_coordinator_is_the_same() -> None:
    one = Played().begin().write("a").take("hold_markers", partition=0).end(commit=True)
    assert one.take("release_markers").log() == ["a·0", "COMMIT·0"]


def test_a_request_to_a_transaction_that_cannot_end_is_refused_as_a_step() -> None:
    one = Played().begin().write("a").take("hold_markers", partition=0).end(commit=True)
    with pytest.raises(ActionError, match="ask forever"):
        one.write("b")


def late_commit(rules: Rules) -> Played:
    one = Played(rules).begin().write("a").take("hold_end", producer="p", commit=True).end(commit=True)
    return one.write("b").take("release")


def test_a_late_commit_ends_the_next_transaction_in_the_old_protocol() -> None:
    one = late_commit(V1)
    assert (one.given(), one.seen.transactions["t"].state) == (("a", "b"), "CompleteCommit")
    assert one.write("c").reply() == "TRANSACTION_ABORTABLE"
    assert one.end(commit=False).reply() == "INVALID_TXN_STATE"
    assert one.given() == ("a", "b")


def test_a_late_commit_is_fenced_where_each_transaction_has_an_epoch() -> None:
    one = late_commit(V2)
    assert (one.given(), one.seen.transactions["t"].state) == (("a",), "Ongoing")
    assert one.write("c").end(commit=False).reply() == "OK"
    assert (one.given(), one.log()[-1]) == (("a",), "ABORT·2")


@pytest.mark.parametrize("rules", [V1, V2])
def test_a_groups_offset_moves_with_its_transaction(rules: Rules) -> None:
    one = Played(rules, partitions=1, has_group=True).begin("p1").write("x", producer="p1").write("1", 1, "p1")
    assert one.seen.offsets == OffsetsObservation(committed=None, pending=True)
    assert one.seen.transactions["t"].partitions == (0, 1)
    one.take("crash", producer="p1").begin("p2")
    assert (one.seen.offsets, list(one.seen.producers)) == (OffsetsObservation(), ["p2"])
    one.write("x", producer="p2").write("1", 1, "p2").end(True, "p2")
    assert (one.seen.offsets, one.given()) == (OffsetsObservation(committed=1), ("x",))
    assert list(one.seen.partitions) == [0]


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
        "transactional id t, epoch",
        "transactional id t, partitions",
        "transactional id t, state",
    ]


STORIES: Mapping[str, tuple[str, ...]] = {
    "fencing of producers at the coordinator": ("begin p1", "write p1", "begin p2", "write p2", "commit p1"),
    "markers that a new coordinator writes again": ("begin p1", "write p1", "hold", "commit p1", "fail over"),
    "the last stable offset": ("begin p1", "write p1"),
    "the abort by InitProducerId": ("begin p1", "write p1", "begin p2"),
}


@pytest.mark.parametrize("rule", STORIES)
def test_a_model_without_a_rule_is_found_by_the_steps_of_a_scenario(rule: str) -> None:
    whole, broken = Played(), Played(BROKEN[rule].rules)
    for one in (whole, broken):
        for what in STORIES[rule]:
            match what.split():
                case "begin", producer:
                    one.begin(producer)
                case "write", producer:
                    one.write("a", producer=producer)
                case "commit", producer:
                    one.end(True, producer)
                case ["hold"]:
                    one.take("hold_markers", partition=0)
                case _:
                    one.take("fail_over")
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


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ActionError, match="expected an action out of"):
        transaction_step("commit")
