"""The precondition of a known defect, as a producer's own log tells it."""

import ctypes
import runpy
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.events import AcknowledgedWithoutOffset, Event
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.producer import ApplicationProducers
from kafka_chaos.harness.workload.clients.defect_watch import ReadLine, log_reader, with_log_reader
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer, RecordedProducer
from kafka_chaos.harness.workload.lane_load import LaneClients
from kafka_chaos.harness.workload.process_clients import ProcessProducer
from kafka_chaos.harness.workload.tables import LoadTables
from tests.harness.workload.loads import adapter, load_of

REPORT = runpy.run_path(str(Path(__file__).parents[4] / "docs/reports/implicit_acknowledgement.py"))
"""The program of the report, which has a broker refuse the first request."""
PRODUCE, NO_ERROR = REPORT["PRODUCE"], 0
REQUEST_TIMED_OUT, DUPLICATE_SEQUENCE_NUMBER = 7, 46
IDEMPOTENT_LANE = Lane(lane="a", topic="t", idempotence=True)
IDEMPOTENT = {"enable.idempotence": True, "log_level": 0}
DRAIN = "[thrd:x]: Beginning partition drain in state Assigned for PID{Id:1,Epoch:0} epoch bump for 1 partition(s) "
TIMED_OUT = f"{DRAIN}with in-flight requests: 250 message(s) timed out on t [0]"
IMPLIED = (
    "[thrd:127.0.0.1:1/1]: 127.0.0.1:1/1: {} message(s) implicitly acked by subsequent batch success "
    "(msgids {}, last acked 21)"
)

DUPLICATE = (
    "[thrd:127.0.0.1:1/1]: 127.0.0.1:1/1: ProduceRequest for {} message(s) failed due to duplicate sequence number: "
    "previous send succeeded but was not acknowledged (PID{{Id:1,Epoch:0}}, base seq 0): marking the messages persisted"
)

# librdkafka's own mock cluster.
FAST = {**IDEMPOTENT, "bootstrap.servers": "mock", "test.mock.num.brokers": 1, "acks": "all"}


def told_by(*lines: str, **more: Any) -> list[Any]:
    told: list[Event] = []
    read_line = log_reader(IDEMPOTENT_LANE, {**IDEMPOTENT, **more}, told.append, producer_id=3)
    logger: Any = with_log_reader(IDEMPOTENT, read_line)["logger"]
    for line in lines:
        logger.debug("DRAIN %s", line)
    return told


RENEWED, LOST = ("librdkafka-4953", None, None), "KAFKA-15591"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        # A record of the second renewal was not sent yet when the first one came.
        (["Acquired PID{Id:1,Epoch:0}", TIMED_OUT, TIMED_OUT], [RENEWED, RENEWED]),
        (
            [IMPLIED.format("t [0] 1", "1..1"), IMPLIED.format("t [3] 20", "1..20"), TIMED_OUT],
            [(LOST, 0, 1), (LOST, 3, 20), RENEWED],
        ),
        # Of a producer that brokers know, and with a gap: acknowledged without an offset, which is no defect.
        ([IMPLIED.format("t [2] 3", "4..6")], [(None, 2, 3)]),
        ([IMPLIED.format("t [2] 2", "1..3")], [(None, 2, 2)]),
        ([IMPLIED.format("t [2] 1", "1..11")], [(None, 2, 1)]),
        ([DUPLICATE.format("t [2] with 5")], [(None, 2, 5)]),
        ([IMPLIED.format("other-t [0] 1", "1..1"), DUPLICATE.format("other-t [0] with 1")], []),
        (
            [
                f"{DRAIN}with in-flight requests: unknown producer id",
                "t [0] beginning partition drain: drain before retrying",
                "250 message(s) timed out on t [0]",
                "All partitions drained, bumped epoch to PID{Id:1,Epoch:1}",
            ],
            [],
        ),
    ],
)
def test_lines_of_librdkafka_tell_of_defects_and_of_acknowledgements_without_an_offset(
    lines: list[str], told: list[tuple[str | None, int | None, int | None]]
) -> None:
    events = told_by(*lines)
    assert {(event.lane, event.producer_id) for event in events} <= {("a", 3)}
    assert [(getattr(event, "defect", None), event.partition, event.messages) for event in events] == told


def test_what_is_told_names_its_evidence() -> None:
    implied, renewed = told_by(IMPLIED.format("t [0] 1", "1..1"), TIMED_OUT)
    assert renewed.evidence == "librdkafka renews the producer epoch: 250 message(s) timed out on t [0]"
    assert implied.evidence == (
        "librdkafka: t [0] 1 message(s) implicitly acked by subsequent batch success (msgids 1..1, last acked 21)"
    )


def test_a_transactional_producer_tells_of_acknowledgements_without_an_offset_alone() -> None:
    lines = IMPLIED.format("t [0] 1", "1..1"), DUPLICATE.format("t [2] with 5"), TIMED_OUT
    events = told_by(*lines, **{"transactional.id": "x"})
    assert [(type(event), event.partition, event.messages) for event in events] == [
        (AcknowledgedWithoutOffset, 0, 1),
        (AcknowledgedWithoutOffset, 2, 5),
    ]


