"""The order in which a loop sends, commits and dies, in each of its three ways, on a fake client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from kafka_chaos.contract.lane.groups import AFTER, BEFORE, IN_TRANSACTION
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.clients import recorded_producer
from kafka_chaos.harness.workload.groups.commits import Commits
from kafka_chaos.harness.workload.groups.loop import LoopProcessing
from kafka_chaos.harness.workload.groups.settings import OutputSettings
from kafka_chaos.harness.workload.transactions.producer import ProducerLost
from tests.harness.workload.groups.fakes import CODEC, LANE, Died, FakeConsumer, record
from tests.harness.workload.transactions.fakes import FakeProducer
from tests.plugin.application.fakes import Message

IDENTITIES = [(7, offset) for offset in (3, 4, 5, 6)]
BATCH = [record(0, offset, (producer_id, offset)) for producer_id, offset in IDENTITIES]


class LoopProducer(FakeProducer):
    """Its calls are among what the loop has `done`; with a `failure`, that is the outcome of every record."""

    made: LoopProducer

    def __init__(self, configs: dict[str, Any]) -> None:
        super().__init__(configs, {}, [], silent=False)
        LoopProducer.made = self
        self.values: list[bytes] = []
        self.failure: KafkaError | None = None

    def produce(self, topic: str, value: bytes, key: object, partition: int, report: Callable[..., None]) -> None:
        if not self.waiting:
            done.append("produce")
        self.values.append(value)
        super().produce(topic, value, key, partition, lambda error, message: report(self.failure or error, message))

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: object, timeout: float) -> None:
        done.append(f"offsets {[(one.partition, one.offset) for one in offsets]}")
        super().send_offsets_to_transaction(offsets, group, timeout)

    def _call(self, name: str) -> None:
        if name not in ("produce", "send_offsets_to_transaction"):
            done.append(name)
        super()._call(name)


done: list[str] = []


class FakeMember:
    def __init__(self, tell: Any) -> None:
        self.tell, self.orders = tell, SimpleNamespace(gives_up=lambda: False)
        self.client = FakeConsumer()
        self.commits = Commits(SimpleNamespace(name="g-0-1", client=self.client, tell=tell), LANE)  # type: ignore[arg-type]

    def tell_read(self, messages: list[Message]) -> list[tuple[int, int]]:
        done.append(f"read {len(messages)}")
        return [CODEC.decode(message.value()) for message in messages]


class Loop:
    def __init__(self, folder: Path, offsets: str, abort: float = 0.0) -> None:
        done.clear()
        self.told: list[tuple[str, dict[str, Any]]] = []
        settings = OutputSettings(
            lane="out", topic="out", partitions=2, record_size=60, producer_id=5, offsets=offsets, size=4, abort=abort,
            configs={"transactional.id": "out-0"} if offsets == IN_TRANSACTION else {}, seed="1",
            run_directory=str(folder), names_generation=True,
        )  # fmt: skip
        self.member = FakeMember(self.tell)
        self.processing = LoopProcessing(settings, self.member)  # type: ignore[arg-type]
        self.producer = LoopProducer.made

    def tell(self, kind: str, **values: Any) -> None:
        self.told.append((kind, values))
        if kind == "commit" and values["transaction"] is None:
            done.append(f"commit {values['offsets']}")

    def handles(self, crash: Callable[[], None] | None = None) -> bool:
        return self.processing.handle(BATCH, crash)

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [values for one, values in self.told if one == kind]


@pytest.fixture(autouse=True)
def fake_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_producer, "Producer", LoopProducer)


def crash() -> None:
    done.append("crash")
    raise Died


BEGINS = ("init_transactions", "begin_transaction")
WAYS = {
    IN_TRANSACTION: [*BEGINS, "read 4", "produce", "offsets [(0, 7)]", "commit_transaction"],
    AFTER: ["read 4", "produce", "commit [(0, 7)]"],
    BEFORE: ["commit [(0, 7)]", "read 4", "produce"],
}
CRASHES = {
    IN_TRANSACTION: [*BEGINS, "read 2", "produce", "crash"],
    AFTER: ["read 2", "produce", "crash"],
    BEFORE: ["commit [(0, 7)]", "read 2", "produce", "crash"],
}


@pytest.mark.parametrize("offsets", WAYS)
def test_each_way_has_its_order(offsets: str, tmp_path: Path) -> None:
    loop = Loop(tmp_path, offsets)
    assert loop.handles() is False
    assert done == WAYS[offsets]
    (sent,) = loop.all("sent")
    assert (sent["first_seq"], sent["partition"], sent["sources"]) == (0, [0, 1, 0, 1], IDENTITIES)
    (learned,) = loop.all("outcome")
    assert (learned["outcome"], learned["seq"], learned["offset"]) == ("ok", [0, 1, 2, 3], [0, 1, 2, 3])
    codec = IdentityCodec("out", 60)
    assert [codec.decode(value) for value in loop.producer.values] == [(5, seq) for seq in range(4)]
    reserved = (tmp_path / "reservations.jsonl").read_text()
    assert '"lane": "out", "producer_id": 5, "first_seq": 0' in reserved


@pytest.mark.parametrize("offsets", CRASHES)
def test_a_crash_comes_once_half_of_the_outputs_are_acknowledged(offsets: str, tmp_path: Path) -> None:
    loop = Loop(tmp_path, offsets)
    with pytest.raises(Died):
        loop.handles(crash)
    assert done == CRASHES[offsets]
    assert [len(one["seq"]) for one in loop.all("outcome")] == [2]


@pytest.mark.parametrize(("offsets", "again"), [(AFTER, True), (BEFORE, False)])
def test_outputs_that_fail_are_made_again_unless_their_offset_is_committed(
    offsets: str, again: bool, tmp_path: Path
) -> None:
    loop = Loop(tmp_path, offsets)
    loop.producer.failure = KafkaError(KafkaError._MSG_TIMED_OUT)
    assert loop.handles() is again
    assert ("commit [(0, 7)]" in done) is (offsets == BEFORE)
    assert {one["outcome"] for one in loop.all("outcome")} == {"info"}


def test_nothing_is_made_of_what_could_not_be_committed_before(tmp_path: Path) -> None:
    loop = Loop(tmp_path, BEFORE)
    loop.member.client.refusal = KafkaError(KafkaError.ILLEGAL_GENERATION)
    assert loop.handles() is True
    assert done == ["commit [(0, 7)]"]


def test_an_abort_reads_again_and_is_a_transaction_with_its_outcome(tmp_path: Path) -> None:
    loop = Loop(tmp_path, IN_TRANSACTION, abort=1.0)
    assert loop.handles() is True
    assert done[-1] == "abort_transaction"
    (row,) = (one["row"] for one in loop.all("transaction"))
    assert (row["transaction"], row["outcome"], row["transactional_id"]) == (0, "aborted", "out-0")
    assert loop.all("commit") == []


def test_the_commit_of_offsets_belongs_to_its_transaction(tmp_path: Path) -> None:
    loop = Loop(tmp_path, IN_TRANSACTION)
    loop.handles()
    loop.handles()
    assert [(one["producer_id"], one["transaction"]) for one in loop.all("commit")] == [(5, 0), (5, 1)]
    assert [one["errors"] for one in loop.all("committed")] == [[], []]
    assert [one["row"]["outcome"] for one in loop.all("transaction")] == ["committed", "committed"]


@pytest.mark.parametrize("abortable", [True, False])
def test_offsets_that_are_refused_abort_the_transaction_or_end_the_member(abortable: bool, tmp_path: Path) -> None:
    loop = Loop(tmp_path, IN_TRANSACTION)
    refusal = KafkaError(KafkaError.ILLEGAL_GENERATION, "fenced", fatal=not abortable, txn_requires_abort=abortable)
    loop.producer.failures["send_offsets_to_transaction"] = [refusal]
    if abortable:
        assert loop.handles() is True
        assert done[-1] == "abort_transaction"
    else:
        with pytest.raises(ProducerLost):
            loop.handles()
    assert [error[:2] for error in loop.all("committed")[0]["errors"]] == [(0, "fail")]
    assert [one["row"]["outcome"] for one in loop.all("transaction")] == ["aborted"]
