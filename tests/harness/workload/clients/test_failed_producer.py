"""A producer that has failed for good, as librdkafka does when a log has lost what an idempotent producer wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.workload.clients.outcome import Outcome, outcome_of_refusal, outcome_of_report
from kafka_chaos.harness.workload.lane_load import LaneLoad
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.tables import LoadTables
from tests.parquet import rows_in


class FailingClient:
    """A client that acknowledges nothing and raises `error`, once, when it is polled for the first time."""

    def __init__(self, error: KafkaError) -> None:
        self._error: KafkaError | None = error

    def produce(self, *_: object) -> None:
        if self._error is None:
            raise KafkaException(KafkaError(KafkaError._FATAL))

    def poll(self, timeout: float) -> int:
        error, self._error = self._error, None
        if error is not None:
            raise KafkaException(error)
        return 0

    def __len__(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is open."""


def loaded(tmp_path: Path, error: KafkaError, notices: list[str]) -> LaneLoad:
    """A lane whose producer fails with `error`, until its thread has ended."""
    lane = LaneSpec(lane="orders", idempotence=True)
    tables = LoadTables(tmp_path, [lane])
    load = LaneLoad(
        lane,
        LoadSettings(
            bootstrap_servers="127.0.0.1:1",
            workload=WorkloadSpec(rate=1_000, settle_timeout=0.1),
            tables=tables,
            on_notice=notices.append,
            on_change=print,
        ),
    )
    load.producer.producers[0].client = FailingClient(error)
    load.start()
    wait_until(lambda: not load._worker.is_alive(), "the lane's producer to end", timeout=10)
    load.consumers[0].close()
    tables.close()
    return load


def test_a_producer_that_failed_for_good_ends_its_lane_and_not_the_run(tmp_path: Path) -> None:
    notices: list[str] = []
    error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "the broker has lost its records", True)
    load = loaded(tmp_path, error, notices)
    load.raise_error()
    assert notices == ["orders: its producer has failed for good and sends no more: the broker has lost its records"]


def test_any_other_error_ends_the_run(tmp_path: Path) -> None:
    load = loaded(tmp_path, KafkaError(KafkaError._ALL_BROKERS_DOWN), [])
    with pytest.raises(KafkaException):
        load.raise_error()


class Acknowledged:
    """A record as a delivery report has it."""

    def __init__(self, value: bytes, offset: int | None) -> None:
        self._value = value
        self._offset = offset

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int | None:
        return self._offset


class Client:
    """Acknowledges everything when it is polled, every other record without its offset."""

    def __init__(self) -> None:
        self._sent: list[tuple[bytes, Callable[..., None]]] = []
        self.acknowledged = 0

    def produce(self, topic: str, value: bytes, key: None, partition: int, delivered: Callable[..., None]) -> None:
        self._sent.append((value, delivered))

    def poll(self, timeout: float) -> int:
        sent, self._sent = self._sent, []
        for value, delivered in sent:
            delivered(None, Acknowledged(value, None if self.acknowledged % 2 else self.acknowledged))
            self.acknowledged += 1
        return len(sent)

    def __len__(self) -> int:
        return len(self._sent)

    def close(self) -> None:
        """Nothing is open."""


def test_a_record_that_is_acknowledged_without_its_offset_is_a_row_without_one(tmp_path: Path) -> None:
    lane = LaneSpec(lane="orders", idempotence=True)
    tables = LoadTables(tmp_path, [lane])
    settings = LoadSettings(
        bootstrap_servers="127.0.0.1:1",
        workload=WorkloadSpec(rate=1_000, settle_timeout=0.1),
        tables=tables,
        on_notice=print,
        on_change=print,
    )
    load = LaneLoad(lane, settings)
    client = Client()
    load.producer.producers[0].client = client
    load.start()
    wait_until(lambda: client.acknowledged >= 4, "some records", timeout=10)
    load.stop_sending()
    load.await_outcomes()
    load.consumers[0].close()
    tables.close()
    produced = sorted(rows_in(tmp_path / "produced"), key=lambda row: row["seq"])
    assert len(produced) == client.acknowledged
    assert {row["outcome"] for row in produced} == {"ok"}
    assert [row["offset"] for row in produced] == [None if seq % 2 else seq for seq in range(len(produced))]


REFUSED = [
    "INVALID_MSG_SIZE", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP",
    "TOPIC_EXCEPTION", "POLICY_VIOLATION", "INVALID_REQUIRED_ACKS", "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "INVALID_CONFIG", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "NOT_ENOUGH_REPLICAS",
    "NOT_LEADER_FOR_PARTITION", "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE",
]  # fmt: skip


@pytest.mark.parametrize("retries", [True, False])
def test_success_is_ok(retries: bool) -> None:
    assert outcome_of_report(None, retries=retries) is Outcome.OK


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_before_the_append_is_certain_only_without_retries(name: str) -> None:
    code = getattr(KafkaError, name)
    assert outcome_of_report(code, retries=False) is Outcome.FAIL
    assert outcome_of_report(code, retries=True) is Outcome.INFO


def test_every_other_error_is_info() -> None:
    names = [name for name in dir(KafkaError) if name.isupper() and isinstance(getattr(KafkaError, name), int)]
    others = [name for name in names if name not in {*REFUSED, "NO_ERROR", "_NO_ERROR"}]
    assert len(others) > 100
    assert {outcome_of_report(getattr(KafkaError, name), retries=True) for name in others} == {Outcome.INFO}
    outcomes = {outcome_of_report(getattr(KafkaError, name), retries=False) for name in others}
    assert outcomes <= {Outcome.INFO, Outcome.FAIL}
    failing = {name for name in others if outcome_of_report(getattr(KafkaError, name), retries=False) is Outcome.FAIL}
    assert {getattr(KafkaError, name) for name in failing} <= {getattr(KafkaError, name) for name in REFUSED}


def test_what_produce_refuses_never_entered_the_queue() -> None:
    assert outcome_of_refusal() is Outcome.FAIL
