"""Lanes of run directories become entries of the record of runs."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.harness.campaign.commands import EXPERIMENTS
from kafka_chaos.harness.campaign.in_turn import cluster_keys, load_for_cluster
from kafka_chaos.harness.campaign.record import LaneRun, lane_runs_of
from kafka_chaos.harness.cluster.containers.versions import VERSIONS
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from tests.harness.report.activity_runs import table
from tests.harness.report.report_runs import event, judged, lane, write

EXPERIMENT = """\
name: two
phases:
  - phase: main
    lanes: [{lane: orders, client: java 3.9.1}, {lane: bills, client: librdkafka}]
recorded: {run_id: a-run, versions: {librdkafka: 2.16.0}}
"""


def fault(kind: str, proven_ns: int | None = 5) -> dict[str, Any]:
    return {"fault_id": kind, "kind": kind, "requested_ns": 1, "proven_ns": proven_ns}


def of_run(path: Path) -> list[LaneRun]:
    return list(lane_runs_of(read_evidence(path)).values())


def run_of(path: Path, *faults: dict[str, Any], experiment: str | None = EXPERIMENT) -> Path:
    orders = judged(
        "orders",
        found={"lost_write": (7, "permitted")},
        predicted={"lost_write": "permitted", "duplicate": "required"},
        not_judged={"phantom": "there is no log"},
    )
    orders["ledger"] = {"faults": {"declared": [], "events": list(faults)}}
    lanes = [lane("orders", kafka_version="4.3.1", metadata_mode="kraft"), lane("bills")]
    started = event(0, "client_started", lane="orders", role="producer", client="java", version="3.9.1")
    return write(path, lanes, [orders, judged("bills")], experiment=experiment, events=[started])


def test_a_lane_has_its_client_cluster_settings_and_proven_faults(tmp_path: Path) -> None:
    faults = (fault("pause"), fault("kill", proven_ns=None), fault("lockstep"), fault("cut"))
    orders, bills = of_run(run_of(tmp_path / "a-run", *faults))
    assert (orders.client, orders.cluster, orders.settings) == ("java 3.9.1", "4.3.1/kraft", '{"acks":"1"}')
    assert (orders.faults, orders.declared) == ("cut+pause", "pause")
    assert (orders.run, orders.verdict, orders.records, orders.acknowledged) == ("a-run", "conforms", 100, 100)
    assert dict(orders.found) == {"lost_write": 7}
    assert (list(orders.predicted), list(orders.not_judged)) == (["lost_write", "duplicate"], ["phantom"])
    assert (bills.client, bills.cluster, bills.faults) == ("librdkafka 2.16.0", "3.9.1/zookeeper", "no fault")


def test_the_longest_gap_is_between_acknowledgements_of_all_files(tmp_path: Path) -> None:
    path = run_of(tmp_path / "a-run")
    seconds = [[1.0, 9.0], [2.5, None, 4.0]]
    for times in seconds:
        ends = [None if at is None else round(at * 1e9) for at in times]
        sent = {"lane": "orders", "producer_id": 0, "invoke_ns": 0, "outcome": "ok"}
        rows = [{**sent, "seq": number, "complete_ns": end} for number, end in enumerate(ends)]
        table(path, "produced", [*rows, {**sent, "seq": 9, "outcome": "fail", "complete_ns": 6_000_000_000}])
    orders, bills = of_run(path)
    assert orders.gap_s == 5.0
    assert bills.gap_s is None


DAY = date(2026, 11, 22)


def test_every_supported_cluster_has_its_day() -> None:
    month = [cluster_keys("turn", DAY + timedelta(days=day)) for day in range(31)]
    assert {(turn["kafka_version"], turn["metadata_mode"]) for turn in month} == {
        (one.number, mode) for one in VERSIONS.values() if one.has_idempotence for mode in one.modes
    }


@pytest.mark.parametrize("day", [0, 1, *(pytest.param(day, marks=pytest.mark.slow) for day in range(2, 31))])
def test_the_acks_matrix_is_valid_on_every_turn(day: int) -> None:
    turn = cluster_keys("turn", DAY + timedelta(days=day))
    experiment = load_for_cluster(turn, EXPERIMENTS / "kill.yaml", 1)
    assert experiment.cluster.kafka_version == turn["kafka_version"]
    assert experiment.cluster.metadata_mode == turn["metadata_mode"]
