"""A producer that has failed for good, as librdkafka does when a log has lost what an idempotent producer wrote."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.clients.outcome import Outcome, outcome_of
from kafka_chaos.harness.workload.lane_load import LaneClients, LaneLoad
from tests.harness.workload.loads import load_of
from tests.harness.workload.transactions.fakes import FakeProducer


def loaded(tmp_path: Path, error: KafkaError, notices: list[str]) -> LaneLoad:
    """A lane whose producer fails with `error`, until its thread has ended."""
    lane = LaneSpec(lane="orders", idempotence=True)
    settings = load_of(tmp_path, lane, on_notice=notices.append)
    load = LaneLoad(LaneClients(lane, settings))
    load.producer.producers[0].client = FakeProducer({}, {"poll": [error]}, [], silent=True)
    load.start()
    wait_until(lambda: not load._worker.is_alive(), "the lane's producer to end", timeout=10)
    load.consumers[0].close()
    settings.tables.close()
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


REFUSED = [
    "INVALID_MSG_SIZE", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP",
    "TOPIC_EXCEPTION", "POLICY_VIOLATION", "INVALID_REQUIRED_ACKS", "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "INVALID_CONFIG", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "NOT_ENOUGH_REPLICAS",
    "NOT_LEADER_FOR_PARTITION", "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_before_the_append_is_certain_only_without_retries(name: str) -> None:
    error = KafkaError(getattr(KafkaError, name))
    assert outcome_of(error, may_retry=False) == (Outcome.FAIL, name)
    assert outcome_of(error, may_retry=True) == (Outcome.INFO, name)


def test_every_other_error_is_info() -> None:
    names = [name for name in dir(KafkaError) if name.isupper() and isinstance(getattr(KafkaError, name), int)]
    refused = {getattr(KafkaError, name) for name in REFUSED}
    others = {getattr(KafkaError, name) for name in names} - {*refused, KafkaError.NO_ERROR}
    assert len(others) > 100
    for retries in (True, False):
        assert {outcome_of(KafkaError(code), may_retry=retries)[0] for code in others} == {Outcome.INFO}
