"""Group consumers and loops of an application: assignments, commits and inputs, on fakes of the client."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IDENTITY_HEADER, IdentityCodec
from kafka_chaos.harness.workload.application import consumer as application_consumer
from kafka_chaos.harness.workload.application import producer as application_producer
from kafka_chaos.harness.workload.application.consumer import ApplicationConsumers
from kafka_chaos.harness.workload.application.handles import ApplicationMembers, ConsumerHandle, LoopHandle
from kafka_chaos.harness.workload.application.producer import ApplicationProducers
from tests.harness.workload.loads import load_of
from tests.parquet import rows_in
from tests.plugin.application.fakes import FakeConsumer, FakeProducer, InGroup, Message

ORDERS = LaneSpec(lane="orders", topic="orders-1", partitions=2, group={})  # type: ignore[arg-type]
BILLS = LaneSpec(lane="bills", topic="bills-1", loop={"source": "orders"})  # type: ignore[arg-type]
Row = dict[str, Any]


class FakeMember(InGroup, FakeConsumer):
    """A consumer whose group gives and takes as the test says."""

    def __init__(self, configs: dict[str, Any]) -> None:
        super().__init__(configs)
        self.refusal: KafkaError | None = None
        self.committed: list[Row] = []

    def commit(self, **named: Any) -> Any:
        self.committed.append(named)
        if self.refusal is not None:
            raise KafkaException(self.refusal)
        return None if named["asynchronous"] else named.get("offsets", [])


class Recorded:
    """The recorders of a lane that a group reads and of a loop that reads it; `rows` ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        load = load_of(folder, ORDERS, BILLS)
        self.tables = load.tables
        self.inputs = ApplicationConsumers(ORDERS, load, group_id=ORDERS.group_id)
        self.outputs = ApplicationProducers(BILLS, load, self.inputs)
        self.member = ConsumerHandle(ORDERS, load, self.inputs)
        self.loop = LoopHandle(BILLS, load, self.outputs)
        self._ended = False

    def rows(self, name: str) -> list[Row]:
        if not self._ended:
            self._ended = True
            self.outputs.finish(0.0, threading.Event())
            self.inputs.leave()
            self.tables.close()
        return rows_in(self.folder / name)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    monkeypatch.setattr(application_producer, "Producer", FakeProducer)
    monkeypatch.setattr(application_consumer, "Consumer", FakeMember)
    made = Recorded(tmp_path)
    yield made
    made.rows("consumed")


def order(seq: int, partition: int = 0) -> Message:
    identity = IdentityCodec("orders").encode(4, seq)
    return Message("orders-1", partition, seq, headers=[("trace", b"x"), (IDENTITY_HEADER, identity)], value=b"mine")


def polled(client: Any, *messages: Message) -> list[Any]:
    client._client.messages = list(messages)
    return [client.poll(0.1) for _ in messages]


def test_a_member_s_assignments_and_reads_have_one_name(recorded: Recorded) -> None:
    heard: list[Any] = []
    client = recorded.member.consumer()
    client.subscribe(["orders-1"], on_revoke=lambda consumer, partitions: heard.append((consumer, partitions)))
    fake = client._client
    fake.gives(0, 1)
    polled(client, order(0), order(1, partition=1))
    fake.takes(1)
    fake.generation = 2
    fake.gives()
    polled(client, order(1))
    fake.takes(0, lost=True)
    client.close()
    assert [consumer for consumer, _ in heard] == [client, client], "losing is revoking to who has no other callback"
    rows = recorded.rows("assignments")
    assert {row["group"] for row in rows} == {"orders-group"}
    assert [(row["consumer"], row["generation"], row["partition"], row["isolation"]) for row in rows] == [
        ("orders-application-1-1", 1, 1, "read_committed"),
        ("orders-application-1-1", 1, 0, "read_committed"),
        ("orders-application-1-2", 2, 0, "read_committed"),
    ]
    assert all(row["end_ns"] >= row["start_ns"] for row in rows)
    assert [(row["consumer"], row["seq"]) for row in recorded.rows("consumed")] == [
        ("orders-application-1-1", 0), ("orders-application-1-1", 1), ("orders-application-1-2", 1),
    ]  # fmt: skip


