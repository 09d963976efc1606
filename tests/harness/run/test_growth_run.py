"""Whole runs whose topics change under load: partitions are added, or replicas move; who sends, who reads, what is
collected, and how all of it is judged.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

GROWING = """\
name: growing
cluster: {CLUSTER}
workload: {rate: 300, duration: 14}
lanes:
  - {lane: plain, acks: "1", partitions: 2}
  - {lane: read, idempotence: true, min_insync_replicas: 2, group: {members: 2}}
schedule:
  - {fault: partition-growth, target: all, at: 3, add: 3, lane: plain}
  - {fault: partition-growth, target: broker:3, at: 3, add: 2, lane: read}
  - {fault: kill, target: broker:2, at: 7, duration: 3}
"""
MORE = """\
name: growing
cluster: {CLUSTER}
workload: {rate: 300, duration: 14}
lanes:
  - {lane: source, min_insync_replicas: 2}
  - {lane: transactions, transactional: {size: 10, abort: 0.1, producers: 2, timeout_ms: 10000}}
  - {lane: looped, loop: {source: source, offsets: after}}
schedule:
  - {fault: partition-growth, target: broker:3, at: 3, add: 2, lane: source}
  - {fault: partition-growth, target: "brokers:1,2", at: 4, add: 2, lane: transactions}
  - {fault: kill, target: broker:2, at: 7, duration: 3}
"""
CLUSTERS = {"zookeeper": "{}", "kraft": "{metadata_mode: kraft, kafka_version: 4.3.1}"}
PARTITIONS = {"plain": 5, "read": 3, "source": 3, "transactions": 3, "looped": 1}


def rows_of(run: Path, table: str, *columns: str) -> list[dict[str, Any]]:
    return pq.read_table(run / table, columns=["lane", "partition", *columns]).to_pylist()


@pytest.mark.parametrize("mode", CLUSTERS)
@pytest.mark.parametrize("text", [GROWING, MORE], ids=["plain", "transactions"])
def test_new_partitions_are_written_read_and_judged(text: str, mode: str, tmp_path: Path) -> None:
    experiment = parse_experiment(text.replace("{CLUSTER}", CLUSTERS[mode]), "growing.yaml")
    # A producer that is new to a partition may meet KAFKA-15591.
    result = run_experiment(experiment, root=tmp_path, accept_known=MODELLED_DEFECTS)
    assert result.verdict.outcome is Verdict.CONFORMS, [lane.reasons for lane in result.verdict.lanes]
    events = [json.loads(line) for line in (result.path / "events.jsonl").read_text().splitlines()]
    assert not [event for event in events if event["type"] == "fault_not_proven"]
    lanes = {spec.lane for spec in experiment.lane_specs}
    for table in ("produced", "log", "replicas", "consumed"):
        found = {(row["lane"], row["partition"]) for row in rows_of(result.path, table)}
        assert found == {(lane, number) for lane in lanes for number in range(PARTITIONS[lane])}, table
    log = {
        (row["lane"], row["producer_id"], row["seq"]): row["partition"]
        for row in rows_of(result.path, "log", "producer_id", "seq")
    }
    for row in rows_of(result.path, "produced", "producer_id", "seq"):
        identity = (row["lane"], row["producer_id"], row["seq"])
        assert log.get(identity, row["partition"]) == row["partition"], identity
    assigned = {(row["lane"], row["partition"]) for row in rows_of(result.path, "assignments")}
    grown = "read" if text == GROWING else "source"
    assert {number for lane, number in assigned if lane == grown} == {0, 1, 2}
    for lane in result.verdict.lanes:
        assert lane.ledger is not None
        assert all(one.end_reached for one in lane.ledger.partitions), lane.lane


MOVING = """\
name: moving
cluster: {CLUSTER}
workload: {rate: 500, duration: 24}
lanes:
  - {lane: acks1, acks: "1", partitions: 2, leader: 1}
  - {lane: idempotent, idempotence: true, min_insync_replicas: 2, leader: 2}
  - {lane: stays, replication_factor: 1, acks: all, leader: 4}
schedule:
  - {fault: kill, target: broker:1, at: 3, duration: 9}
  # Its replicas move while it is down: with ZooKeeper it comes back with files that are none any more.
  - {fault: reassignment, target: broker:1, at: 6, lane: acks1}
  - {fault: reassignment, target: leader(idempotent), at: 14, lane: idempotent}
  # It holds what has moved.
  - {fault: kill, target: broker:4, at: 18, duration: 3}
"""
FOUR_BROKERS = {"zookeeper": "{brokers: 4}", "kraft": "{brokers: 4, metadata_mode: kraft, kafka_version: 4.3.1}"}


@pytest.mark.parametrize("mode", FOUR_BROKERS)
def test_replicas_that_move_under_load_are_judged_where_they_are(mode: str, tmp_path: Path) -> None:
    experiment = parse_experiment(MOVING.replace("{CLUSTER}", FOUR_BROKERS[mode]), "moving.yaml")
    result = run_experiment(experiment, root=tmp_path)
    assert result.verdict.verdict is Verdict.CONFORMS, [lane.reasons for lane in result.verdict.lanes]
    events = [json.loads(line) for line in (result.path / "events.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events if event["type"] == "fault_requested"].count("reassignment") == 2
    assert not [event for event in events if event["type"] == "fault_not_proven"]
    brokers = json.loads((result.path / "checkpoints.json").read_text())["brokers"]
    held = {
        place: sorted(int(number) for number, stored in brokers.items() if place in stored)
        for place in ("acks1/0", "acks1/1", "idempotent/0", "stays/0")
    }
    assert held == {"acks1/0": [2, 3, 4], "acks1/1": [2, 3, 4], "idempotent/0": [1, 3, 4], "stays/0": [4]}
