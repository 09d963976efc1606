"""Whole runs on clusters of their own: what their events say, and what is left of one that is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.runner import run_experiment
from tests.harness.leftovers import left_of
from tests.harness.signals import NOT_IGNORING

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SMALL = Path(__file__).with_name("small.yaml")
COMMAND = [sys.executable, "-m", "kafka_chaos.harness.cli.main"]
SECOND_NS = 1_000_000_000


def events_of(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


KILLED = """\
name: killed
# Where the controller dies with the leader, its successor leaves all partitions without a leader for an epoch.
cluster: {controller: 3}
workload: {rate: 300, duration: 6}
lanes:
  - {lane: alone, acks: "1", replication_factor: 1, leader: 2}
  - {lane: safe, acks: all, min_insync_replicas: 2, idempotence: true, leader: 2, partitions: 2}
schedule:
  - {fault: kill, target: leader(alone), at: 1, duration: 2}
"""


@pytest.mark.slow
def test_elections_and_high_watermarks_of_a_run(tmp_path: Path) -> None:
    """A leader is killed: the partition that it alone holds is without a leader for an epoch."""
    result = run_experiment(parse_experiment(KILLED, "killed.yaml"), root=tmp_path)
    assert result.verdict.verdict is Verdict.CONFORMS, [lane.reasons for lane in result.verdict.lanes]
    events = events_of(result.path)

    epochs: dict[tuple[str, int], list[int]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["ts_ns"]):
        if event["type"] in {"leader_elected", "partition_offline"}:
            epochs[event["lane"], event["partition"]].append(event["leader_epoch"])
    assert set(epochs) == {("alone", 0), ("safe", 0), ("safe", 1)}
    offline = [(event["lane"], event["leader_epoch"]) for event in events if event["type"] == "partition_offline"]
    assert offline == [("alone", 1)]
    for place, found in epochs.items():
        assert found == list(range(len(found))), f"{place}: the brokers' logs show every epoch, in order"

    # Clients see a change of leaders about when the elected broker logs it. The controller tells all brokers at the
    # same moment: another may answer clients before one that has just started handles its LeaderAndIsr request.
    (requested,) = [event for event in events if event["type"] == "fault_requested"]
    changes = [event for event in events if event["type"] == "leader_changed" and event["ts_ns"] > requested["ts_ns"]]
    assert len(changes) >= 3
    for change in [change for change in changes if change["leader"] is not None]:
        elected = [
            event["ts_ns"]
            for event in events
            if event["type"] == "leader_elected"
            and (event["lane"], event["partition"], event["broker"])
            == (change["lane"], change["partition"], change["leader"])
        ]
        assert [ns for ns in elected if requested["ts_ns"] < ns < change["ts_ns"] + 3 * SECOND_NS]

    reports = [event for event in events if event["type"] == "high_watermark"]
    assert {(event["lane"], event["partition"]) for event in reports} == set(epochs)
    steps = [event["text"] for event in events if event["type"] == "step"]
    assert f"settled; the brokers reported {len(reports):,} high watermarks" in steps
    per_partition = Counter((event["lane"], event["partition"]) for event in reports)
    assert min(per_partition.values()) >= 3, "over the load, not at its end alone"
    for lane in result.verdict.lanes:
        assert Anomaly.HIGH_WATERMARK_REGRESSION not in lane.not_judged


@pytest.mark.slow
def test_a_killed_run_is_verified_with_all_but_its_last_second(tmp_path: Path) -> None:
    run = [*COMMAND, "run", str(SMALL), "--out", str(tmp_path), "--json"]
    with subprocess.Popen(
        [*NOT_IGNORING, *run], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "fault_requested":
                break
        time.sleep(1.5)
        killed_ns = time.monotonic_ns()
        os.killpg(process.pid, signal.SIGKILL)
        process.stdout.read()
    try:
        (run_dir,) = [path for path in tmp_path.iterdir() if not path.is_symlink()]
        known = [
            event["counts"]
            for event in events_of(run_dir)
            if event["type"] == "progress" and event["ts_ns"] <= killed_ns - SECOND_NS
        ][-1]
        verify = subprocess.run(
            [*COMMAND, "verify", str(run_dir), "--json"], capture_output=True, text=True, check=False
        )
        assert verify.returncode == Verdict.UNKNOWN.exit_code, verify.stderr
        verdict = json.loads(verify.stdout.splitlines()[-1])
        for lane in verdict["lanes"]:
            sent, acknowledged, consumed = known[lane["lane"]]
            assert acknowledged > 100
            assert lane["acknowledged"] >= acknowledged
            assert lane["consumed"] >= consumed
            assert sent <= lane["produced"] <= sent + 2_000, "reservations are not taken for records"
    finally:
        subprocess.run([*COMMAND, "clean"], capture_output=True, check=True)
    assert left_of(run_dir.name) == []