Commit = Callable[[Any, list[Any]], object]


@pytest.mark.parametrize(
    ("commit", "offsets"),
    [
        (lambda client, read: client.commit(message=read[0], asynchronous=False), {0: 1}),
        (lambda client, read: client.commit(offsets=[TopicPartition("orders-1", 1, 7)], asynchronous=False), {1: 7}),
        (lambda client, read: client.commit(asynchronous=False), {0: 1, 1: 6}),
    ],
)
def test_a_commit_that_waits_has_its_answer(recorded: Recorded, commit: Commit, offsets: dict[int, int]) -> None:
    client = recorded.member.consumer()
    client.subscribe(["orders-1"])
    client._client.gives(0, 1)
    read = polled(client, order(0), order(5, partition=1))
    commit(client, read)
    client._client.refusal = KafkaError(KafkaError.ILLEGAL_GENERATION)
    with pytest.raises(KafkaException):
        commit(client, read)
    rows = recorded.rows("commits")
    assert {row["consumer"] for row in rows} == {"orders-application-1-1"}
    asked = [(row["partition"], row["offset"], row["outcome"]) for row in rows]
    assert asked == [(*one, outcome) for outcome in ("ok", "fail") for one in offsets.items()]


def test_a_commit_that_does_not_wait_is_answered_by_the_callback(recorded: Recorded) -> None:
    heard: list[Any] = []
    client = recorded.member.consumer({"on_commit": lambda error, partitions: heard.append(error)})
    client.subscribe(["orders-1"])
    client._client.gives(0)
    polled(client, order(0))
    client.commit()
    answered = client._client.configs["on_commit"]
    answered(None, [TopicPartition("orders-1", 0, 1)])
    answered(KafkaError(KafkaError.REQUEST_TIMED_OUT), [TopicPartition("orders-1", 0, 9)])
    assert [error is None for error in heard] == [True, False]
    rows = recorded.rows("commits")
    assert [(row["offset"], row["outcome"]) for row in rows] == [(1, "ok"), (9, "info")], "the second is automatic"


def test_a_commit_is_answered_without_what_was_committed_before(recorded: Recorded) -> None:
    client = recorded.member.consumer()
    client.subscribe(["orders-1"])
    client._client.gives(0, 1)
    polled(client, order(0), order(5, partition=1))
    client.commit()
    client.commit()
    answered = client._client.configs["on_commit"]
    answered(None, [TopicPartition("orders-1", 0, OFFSET_INVALID), TopicPartition("orders-1", 1, 6)])
    answered(KafkaError(KafkaError._NO_OFFSET), [TopicPartition("orders-1", 0, OFFSET_INVALID)])
    assert client._unanswered == []
    assert {row["outcome"] for row in recorded.rows("commits")} == {"ok", "info"}


@pytest.mark.parametrize(
    "given",
    [
        {"enable.auto.commit": True}, {"session.timeout.ms": 30_000},
        {"partition.assignment.strategy": "range"}, {"max.poll.interval.ms": 300_000},
    ],
)  # fmt: skip
def test_settings_that_contradict_the_group_are_refused(recorded: Recorded, given: Row) -> None:
    (key,) = given
    for handle in (recorded.member, recorded.loop):
        with pytest.raises(UsageFailure, match=f"{key}: the lane .* has a (group|loop) with {key}="):
            handle.consumer(given)
    with pytest.raises(UsageFailure, match=r"group\.id: the lane orders has one group, orders-group: leave it out"):
        recorded.member.consumer({"group.id": "billing"})
    assert recorded.member.consumer({"session.timeout.ms": "6000"})._client.configs["session.timeout.ms"] == 6_000


