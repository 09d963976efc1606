"""Ctrl-C at different moments of a run: it ends at once, says so, and nothing of it is left."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import needs_disks
from tests.harness.leftovers import left_of
from tests.harness.signals import NOT_IGNORING

pytestmark = [pytest.mark.cluster]

SMALL = Path(__file__).with_name("small.yaml")
FROZEN_DISK = Path(__file__).with_name("frozen_disk.yaml")
ALL_REMOVED = "interrupted; everything that was started is removed"
MOMENTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "while containers are started": lambda event: event.get("text", "").startswith("starting"),
    "when the cluster is ready": lambda event: event["type"] == "cluster_ready",
    "under load": lambda event: event["type"] == "phase_started",
    "while a broker is frozen": lambda event: event["type"] == "fault_proven",
    "while the log is read": lambda event: event.get("text", "").startswith("reading the final log"),
}


@pytest.mark.parametrize(
    "moment",
    [name if name == "while a broker is frozen" else pytest.param(name, marks=pytest.mark.slow) for name in MOMENTS],
)
def test_an_interrupted_run_leaves_nothing(moment: str, tmp_path: Path) -> None:
    _, _, errors = interrupted(tmp_path, SMALL, moment)
    # The first moment may come before anything is started, and then nothing is said to be removed.
    if moment != "while containers are started":
        assert ALL_REMOVED in errors


@pytest.mark.slow
@needs_disks
def test_a_frozen_disk_does_not_hold_up_an_interrupt(tmp_path: Path) -> None:
    run_dir, was_there, errors = interrupted(tmp_path, FROZEN_DISK, "while a broker is frozen")
    assert any("disks" in left for left in was_there), "the brokers have disks"
    assert ALL_REMOVED in errors
    assert not (run_dir / "disks").exists()


def interrupted(out: Path, experiment: Path, moment: str) -> tuple[Path, list[str], str]:
    """The directory of a run that is interrupted, what was there of it at that moment, and its standard error."""
    run = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "run", str(experiment), "--out", str(out), "--json"]
    with subprocess.Popen(
        [*NOT_IGNORING, *run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        run_id = ""
        for line in process.stdout:
            event = json.loads(line)
            run_id = event.get("run_id", run_id)
            if MOMENTS[moment](event):
                was_there = left_of(run_id)
                process.send_signal(signal.SIGINT)
                break
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "kafka-chaos: interrupted" in errors
    assert left_of(run_id) == []
    run_dir = out / run_id
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    assert events[-1]["type"] == "run_ended"
    requested = {event["fault_id"] for event in events if event["type"] == "fault_requested"}
    assert {event["fault_id"] for event in events if event["type"] == "fault_healed"} == requested
    return run_dir, was_there, errors
