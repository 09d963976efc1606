"""Transactions of a lane: read, written back, and refused where no producer could have them."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.errors import LaneError
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import Transactional, TransactionAnomaly

ENTRY = {"lane": "transfers", "idempotence": True, "transactional": {"size": 5, "abort": 0.25, "producers": 2}}


def test_transactions_of_a_lane_are_read_and_written_back() -> None:
    lane = Lane.from_json(ENTRY)
    assert lane.transactional == Transactional(size=5, abort=0.25, producers=2)
    assert Lane.from_json(lane.to_json()) == lane
    assert "transactional" not in Lane(lane="plain").to_json()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"size": 0}, "transactional.size: 0 is not valid: expected a whole number of at least 1"),
        ({"producers": True}, "transactional.producers: true is not valid"),
        ({"abort": 1.5}, "transactional.abort: 1.5 is not valid: expected a share from 0 to 1"),
        ({"sise": 5}, "transactional.sise: 5 is not valid: expected no such key; the keys are size, abort"),
        ([5], r"transactional: \[5\] is not valid: expected a mapping of size"),
    ],
)
def test_wrong_settings_are_refused_by_name(entry: Any, message: str) -> None:
    with pytest.raises(LaneError, match=message):
        Lane.from_json({**ENTRY, "transactional": entry})


def test_transactions_need_idempotence() -> None:
    with pytest.raises(LaneError, match="idempotence: false is not valid: expected true with transactions"):
        Lane.from_json({**ENTRY, "idempotence": False})


def test_the_anomalies_of_transactions_are_looked_for_where_there_are_some() -> None:
    assert Lane.from_json(ENTRY).anomalies == (*Anomaly, *TransactionAnomaly)
    assert Lane(lane="a").anomalies == tuple(Anomaly)
