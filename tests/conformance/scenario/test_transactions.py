"""Scenarios on transactions without brokers: what a run leaves behind, how it is shown, and what answers mean."""

import io
from dataclasses import replace
from types import SimpleNamespace as Answer
from typing import Any

import pytest
from rich.console import Console

from kafka_chaos.conformance.scenario.record import PARTITIONS, ActRecord, ScenarioRecord, StepRecord
from kafka_chaos.conformance.scenario.telling.console import ConsoleReporter
from kafka_chaos.conformance.scenario.telling.words import tell_steps
from kafka_chaos.conformance.scenario.transactions.client import DescribedTransaction, Producer, TransactionClient
from kafka_chaos.conformance.scenario.transactions.producers import meaning
from kafka_chaos.harness.cluster.storage.segments import read_segment
from kafka_chaos.reference_model.lockstep.observation.cluster import Observation
from kafka_chaos.reference_model.lockstep.transactions.model import (
    TransactionsModel,
    observe_transactions,
    transaction_step,
)
from kafka_chaos.reference_model.lockstep.transactions.steps import TransactionsConfig

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
        model.apply(transaction_step(name, **arguments))
        (state,) = model.states
        seen = observe_transactions(state, model.config)
        if wrong and number == len(STEPS) - 1:
            seen = replace(seen, partitions={0: replace(seen.partitions[0], last_stable_offset=0)})
        observed = Observation(transactions=seen)
        differences = model.compare(observed).differences
        matching = 0 if differences else 1
        steps.append(StepRecord(number, f"{name}.", 1.5, observed, 1, matching, differences))
    act = ActRecord("a transaction", "transactions", "v1", (0,), {}, steps, kind=PARTITIONS)
    return ScenarioRecord("txn-commit-abort", "KIP-98", "Markers", acts=[act])


def test_transactions_in_words() -> None:
    (act,) = record().acts
    lines = tell_steps(act)
    assert lines[1] == (
        "2. end. Partition 0: a (epoch 0) COMMIT (epoch 0), last stable offset 2, read_committed gives a. "
        "Transactions: t CompleteCommit, epoch 0; p has epoch 0, OK; group's offset none."
    )
    assert lines[2].endswith("t Ongoing in 1, epoch 0; p has epoch 0, OK; group's offset none; another one is pending.")


def printed(shown: ScenarioRecord) -> str:
    out = io.StringIO()
    reporter = ConsoleReporter(Console(file=out, width=120, highlight=False))
    for act in shown.acts:
        reporter("act", act)
        for step in act.steps:
            reporter("step", (act, step))
    return out.getvalue()


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


OF_3_9 = {0: 11, 9: 9, 22: 5, 24: 5, 25: 4, 26: 4, 28: 4, 65: 0}
OF_4_3 = {0: 13, 9: 10, 22: 6, 24: 5, 25: 4, 26: 5, 28: 5, 65: 0}
OLD = Producer("t", 7, 3)
BUMPS = Producer("t", 7, 3, bumps=True)


class Client(TransactionClient):
    """A client whose broker gives one answer, and whose requests are kept."""

    def __init__(self, newest: dict[int, int], answer: Any) -> None:
        self._newest_versions = newest
        self._answer = answer
        self.sent: list[Any] = []

    def request(self, request: Any) -> Any:
        self.sent.append(request)
        return self._answer

    def __exit__(self, *_: object) -> None:
        """There is no connection to close."""


def partitions(**found: Any) -> Answer:
    return Answer(partitions=[Answer(**found)])


@pytest.mark.parametrize(
    ("newest", "producer", "version", "following"), [(OF_3_9, OLD, 4, 3), (OF_4_3, OLD, 4, 3), (OF_4_3, BUMPS, 5, 4)]
)
def test_the_end_of_a_transaction_brings_the_next_epoch_where_producers_bump(
    newest: dict[int, int], producer: Producer, version: int, following: int
) -> None:
    with Client(newest, Answer(error_code=0, producer_id=7, producer_epoch=4)) as client:
        error, after = client.end(producer, commit=True)
    assert (error, after.epoch, after.id, after.bumps) == (0, following, 7, producer.bumps)
    (sent,) = client.sent
    assert (sent.version, sent.committed, sent.producer_epoch) == (version, True, 3)


@pytest.mark.parametrize(("producer", "version"), [(OLD, 11), (BUMPS, 12)])
def test_a_record_names_its_producer_and_its_place_in_the_transaction(producer: Producer, version: int) -> None:
    answer = Answer(responses=[Answer(partition_responses=[Answer(error_code=47)])])
    with Client(OF_4_3, answer) as client:
        assert client.write(producer, "topic", 1, "a", sequence=5) == 47
    (sent,) = client.sent
    assert (sent.version, sent.acks, sent.transactional_id) == (version, -1, "t")
    (data,) = sent.topic_data[0].partition_data
    (batch,) = read_segment("00000000000000000000.log", bytes(data.records)).batches
    assert (batch.transactional, batch.producer_id, batch.producer_epoch) == (True, 7, 3)
    base_sequence = int.from_bytes(batch.data[53:57], "big")
    assert base_sequence == 5
    assert [record.value for record in batch.records()] == [b"a"]


@pytest.mark.parametrize(("producer", "version"), [(OLD, 4), (BUMPS, 5)])
def test_an_offset_is_committed_in_the_transaction(producer: Producer, version: int) -> None:
    with Client(OF_4_3, Answer(topics=[partitions(error_code=0)])) as client:
        assert client.commit_offset(producer, "group", "source", 0, 9) == 0
    (sent,) = client.sent
    assert (sent.version, sent.group_id, sent.producer_id) == (version, "group", 7)
    assert sent.topics[0].partitions[0].committed_offset == 9


def test_a_partition_is_added_as_clients_do() -> None:
    result = Answer(results_by_partition=[Answer(partition_error_code=51)])
    with Client(OF_4_3, Answer(results_by_topic_v3_and_below=[result])) as client:
        assert client.add_partition(OLD, "topic", 1) == 51
    assert client.sent[0].version == 3


def test_a_new_incarnation_has_the_epoch_of_the_answer() -> None:
    with Client(OF_4_3, Answer(error_code=0, producer_id=8, producer_epoch=0)) as client:
        assert client.initialise(Producer("t", bumps=True), timeout_ms=5) == (0, Producer("t", 8, 0, bumps=True))
    (sent,) = client.sent
    assert (sent.version, sent.transaction_timeout_ms, sent.producer_id) == (5, 5, -1)


def test_a_described_transaction_has_its_partitions() -> None:
    topics = [Answer(topic="a", partitions=[0, 2]), Answer(topic="b", partitions=[1])]
    found = Answer(error_code=0, transaction_state="Ongoing", producer_epoch=2, topics=topics)
    with Client(OF_3_9, Answer(transaction_states=[found])) as client:
        error, described = client.describe_transaction("t")
    assert error == 0
    assert described == DescribedTransaction("Ongoing", 2, frozenset({("a", 0), ("a", 2), ("b", 1)}))


@pytest.mark.parametrize(
    ("whole", "one", "expected"),
    [(0, 0, (0, 6)), (0, 88, (88, 6)), (15, 0, (15, -1))],
    ids=["there", "pending", "none"],
)
def test_a_groups_offset(whole: int, one: int, expected: tuple[int, int]) -> None:
    answer = Answer(error_code=whole, topics=[partitions(error_code=one, committed_offset=6)])
    with Client(OF_4_3, answer) as client:
        assert client.group_offset("group", "source", stable=True) == expected
    assert (client.sent[0].version, client.sent[0].require_stable) == (7, True)
