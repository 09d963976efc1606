"""The recorded clients of an application: what is written down of what they send and get, on fakes of the client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.identity import IDENTITY_HEADER
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.experiment.specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.application import consumer as application_consumer
from kafka_chaos.harness.workload.application import producer as application_producer
from kafka_chaos.harness.workload.application.consumer import ConsumerRecorder
from kafka_chaos.harness.workload.application.handles import ApplicationThread, ConsumerHandle, ProducerHandle
from kafka_chaos.harness.workload.application.producer import ProducerRecorder
from kafka_chaos.harness.workload.history.reservations import Reservations
from kafka_chaos.harness.workload.history.writer import TRANSACTIONS_SCHEMA, HistoryWriter, RowBuffer
from kafka_chaos.harness.workload.lane_clients import producer_configs

LANE = LaneSpec(lane="orders", topic="orders-1", partitions=2, acks="all")
NEVER = threading.Event()


class Message:
    def __init__(self, topic: str, partition: int, offset: int, **more: Any) -> None:
        self._told = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "error": None,
            "leader_epoch": 0,
            **more,
        }

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self._told.get(name)


class FakeProducer:
    """Holds what it is given until `deliver`."""

    def __init__(self, configs: dict[str, Any]) -> None:
        self.configs = configs
        self.queue: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self.refusal: Exception | None = None
        self.closed = False
        self.calls: list[str] = []

    def produce(self, topic: str, value: Any, key: Any, **options: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.queue.append((topic, value, key, options))

    def deliver(self, index: int, *, partition: int = 0, offset: int = 0, error: int | None = None) -> None:
        topic, _, _, options = self.queue.pop(index)
        code = KafkaError(error) if error is not None else None
        options["on_delivery"](code, Message(topic, partition, offset))

    def poll(self, timeout: float = 0) -> int:
        return 0

    def purge(self) -> None:
        self.queue.clear()

    def close(self) -> None:
        self.closed = True

    def __len__(self) -> int:
        return len(self.queue)

    def init_transactions(self, timeout: float) -> None:
        self._called(f"init {timeout:g}")

    def begin_transaction(self) -> None:
        self._called("begin")

    def commit_transaction(self, timeout: float) -> None:
        self._called(f"commit {timeout:g}")

    def abort_transaction(self, timeout: float) -> None:
        self._called(f"abort {timeout:g}")

    def send_offsets_to_transaction(self, *offsets: object) -> None:
        self._called("send offsets")

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.refusal is not None:
            raise self.refusal


class FakeConsumer:
    """Hands out the messages that it was made with, and calls back as a rebalance would."""

    messages: list[Message]

    def __init__(self, configs: dict[str, Any]) -> None:
        self.configs = configs
        self.on_assign: Callable[[Any, Any], None] | None = None
        self.messages = []

    def subscribe(self, topics: list[str], on_assign: Any = None, **callbacks: Any) -> None:
        self.on_assign = on_assign

    def poll(self, timeout: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def seek(self, partition: Any) -> None:
        pass


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(application_producer, "Producer", FakeProducer)
    monkeypatch.setattr(application_consumer, "Consumer", FakeConsumer)
    yield tmp_path
    for producing in Producing.made:
        producing.reservations.close()
    Producing.made.clear()


class Producing:
    made: ClassVar[list[Producing]] = []

    def __init__(self, folder: Path, lane: LaneSpec = LANE) -> None:
        self.made.append(self)
        self.writer, self.reservations = HistoryWriter(folder / "produced"), Reservations(folder)
        self.transactions = HistoryWriter(folder / "transactions")
        self.folder = folder
        configs = producer_configs(lane, "127.0.0.1:1")
        self.recorder = ProducerRecorder(
            lane=lane.lane,
            topic=lane.topic_name,
            answered=lane.acks != "0",
            retries=True,
            writer=self.writer,
            reservations=self.reservations,
            transactions=None if lane.transactional is None else RowBuffer(TRANSACTIONS_SCHEMA, self.transactions),
        )
        self.handle = ProducerHandle(lane, "127.0.0.1:1", self.recorder, configs)

    def rows(self) -> list[dict[str, Any]]:
        self.recorder.finish(0.0, NEVER)
        self.writer.close()
        self.reservations.close()
        self.transactions.close()
        files = sorted((self.folder / "produced").glob("*.parquet"))
        return sorted(
            (row for file in files for row in pq.read_table(file).to_pylist()),
            key=lambda row: (row["producer_id"], row["seq"]),
        )


def test_a_record_keeps_what_is_the_application_s_and_gets_an_identity(recorded: Path) -> None:
    reported: list[Any] = []
    producing = Producing(recorded)
    client = producing.handle.producer()
    client.produce(
        "orders-1",
        b"value",
        b"key",
        on_delivery=lambda error, message: reported.append(message.offset()),
        headers={"a": "b"},
    )
    fake = client._client
    topic, value, key, options = fake.queue[0]
    assert (topic, value, key) == ("orders-1", b"value", b"key")
    (own, identity) = options["headers"]
    assert own == ("a", "b")
    assert identity[0] == IDENTITY_HEADER
    assert IdentityCodec("orders").decode(identity[1]) == (0, 0)
    fake.deliver(0, partition=1, offset=17)
    assert reported == [17], "the application's own callback is called"
    (row,) = producing.rows()
    assert (row["outcome"], row["partition"], row["offset"], row["error"]) == ("ok", 1, 17, None)
    assert row["complete_ns"] >= row["invoke_ns"]
    assert (producing.recorder.sent, producing.recorder.acknowledged) == (1, 1)


def test_every_client_is_a_producer_of_its_own(recorded: Path) -> None:
    producing = Producing(recorded)
    for _ in range(2):
        client = producing.handle.producer()
        client.produce("orders-1", b"x")
        client._client.deliver(0)
    assert [(row["producer_id"], row["seq"]) for row in producing.rows()] == [(0, 0), (1, 0)]


def test_records_to_other_topics_pass_unrecorded(recorded: Path) -> None:
    producing = Producing(recorded)
    client = producing.handle.producer()
    client.produce("audit", b"x", headers=[("a", b"b")])
    assert client._client.queue[0][3]["headers"] == [("a", b"b")]
    client._client.queue.clear()
    assert producing.rows() == []


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(KafkaError._MSG_TIMED_OUT, "info"), (KafkaError.NOT_ENOUGH_REPLICAS, "info"), (KafkaError._PURGE_QUEUE, "info")],
)
def test_an_error_of_a_record_that_was_sent_is_info(recorded: Path, error: int, outcome: str) -> None:
    producing = Producing(recorded)
    client = producing.handle.producer()
    client.produce("orders-1", b"x")
    client._client.deliver(0, error=error)
    (row,) = producing.rows()
    assert (row["outcome"], row["error"]) == (outcome, KafkaError(error).name())


def test_a_record_that_the_client_refused_is_fail_and_one_that_found_the_queue_full_never_was(recorded: Path) -> None:
    producing = Producing(recorded)
    client = producing.handle.producer()
    client._client.refusal = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(KafkaException):
        client.produce("orders-1", b"x")
    client._client.refusal = BufferError("full")
    with pytest.raises(BufferError):
        client.produce("orders-1", b"y")
    client._client.refusal = None
    client.produce("orders-1", b"z")
    client._client.deliver(0, offset=5)
    assert [(row["seq"], row["outcome"]) for row in producing.rows()] == [(0, "fail"), (1, "ok")]


def test_what_has_no_outcome_at_the_end_is_info(recorded: Path) -> None:
    producing = Producing(recorded)
    client = producing.handle.producer()
    client.produce("orders-1", b"x", partition=1)
    (row,) = producing.rows()
    assert (row["outcome"], row["partition"], row["complete_ns"]) == ("info", 1, None)
    assert client._client.closed


def test_with_acks_0_nobody_answers_so_there_is_no_offset(recorded: Path) -> None:
    producing = Producing(recorded, LaneSpec(lane="orders", topic="orders-1", acks="0"))
    client = producing.handle.producer()
    client.produce("orders-1", b"x")
    client._client.deliver(0, offset=3)
    assert producing.rows()[0]["offset"] is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"acks": 1}, "acks: the lane orders has acks=all, and its prediction holds for that only"),
        ({"enable.idempotence": True}, "enable.idempotence: the lane orders has idempotence=false"),
        ({"max.in.flight": 1}, "max.in.flight: the lane orders has max_in_flight=5"),
        ({"transactional.id": "t"}, "transactional.id: the lane orders has no transactions"),
    ],
)
def test_settings_that_contradict_the_lane_are_refused(recorded: Path, given: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageFailure) as refusal:
        Producing(recorded).handle.producer(given)
    assert expected in str(refusal.value)


PAYING = LaneSpec(lane="orders", topic="orders-1", transactional={"timeout_ms": 9_000})  # type: ignore[arg-type]
FATAL = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
RETRIABLE = KafkaException(KafkaError(KafkaError._TIMED_OUT, "not yet", retriable=True))


def transactions_of(producing: Producing) -> list[tuple[Any, ...]]:
    columns = ("producer_id", "transaction", "transactional_id", "outcome", "error")
    files = sorted((producing.folder / "transactions").glob("*.parquet"))
    return [tuple(row[name] for name in columns) for file in files for row in pq.read_table(file).to_pylist()]


def test_an_application_s_transactions_are_recorded(recorded: Path) -> None:
    producing = Producing(recorded, PAYING)
    client = producing.handle.producer({"transactional.id": "app"})
    client.init_transactions(3)
    client.produce("orders-1", b"outside")
    for end in (client.commit_transaction, client.abort_transaction):
        client.begin_transaction()
        client.produce("orders-1", b"x")
        client.send_offsets_to_transaction([], None)
        client._client.deliver(0)
        end(5)
    client.begin_transaction()
    client.commit_transaction()
    rows = producing.rows()
    assert [row["transaction"] for row in rows] == [None, 0, 1]
    assert transactions_of(producing) == [
        (0, 0, "app", "committed", None),
        (0, 1, "app", "aborted", None),
        (0, 2, "app", "committed", None),
    ]
    assert client._client.calls == [
        *("init 3", "begin", "send offsets", "commit 5", "begin", "send offsets", "abort 5", "begin", "commit -1"),
    ]
    assert client._client.closed
    [table] = [pq.read_table(file) for file in (recorded / "transactions").glob("*.parquet")]
    began = table["begin_ns"].to_pylist()
    assert all(initialised < began[0] for initialised in table["initialised_ns"].to_pylist())


def test_a_commit_that_an_application_asks_for_again_is_one_transaction(recorded: Path) -> None:
    producing = Producing(recorded, PAYING)
    client = producing.handle.producer({"transactional.id": "app"})
    client.begin_transaction()
    client._client.refusal = RETRIABLE
    with pytest.raises(KafkaException):
        client.commit_transaction(1)
    client._client.refusal = None
    client.commit_transaction(1)
    producing.rows()
    assert transactions_of(producing) == [(0, 0, "app", "committed", None)]


@pytest.mark.parametrize(("end", "outcome"), [("commit_transaction", "info"), ("abort_transaction", "aborted")])
def test_an_application_s_fenced_producer_says_what_it_knows(recorded: Path, end: str, outcome: str) -> None:
    producing = Producing(recorded, PAYING)
    client = producing.handle.producer({"transactional.id": "app"})
    client.begin_transaction()
    client._client.refusal = FATAL
    with pytest.raises(KafkaException):
        getattr(client, end)(1)
    # The application begins anew: another client under the same id is another producer.
    again = producing.handle.producer({"transactional.id": "app"})
    again.begin_transaction()
    again.produce("orders-1", b"x")
    producing.rows()
    assert transactions_of(producing) == [(0, 0, "app", outcome, "_FENCED"), (1, 0, "app", "aborted", None)]
    assert (client._client.closed, again._client.closed) == (True, False), "what is open is left behind, not aborted"


def test_a_time_out_of_transactions_that_contradicts_the_lane_is_refused(recorded: Path) -> None:
    handle = Producing(recorded, PAYING).handle
    handle.producer({"transactional.id": "app", "transaction.timeout.ms": 9_000})
    with pytest.raises(UsageFailure, match=r"transaction\.timeout\.ms: the lane orders has timeout_ms=9000"):
        handle.producer({"transactional.id": "app", "transaction.timeout.ms": 5_000})


def test_settings_that_agree_and_all_others_are_passed_on(recorded: Path) -> None:
    given = {"acks": -1, "enable.idempotence": "false", "linger.ms": 50, "bootstrap.servers": "elsewhere:1"}
    configs = Producing(recorded).handle.producer(given)._client.configs
    assert configs["linger.ms"] == 50
    assert configs["acks"] == "all"
    assert configs["bootstrap.servers"] == "127.0.0.1:1"


class Consuming:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = HistoryWriter(folder / "consumed")
        self.recorder = ConsumerRecorder(lane="orders", topic="orders-1", partitions=2, writer=self.writer)
        self.handle = ConsumerHandle(LANE, "127.0.0.1:1", self.recorder)

    def rows(self) -> list[dict[str, Any]]:
        self.writer.close()
        return [row for file in (self.folder / "consumed").glob("*.parquet") for row in pq.read_table(file).to_pylist()]


def read(seq: int, *, partition: int = 0, offset: int | None = None, **more: Any) -> Message:
    identity = IdentityCodec("orders").encode(0, seq)
    where = seq if offset is None else offset
    reported = {"headers": [("trace", b"x"), (IDENTITY_HEADER, identity)], "value": b"mine", **more}
    return Message("orders-1", partition, where, **reported)


def drained(consuming: Consuming, *messages: Message, **configs: Any) -> list[tuple[str, int, int]]:
    client = consuming.handle.consumer(configs)
    client._client.messages = list(messages)
    for _ in messages:
        client.poll(0.1)
    return [(row["consumer"], row["offset"], row["seq"]) for row in consuming.rows()]


def test_reads_are_written_down_with_the_identity_of_the_header(recorded: Path) -> None:
    consuming = Consuming(recorded)
    rows = drained(consuming, read(0), read(1))
    assert [row[1:] for row in rows] == [(0, 0), (1, 1)]
    assert consuming.recorder.consumed == 2
    assert consuming.recorder.behind({0: 2, 1: 1}) == {1: (0, 1)}


def test_a_record_of_nobody_has_no_identity(recorded: Path) -> None:
    stranger = Message("orders-1", 0, 0, headers=None, value=b"who?")
    tombstone = Message("orders-1", 0, 1, headers=None, value=None)
    assert [row[2] for row in drained(Consuming(recorded), stranger, tombstone)] == [-1, -1]


def test_errors_and_other_topics_are_handed_on_and_not_written_down(recorded: Path) -> None:
    error = Message("orders-1", 0, 0, error=KafkaError(KafkaError._PARTITION_EOF))
    assert drained(Consuming(recorded), error, Message("audit", 0, 0, headers=None, value=b"x")) == []


def test_a_position_that_was_reset_begins_a_new_name(recorded: Path) -> None:
    rows = drained(Consuming(recorded), read(0), read(1), read(0))
    assert [row[0][-1] for row in rows] == ["1", "1", "2"]


def test_without_resets_going_back_keeps_its_name_and_can_be_judged(recorded: Path) -> None:
    rows = drained(Consuming(recorded), read(0), read(1), read(0), **{"auto.offset.reset": "error"})
    assert len({row[0] for row in rows}) == 1


def test_an_assignment_begins_a_new_name_and_the_application_hears_of_it(recorded: Path) -> None:
    consuming = Consuming(recorded)
    client = consuming.handle.consumer()
    heard: list[Any] = []
    client.subscribe(["orders-1"], on_assign=lambda consumer, partitions: heard.append((consumer, partitions)))
    for seq in (0, 1):
        client._client.on_assign(client._client, ["p"])
        client._client.messages = [read(seq)]
        client.poll(0.1)
    assert heard == [(client, ["p"])] * 2, "with the recorded consumer, not the one inside"
    assert len({row["consumer"] for row in consuming.rows()}) == 2


def test_poll_times_increase_over_all_clients(recorded: Path) -> None:
    consuming = Consuming(recorded)
    for seq in range(50):
        client = consuming.handle.consumer()
        client._client.messages = [read(seq)]
        client.poll(0.1)
    times = [row["poll_ns"] for row in consuming.rows()]
    assert times == sorted(set(times))


def test_a_function_that_raises_is_told_with_its_own_error() -> None:
    def broken() -> None:
        raise ValueError("no stock")

    thread = ApplicationThread(broken, what="the producer function of lane orders", over=threading.Event())
    thread.start()
    with pytest.raises(
        ClusterFailure, match="the producer function of lane orders raised ValueError: no stock"
    ) as reported:
        thread.end()
    assert isinstance(reported.value.__cause__, ValueError)


def test_a_function_that_does_not_return_is_told_what_to_do() -> None:
    stuck = threading.Event()
    thread = ApplicationThread(lambda: stuck.wait(30), what="the consumer function", over=threading.Event())
    thread.start()
    with pytest.raises(ClusterFailure, match=r"let it loop while handle\.running"):
        thread.end(timeout=0.05)
    stuck.set()
