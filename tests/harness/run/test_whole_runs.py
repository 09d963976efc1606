"""Whole runs on clusters of their own: what their events say, and what is left of one that is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Verdict
from tests.harness.leftovers import left_of
from tests.harness.signals import NOT_IGNORING

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

SMALL = Path(__file__).with_name("small.yaml")
COMMAND = [sys.executable, "-m", "kafka_chaos.harness.cli.main"]
SECOND_NS = 1_000_000_000


def events_of(run_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


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
