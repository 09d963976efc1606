"""Scenarios on transactions without brokers: what a run leaves behind, how it is shown, and what answers mean."""

from dataclasses import replace

import pytest
from scenario_pages import tell_steps

from kafka_chaos.conformance.scenario.record import TRANSACTIONS_ACT, ActRecord, ScenarioRecord, StepRecord
from kafka_chaos.conformance.scenario.transactions.producers import meaning
from kafka_chaos.reference_model.lockstep.observation import Observation
from kafka_chaos.reference_model.lockstep.stepping import step
from kafka_chaos.reference_model.lockstep.transactions import TransactionsConfig, TransactionsModel
from tests.conformance.scenario.telling.test_console import printed

STEPS = (
    ("initialise", {"producer": "p", "id": "t"}),
    ("write", {"producer": "p", "record": "a", "partition": 0}),
    ("end", {"producer": "p", "commit": True}),
    ("write", {"producer": "p", "record": "7", "partition": 1}),
)


def record(*, wrong: bool = False) -> ScenarioRecord:
    """A run in which Kafka shows what the model says; with `wrong`, the last step's last stable offset is another."""
    model = TransactionsModel(TransactionsConfig(partitions=1, has_group=True))
    steps = []
    for number, (name, arguments) in enumerate(STEPS):
        model.apply(step(name, **arguments))
        (state,) = model.states
        observed = model.observe(state)
        if wrong and number == len(STEPS) - 1 and (seen := observed.transactions) is not None:
            wrong_partition = replace(seen.partitions[0], last_stable_offset=0)
            observed = Observation(transactions=replace(seen, partitions={0: wrong_partition}))
        differences = model.compare(observed).differences
        matching = 0 if differences else 1
        steps.append(StepRecord(number, f"{name}.", 1.5, observed, 1, matching, differences))
    act = ActRecord("a transaction", "transactions", "v1", (0,), {}, steps, kind=TRANSACTIONS_ACT)
    return ScenarioRecord("txn-commit-abort", "KIP-98", "Markers", acts=[act])


def test_transactions_in_words() -> None:
    (act,) = record().acts
    lines = tell_steps(act)
    assert lines[1] == (
        "2. end. Partition 0: a (epoch 0) COMMIT (epoch 0), last stable offset 2, read_committed gives a. "
        "Transactions: t CompleteCommit, epoch 0; p has epoch 0, OK; group's offset none."
    )
    assert lines[2].endswith("t Ongoing in 1, epoch 0; p has epoch 0, OK; group's offset none; another one is pending.")


def test_a_difference_is_shown_beside_what_the_model_says() -> None:
    told = printed(record(wrong=True))
    assert "transactions: v1" in told
    seen = "Partition 0: a (epoch 0) COMMIT (epoch 0), last stable offset 0, read_committed gives a."
    assert seen in [line.strip() for line in told.splitlines()]
    assert "✗ transactions, partition 0, last stable offset: Kafka has 0, the model allows 2" in told


@pytest.mark.parametrize(
    ("error", "writes", "expected"),
    [
        ("NONE", True, "OK"),
        ("INVALID_PRODUCER_EPOCH", True, "PRODUCER_FENCED"),
        ("PRODUCER_FENCED", False, "PRODUCER_FENCED"),
        ("INVALID_TXN_STATE", True, "TRANSACTION_ABORTABLE"),
        ("INVALID_TXN_STATE", False, "INVALID_TXN_STATE"),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", True, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ],
)
def test_what_an_answer_means(error: str, writes: bool, expected: str) -> None:
    assert meaning(error, writes=writes) == expected
