"""A partition has one replica more while one moves: the model's answers are the same, but for refused lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.predict.cache import predict_cached

ZOOKEEPER = {"kafka_version": "3.9.1", "metadata_mode": "zookeeper"}
KRAFT = {"kafka_version": "4.3.1", "metadata_mode": "kraft"}


def lane(**keys: Any) -> Lane:
    return Lane(**{"lane": "orders", "replication_factor": 2, "faults": ("session-expiry",), **ZOOKEEPER, **keys})


def statuses(of: Lane) -> dict[Anomaly, Status]:
    return {anomaly: answer.status for anomaly, answer in predict_cached(of).anomalies.items()}


def with_one_more(of: Lane) -> Lane:
    return replace(of, replication_factor=of.replication_factor + 1)


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("mode", [ZOOKEEPER, KRAFT], ids=["zookeeper", "kraft"])
@pytest.mark.parametrize("client", [{"acks": "0"}, {"acks": "1"}, {}, {"idempotence": True}], ids=str)
def test_one_replica_more_changes_no_answer(client: dict[str, Any], mode: dict[str, str], unclean: bool) -> None:
    moved = lane(**client, **mode, unclean_leader_election=unclean)
    assert statuses(moved) == statuses(with_one_more(moved))


@pytest.mark.parametrize(
    "faults",
    [
        ("session-expiry", "kill"),
        pytest.param(("session-expiry", "session-expiry"), marks=pytest.mark.slow),
        pytest.param(("session-expiry", "power-loss"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_nor_does_it_beside_another_fault(faults: tuple[str, ...]) -> None:
    moved = lane(faults=faults, min_insync_replicas=2)
    assert statuses(moved) == statuses(with_one_more(moved))


@pytest.mark.parametrize(
    "refused",
    [{"replication_factor": 1, "acks": "1"}, {"min_insync_replicas": 2, "unclean_leader_election": True}],
    ids=str,
)
def test_it_would_in_lanes_that_are_refused(refused: dict[str, Any]) -> None:
    moved = lane(**refused)
    assert statuses(moved)[Anomaly.LOST_WRITE] is Status.FORBIDDEN
    assert statuses(with_one_more(moved))[Anomaly.LOST_WRITE] is Status.PERMITTED
