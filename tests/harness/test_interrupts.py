"""Ctrl-C at different moments of a run: it ends at once, says so, and nothing of it is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.leftovers import left_of

pytestmark = [pytest.mark.cluster]

SMALL = Path(__file__).with_name("small.yaml")

MOMENTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "while containers are started": lambda event: event.get("text", "").startswith("starting"),
    "when the cluster is ready": lambda event: event["type"] == "cluster_ready",
    "under load": lambda event: event["type"] == "phase_started",
    "while a broker is frozen": lambda event: event["type"] == "fault_proven",
    "while Spark reads the log": lambda event: event.get("text", "").startswith("reading the final log"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_run_leaves_nothing(moment: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafka_chaos.harness.cli", "run", str(SMALL), "--out", str(tmp_path), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        run_id = ""
        for line in process.stdout:
            event = json.loads(line)
            run_id = event.get("run_id", run_id)
            if MOMENTS[moment](event):
                process.send_signal(signal.SIGINT)
                break
        _, errors = process.communicate(timeout=60)
    assert run_id
    assert process.returncode == 130, errors
    assert "interrupted; everything that was started is removed" in errors
    assert left_of(run_id) == []
    events = [json.loads(line) for line in (tmp_path / run_id / "events.jsonl").read_text().splitlines()]
    assert events[-1]["type"] == "run_ended"
    requested = {event["fault_id"] for event in events if event["type"] == "fault_requested"}
    assert {event["fault_id"] for event in events if event["type"] == "fault_healed"} == requested
