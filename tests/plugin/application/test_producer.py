"""The recorded producer of an application: what is written down of what it sends."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import CallNoted
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IDENTITY_HEADER, IdentityCodec
from kafka_chaos.harness.workload.calls import Calls
from tests.parquet import rows_in
from tests.plugin.application.producing import Producing


def test_a_record_keeps_what_is_the_application_s_and_gets_an_identity(recorded: Path) -> None:
    reported: list[Any] = []
    producing = Producing(recorded)
    client = producing.handle.producer()
    client.produce(
        "orders-1",
        b"value",
        b"key\xff",
        on_delivery=lambda error, message: reported.append(message.offset()),
        headers={"a": "b"},
    )
    fake = client._client
    topic, value, key, options = fake.queue[0]
    assert (topic, value, key) == ("orders-1", b"value", b"key\xff")
    (own, identity) = options["headers"]
    assert own == ("a", "b")
    assert identity[0] == IDENTITY_HEADER
    assert IdentityCodec("orders").decode(identity[1]) == (0, 0)
    fake.deliver(0, partition=1, offset=17)
    assert reported == [17], "the application's own callback is called"
    (row,) = producing.rows()
    assert (row["outcome"], row["partition"], row["offset"], row["error"]) == ("ok", 1, 17, None)
    assert (row["key"], row["tombstone"], row["complete_ns"] >= row["invoke_ns"]) == ("keyÿ", 0, True)
    assert (producing.recorder.sent, producing.recorder.acknowledged) == (1, 1)


def test_records_to_other_topics_pass_unrecorded(recorded: Path) -> None:
    producing = Producing(recorded)
    client = producing.handle.producer()
    client.produce("audit", b"x", headers=[("a", b"b")])
    assert client._client.queue[0][3]["headers"] == [("a", b"b")]
    client._client.queue.clear()
    assert producing.rows() == []


def test_a_record_that_the_client_refused_is_fail_and_one_that_found_the_queue_full_never_was(recorded: Path) -> None:
    producing = Producing(recorded)
    client = producing.handle.producer()
    client._client.refusal = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(KafkaException):
        client.produce("orders-1", b"x")
    client._client.refusal = BufferError("full")
    with pytest.raises(BufferError):
        client.produce("orders-1", b"y")
    client._client.refusal = TypeError("no bytes")
    with pytest.raises(TypeError):
        client.produce("orders-1", b"y", partition=1)
    client._client.refusal = None
    client.produce("orders-1", b"z")
    client.produce("orders-1", b"z")
    client._client.deliver(1, offset=5)
    rows = [(row["seq"], row["outcome"], row["partition"]) for row in producing.rows()]
    assert rows == [(0, "fail", None), (1, "info", None), (2, "ok", 0)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"acks": 1}, "acks: the lane orders has acks=all, and the prediction holds only for that"),
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


def transactions_of(producing: Producing) -> list[tuple[Any, ...]]:
    columns = ("producer_id", "transaction", "transactional_id", "outcome", "error")
    return [tuple(row[name] for name in columns) for row in rows_in(producing.folder / "transactions")]


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
        (0, 0, "app", "committed", None), (0, 1, "app", "aborted", None), (0, 2, "app", "committed", None),
    ]  # fmt: skip
    assert client._client.calls == [
        *("init 3", "begin", "send offsets", "commit 5", "begin", "send offsets", "abort 5", "begin", "commit -1")
    ]
    assert client._client.closed
    kept = rows_in(recorded / "transactions")
    assert max(row["initialised_ns"] for row in kept) < min(row["begin_ns"] for row in kept)


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


@pytest.mark.parametrize(
    "call", ["init_transactions", "begin_transaction", "commit_transaction", "abort_transaction", "flush"]
)
def test_a_call_of_an_application_that_takes_long_is_told_of(recorded: Path, call: str) -> None:
    noted: list[CallNoted] = []
    calls = Calls(noted.append, seconds=0.1)
    calls.start()
    client = Producing(recorded, PAYING, calls=calls).handle.producer({"transactional.id": "app"})
    told_while_it_took: list[str] = []

    def takes_long(*_: object) -> int:
        wait_until(lambda: bool(noted), "the call to be told of", timeout=20)
        told_while_it_took.extend(one.call for one in noted if one.ended_ns is None)
        return 0

    setattr(client._client, call, takes_long)
    getattr(client, call)()
    calls.close()
    assert told_while_it_took == [call]
    assert [(one.lane, one.client, one.call) for one in noted] == [("orders", "orders-0", call)] * 2
    assert noted[-1].ended_ns is not None