@pytest.mark.parametrize(
    "configs",
    [{"log_level": 0}, {**IDEMPOTENT, "enable.idempotence": False}, {**IDEMPOTENT, "debug": "msg"}],
    ids=["plain", "not idempotent", "an application's own log"],
)
def test_other_producers_are_left_alone(configs: dict[str, object]) -> None:
    assert log_reader(IDEMPOTENT_LANE, configs, lambda _: None, producer_id=0) is None


FLUSHING = "producer/leader/t/2 state change to [flushing-1]"
RETRYING = FLUSHING.replace("flushing", "retrying")
REPEATED = "[Producer] Failed to send messages: Connection error: read ECONNRESET"
EXPIRED = "KafkaTimeoutError: Expiring 10 record(s) for t-0: 10007 ms has passed since batch creation"
OF_PYTHON = {"client": "kafka-python", "transactional": Transactional()}


@pytest.mark.parametrize(
    ("lane", "line", "told"),
    [
        ({"client": "sarama 1.43.3"}, FLUSHING, ("sarama-3354", 2, f"sarama: {FLUSHING}")),
        ({"client": "sarama 1.43.3"}, FLUSHING.replace("/t/", "/other/"), None),
        ({"client": "sarama 1.43.3"}, RETRYING, ("sarama-2619", 2, f"sarama: {RETRYING}")),
        ({"client": "sarama 1.43.3"}, FLUSHING.replace("flushing-1", "normal"), None),
        ({"client": "kafkajs 2.2.4"}, REPEATED, ("kafkajs-1005", None, f"kafkajs: {REPEATED[11:]}")),
        ({"client": "kafkajs 2.2.4", "acks": "0", "idempotence": False}, REPEATED, ("kafkajs-822", None, None)),
        ({"client": "kafkajs 2.2.4"}, REPEATED.replace("Producer", "Connection"), None),
        (OF_PYTHON, EXPIRED, ("KAFKA-5385", None, f"kafka-python: {EXPIRED[19:]}")),
        (OF_PYTHON, EXPIRED[19:], None),
    ],
)
def test_other_clients_tell_of_repetitions_each_time(
    lane: dict[str, Any], line: str, told: tuple[str, int | None, str | None] | None
) -> None:
    events: list[Any] = []
    read_line = log_reader(replace(IDEMPOTENT_LANE, **lane), {}, events.append, producer_id=3)
    assert read_line is not None
    read_line(line)
    read_line(line)
    assert len(events) == (2 if told else 0)
    for event in events:
        assert told is not None
        assert (event.lane, event.producer_id, event.defect, event.partition) == ("a", 3, *told[:2])
        assert told[2] in (event.evidence, None)


@pytest.mark.parametrize("client", ["java 3.9.1", "franz-go", "kafkajs 2.2.4"])
def test_nothing_is_read_of_a_client_without_such_a_defect(client: str) -> None:
    lane = replace(IDEMPOTENT_LANE, client=client, max_in_flight=1)
    assert log_reader(lane, IDEMPOTENT, lambda _: None, producer_id=0) is None


Sending = Callable[[Path, dict[str, Any], float], list[Any]]


def send_by(made: Callable[[ProducedRows, dict[str, Any], ReadLine | None], LaneProducer]) -> Sending:
    """Sends by the driver that this makes, until the log has told something and a record has its outcome."""

    def send(folder: Path, configs: dict[str, Any], seconds: float) -> list[Any]:
        told: list[Any] = []
        tables = LoadTables(folder)
        read_line = log_reader(Lane(lane="a", topic="a"), configs, told.append, producer_id=0)
        producer = made(ProducedRows(tables, lane="a", producer_id=0, partitions=RoundRobin(1)), configs, read_line)
        end = time.monotonic() + seconds
        # The line of a log comes before the outcome of the record that it is about.
        while time.monotonic() < end and not (told and producer.unanswered < producer.sent):
            producer.send(10)
            producer.poll(0.02)
        assert producer.failed_for_good == ""
        gone = threading.Event()
        gone.set()
        producer.finish(0.1, gone)
        tables.close()
        return told

    return send


def in_process(rows: ProducedRows, configs: dict[str, Any], read_line: ReadLine | None) -> LaneProducer:
    return RecordedProducer(rows, topic="a", record_size=100, configs=with_log_reader(configs, read_line))


def in_a_process(rows: ProducedRows, configs: dict[str, Any], read_line: ReadLine | None) -> LaneProducer:
    more = {"partitions": 1, "configs": configs, "log": True}
    return ProcessProducer(adapter("producer", "a", configs["bootstrap.servers"], **more), rows, read_line=read_line)


