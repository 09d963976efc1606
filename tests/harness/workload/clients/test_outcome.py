"""The outcome table, row by row, compared with a copy of the table in the docstring."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kafka_chaos.harness.workload.clients.outcome import Outcome, outcome_of_refusal, outcome_of_report

REFUSED = [
    "INVALID_MSG_SIZE", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP",
    "TOPIC_EXCEPTION", "POLICY_VIOLATION", "INVALID_REQUIRED_ACKS", "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "INVALID_CONFIG", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "NOT_ENOUGH_REPLICAS",
    "NOT_LEADER_FOR_PARTITION", "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE",
]  # fmt: skip
UNCERTAIN = [
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "DUPLICATE_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH", "_MSG_TIMED_OUT", "_TRANSPORT",
    "_TIMED_OUT", "_PURGE_INFLIGHT", "_PURGE_QUEUE", "_FATAL", "_GAPLESS_GUARANTEE", "UNKNOWN", "KAFKA_STORAGE_ERROR",
]  # fmt: skip


@pytest.mark.parametrize("retries", [True, False])
def test_success_is_ok(retries: bool) -> None:
    assert outcome_of_report(None, retries=retries) is Outcome.OK


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_before_the_append_is_certain_only_without_retries(name: str) -> None:
    code = getattr(KafkaError, name)
    assert outcome_of_report(code, retries=False) is Outcome.FAIL
    assert outcome_of_report(code, retries=True) is Outcome.INFO


@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize("name", UNCERTAIN)
def test_what_may_have_been_appended_is_never_a_failure(name: str, retries: bool) -> None:
    assert outcome_of_report(getattr(KafkaError, name), retries=retries) is Outcome.INFO


def test_every_other_error_is_info() -> None:
    names = [name for name in dir(KafkaError) if name.isupper() and isinstance(getattr(KafkaError, name), int)]
    others = [name for name in names if name not in {*REFUSED, "NO_ERROR", "_NO_ERROR"}]
    assert len(others) > 100
    outcomes = {outcome_of_report(getattr(KafkaError, name), retries=False) for name in others}
    assert outcomes <= {Outcome.INFO, Outcome.FAIL}
    failing = {name for name in others if outcome_of_report(getattr(KafkaError, name), retries=False) is Outcome.FAIL}
    assert {getattr(KafkaError, name) for name in failing} <= {getattr(KafkaError, name) for name in REFUSED}


def test_what_produce_refuses_never_entered_the_queue() -> None:
    assert outcome_of_refusal() is Outcome.FAIL
