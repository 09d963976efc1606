"""A whole run with links: the fault is proven, the trace is there, and the report draws it."""

from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.report.inputs.trace import read_trace
from kafka_chaos.harness.run.runner import run_experiment
from tests.clusters import needs_links
from tests.harness.leftovers import left_of
from tests.harness.run.test_whole_runs import events_of

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, needs_links]

CUT = """
name: one-request
workload: {rate: 200, duration: 6}
lanes:
  - {lane: orders, acks: "1", leader: 1}
  - {lane: safe, acks: all, min_insync_replicas: 2, idempotence: true, leader: 1}
schedule:
  - {fault: cut, target: "broker:1", at: 1, duration: 3, api: Produce, side: response, sender: clients}
"""


def test_a_lost_answer_duplicates_where_nothing_forbids_it_and_nowhere_else(tmp_path: Path) -> None:
    result = run_experiment(parse_experiment(CUT, "cut.yaml"), root=tmp_path)
    assert result.verdict.verdict is Verdict.CONFORMS, [lane.reasons for lane in result.verdict.lanes]
    (duplicated,) = [lane for lane in result.verdict.lanes if Anomaly.DUPLICATE in lane.observed]
    assert duplicated.lane == "orders"
    assert duplicated.observed[Anomaly.DUPLICATE].count > 0
    (proven,) = [event for event in events_of(result.path) if event["type"] == "fault_proven"]
    assert proven["evidence"]["broker-1"]["frames"] >= 1
    cut = [traced for traced in read_trace(result.path) if traced.fault is not None]
    assert {(traced.api, traced.node, traced.sender) for traced in cut} == {("Produce", "broker-1", "clients")}
    assert {topic for traced in cut for topic, _ in traced.partitions} == {"orders", "safe"}
    assert all(traced.answered_at is not None for traced in cut)
    assert {traced.sender for traced in read_trace(result.path)} > {"broker-2", "broker-3"}
    assert "Requests that faults hit" in (result.path / "report.html").read_text(encoding="utf-8")
    assert left_of(result.path.name) == []