def send_from_application(folder: Path, configs: dict[str, Any], seconds: float) -> list[Any]:
    told: list[Any] = []
    lane = LaneSpec(lane="a")
    load = load_of(folder, lane, emit=told.append)
    recorder = ApplicationProducers(lane, load)
    client = recorder.client(configs)
    end = time.monotonic() + seconds
    # The line of a log comes before the outcome of the record that it is about.
    outcomes: list[object] = []
    while time.monotonic() < end and not (told and outcomes):
        client.produce("a", b"value", on_delivery=lambda *outcome: outcomes.append(outcome))
        client.poll(0.02)
    recorder.finish(0.1, threading.Event())
    load.tables.close()
    return told


SENDERS = pytest.mark.parametrize(
    "sending",
    [
        pytest.param(send_by(in_process), id="in process"),
        send_from_application,
        pytest.param(send_by(in_a_process), id="process"),
    ],
)


def broker(*answers: tuple[int, int]) -> str:
    """A mock broker that gives these answers to its first Produce requests: an error, after so many milliseconds."""
    library, error = REPORT["librdkafka"](), ctypes.create_string_buffer(512)
    owner = library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), error, 512)
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(owner), 1))
    library.rd_kafka_mock_topic_create(cluster, b"a", 1, 1)
    for answer in answers:
        library.rd_kafka_mock_broker_push_request_error_rtts(cluster, 1, PRODUCE, ctypes.c_size_t(1), *answer)
    return library.rd_kafka_mock_cluster_bootstraps(cluster).decode()


@SENDERS
def test_librdkafka_itself_tells_of_a_time_out(tmp_path: Path, sending: Sending) -> None:
    slow = {"acks": "all", "request.timeout.ms": 1000, "message.timeout.ms": 1500}
    events = sending(tmp_path, {**IDEMPOTENT, **slow, "bootstrap.servers": broker((NO_ERROR, 10_000))}, 30)
    assert {(event.lane, event.defect) for event in events} == {("a", "librdkafka-4953")}
    assert all("message(s) timed out on a [" in event.evidence for event in events)


@SENDERS
def test_librdkafka_itself_tells_of_an_implicit_acknowledgement(tmp_path: Path, sending: Sending) -> None:
    """The lost records are in the history, acknowledged without an offset."""
    bootstrap = REPORT["mock_cluster"](REPORT["librdkafka"](), b"a")
    one_each = {"bootstrap.servers": bootstrap, "batch.num.messages": 1, "linger.ms": 0, "retry.backoff.ms": 1000}
    (event,) = sending(tmp_path, {**IDEMPOTENT, "acks": "all", **one_each}, 30)
    assert (event.defect, event.lane, event.partition, event.messages) == ("KAFKA-15591", "a", 0, 1)
    rows = pq.read_table(tmp_path / "produced").to_pylist()
    unplaced = [(row["seq"], row["partition"]) for row in rows if row["outcome"] == "ok" and row["offset"] is None]
    assert unplaced == [(0, 0)]


@pytest.mark.parametrize("error", [REQUEST_TIMED_OUT, DUPLICATE_SEQUENCE_NUMBER])
def test_librdkafka_itself_tells_of_each_acknowledgement_without_an_offset(tmp_path: Path, error: int) -> None:
    """The second request of a partition is not answered in time, and the third one is; or a retry was there already."""
    bootstrap = broker((NO_ERROR, 200), (error, 200), (NO_ERROR, 200))
    one_each = {"bootstrap.servers": bootstrap, "batch.num.messages": 1, "linger.ms": 0, "retry.backoff.ms": 1000}
    (event,) = send_by(in_process)(tmp_path, {**IDEMPOTENT, "acks": "all", **one_each}, 30)
    assert isinstance(event, AcknowledgedWithoutOffset)
    assert (event.lane, event.partition, event.messages) == ("a", 0, 1)
    rows = pq.read_table(tmp_path / "produced").to_pylist()
    assert [row["seq"] for row in rows if row["outcome"] == "ok" and row["offset"] is None] == [1]


@SENDERS
def test_a_producer_without_time_outs_tells_nothing(tmp_path: Path, sending: Sending) -> None:
    assert sending(tmp_path, FAST, 0.5) == []


def test_a_lane_s_transactional_producer_is_read_as_well(tmp_path: Path) -> None:
    told: list[Any] = []
    bootstrap = broker((DUPLICATE_SEQUENCE_NUMBER, 200))
    lane = LaneSpec.model_validate({"lane": "a", "idempotence": True, "transactional": {"timeout_ms": 20_000}})
    load = load_of(tmp_path, lane, emit=told.append, bootstrap_servers=bootstrap)
    producer: Any = LaneClients(lane, load)._producer(0, 0, "a-0")
    producer.client.init_transactions(20)
    producer.client.begin_transaction()
    producer.send(1)
    end = time.monotonic() + 20
    while time.monotonic() < end and not told:
        producer.poll(0.02)
    (event,) = told
    assert isinstance(event, AcknowledgedWithoutOffset)
    assert (event.lane, event.partition, event.messages) == ("a", 0, 1)
    producer.client.abort_transaction(20)
    producer.finish(0.1, threading.Event())
    load.tables.close()