def test_what_the_harness_does_to_its_own_members_is_refused_for_an_application() -> None:
    lane = LaneSpec(lane="orders", group={"crashes": 1})  # type: ignore[arg-type]
    with pytest.raises(UsageFailure, match="the lane orders has crashes=1, which only the harness's members do"):
        ApplicationMembers(lane, lambda app: None, SimpleNamespace())  # type: ignore[arg-type]
    assert lane.group_id == "orders-group"


def test_a_consumer_of_its_own_group_in_a_lane_with_transactions_has_assignments_and_no_commits(
    recorded: Recorded, tmp_path: Path
) -> None:
    lane = LaneSpec(lane="orders", topic="orders-1", transactional={})  # type: ignore[arg-type]
    load = load_of(tmp_path / "transactional", lane)
    members = ApplicationMembers(lane, lambda app: None, load)
    consumer = ConsumerHandle(lane, load, members).consumer({"group.id": "billing", "enable.auto.commit": True})
    consumer.subscribe(["orders-1"])
    consumer._client.gives(0)
    polled(consumer, order(0))
    consumer._note_committed(None, [TopicPartition("orders-1", 0, 1)])
    members.leave()
    load.tables.close()
    (row,) = rows_in(tmp_path / "transactional" / "assignments")
    assert (row["group"], members.group_id) == (None, None)


def test_a_loop_s_outputs_name_their_inputs_and_carry_one_identity(recorded: Recorded) -> None:
    recorded.inputs.group_id = "bills-loop"
    consumer, producer = recorded.loop.consumer(), recorded.loop.producer()
    consumer.subscribe([recorded.loop.source_topic])
    consumer._client.gives(0)
    first, second = polled(consumer, order(0), order(1))
    producer.produce("bills-1", b"bill", source=first)
    producer.produce("bills-1", b"bill", headers=second.headers())
    with pytest.raises(UsageFailure, match="the lane bills is the output of a loop: give source="):
        producer.produce("bills-1", b"bill")
    carried = [[key for key, _ in options["headers"]] for _, _, _, options in producer._client.queue]
    assert carried == [[IDENTITY_HEADER], ["trace", IDENTITY_HEADER]]
    producer._client.deliver(0)
    producer._client.deliver(0, offset=1)
    made = sorted((row["seq"], row["source_producer_id"], row["source_seq"]) for row in recorded.rows("produced"))
    assert made == [(0, 4, 0), (1, 4, 1)]
    assert {row["group"] for row in recorded.rows("assignments")} == {"bills-loop"}


@pytest.mark.parametrize("refused", [False, True])
def test_offsets_in_a_transaction_are_commits_of_it(recorded: Recorded, refused: bool) -> None:
    recorded.inputs.group_id = "bills-loop"
    recorded.loop.consumer().close()
    consumer, producer = recorded.loop.consumer(), recorded.loop.producer({"transactional.id": "bills-0"})
    consumer.subscribe(["orders-1"])
    consumer._client.gives(0)
    (message,) = polled(consumer, order(3))
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("bills-1", b"bill", source=message)
    offsets = [TopicPartition("orders-1", 0, 4)]
    if refused:
        producer._client.refusal = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
        with pytest.raises(KafkaException):
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    else:
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()
    (row,) = recorded.rows("commits")
    assert (row["lane"], row["group"], row["partition"], row["offset"]) == ("orders", "bills-loop", 0, 4)
    assert (row["producer_id"], row["transaction"], row["outcome"]) == (0, 0, "fail" if refused else "ok")


def test_the_consumers_of_a_loop_do_not_share_names_with_its_source_s(tmp_path: Path) -> None:
    load = load_of(tmp_path, ORDERS, BILLS)
    loop, group = (ApplicationMembers(BILLS, print, load, source=ORDERS), ApplicationMembers(ORDERS, print, load))
    assert loop.name != group.name
    load.tables.close()
