"""The state machine of records in flight, as brokers show it: no faults, so that each rule of KIP-932 holds exactly."""

from collections import defaultdict
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.run.runner import run_experiment
from tests.parquet import rows_in

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LIMIT, LOCK_MS = 3, 2_000
LANE = {"client": "java 4.2.2", "min_insync_replicas": 2, "idempotence": True, "partitions": 1}
EXPERIMENT: dict[str, Any] = {
    "name": "share-rules",
    "cluster": {"metadata_mode": "kraft", "kafka_version": "4.4.0", "brokers": 3},
    "workload": {"rate": 40, "duration": 20},
    "lanes": [
        {
            **LANE,
            "lane": "limited",
            "share": {"members": 2, "acknowledgement": "explicit", "release": 0.9, "delivery_limit": LIMIT},
        },
        {**LANE, "lane": "kept", "share": {"members": 2, "lock_ms": LOCK_MS, "freezes": 2}},
    ],
}
Deliveries = dict[tuple[int, int], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def by_place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Deliveries]:
    """By lane the deliveries of each record, in their order."""
    experiment = experiment_of(EXPERIMENT, "share-rules")
    result = run_experiment(experiment, root=tmp_path_factory.mktemp("runs"), engine=Engine.DUCKDB, report=False)
    reasons = {lane.lane: lane.reasons for lane in result.verdict.lanes}
    assert result.verdict.outcome == Verdict.CONFORMS, reasons
    deliveries: dict[str, Deliveries] = {lane["lane"]: defaultdict(list) for lane in EXPERIMENT["lanes"]}
    for row in sorted(rows_in(result.path / "deliveries"), key=lambda row: row["delivered_ns"]):
        deliveries[row["lane"]][row["producer_id"], row["seq"]].append(row)
    return deliveries


def test_a_record_is_delivered_until_it_is_accepted_or_the_limit_is_reached(by_place: dict[str, Deliveries]) -> None:
    """KIP-932: a released record is available again, its delivery count goes up, and at the limit it is archived."""
    for rows in by_place["limited"].values():
        assert [row["delivery_count"] for row in rows] == [*range(1, len(rows) + 1)], rows
        *before, last = rows
        assert {row["acknowledgement"] for row in before} <= {"release"}, rows
        assert last["acknowledgement"] == "accept" or len(rows) == LIMIT, rows
    ends = [rows[-1]["acknowledgement"] for rows in by_place["limited"].values() if len(rows) == LIMIT]
    assert {*ends} == {"accept", "release"}


def test_a_record_that_is_kept_past_its_lock_is_delivered_again(by_place: dict[str, Deliveries]) -> None:
    """KIP-932: after the acquisition lock, the record is available again.

    The late accept is refused, unless the group is past the record by then: such accepts have no effect, and no error.
    """
    again = [sorted(rows, key=lambda row: row["delivery_count"]) for rows in by_place["kept"].values() if len(rows) > 1]
    assert again
    for rows in again:
        assert [row["delivery_count"] for row in rows] == [*range(1, len(rows) + 1)], rows
        first, *others = rows
        assert all(row["delivered_ns"] >= first["asked_ns"] + LOCK_MS * 1_000_000 for row in others), rows
        assert (first["outcome"], first["error"]) in {("fail", "InvalidRecordStateException"), ("ok", None)}, rows
        assert any(row["outcome"] == "ok" for row in others), rows
