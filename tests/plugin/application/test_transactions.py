"""The transactions of an application's recorded producer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from tests.plugin.application.producing import Producing

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
