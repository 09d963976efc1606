"""A whole run whose replicas move under load: what is collected, and that the prediction holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.runner import run_experiment

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

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
CLUSTERS = {"zookeeper": "{brokers: 4}", "kraft": "{brokers: 4, metadata_mode: kraft, kafka_version: 4.3.1}"}


@pytest.mark.parametrize("mode", CLUSTERS)
def test_replicas_that_move_under_load_are_judged_where_they_are(mode: str, tmp_path: Path) -> None:
    experiment = parse_experiment(MOVING.replace("{CLUSTER}", CLUSTERS[mode]), "moving.yaml")
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
    assert held == {
        "acks1/0": [2, 3, 4],
        "acks1/1": [2, 3, 4],
        "idempotent/0": [1, 3, 4],
        "stays/0": [4],
    }
