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
    with started(tmp_path) as process:
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
    # The first moment may come before anything is started, and then nothing is said to be removed.
    check_ended(process, errors, tmp_path / run_id, has_started=moment != "while containers are started")


@pytest.mark.slow
@needs_disks
def test_a_frozen_disk_does_not_hold_up_an_interrupt(tmp_path: Path) -> None:
    with started(tmp_path, FROZEN_DISK) as process:
        assert process.stdout is not None
        run_id = ""
        for line in process.stdout:
            event = json.loads(line)
            run_id = event.get("run_id", run_id)
            if event["type"] == "fault_proven":
                assert any("disks" in left for left in left_of(run_id)), "the brokers have disks"
                process.send_signal(signal.SIGINT)
                break
        _, errors = process.communicate(timeout=60)
    check_ended(process, errors, tmp_path / run_id, has_started=True)
    assert not (tmp_path / run_id / "disks").exists()


def started(out: Path, experiment: Path = SMALL) -> subprocess.Popen[str]:
    run = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "run", str(experiment), "--out", str(out), "--json"]
    return subprocess.Popen(
        [*NOT_IGNORING, *run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def check_ended(process: subprocess.Popen[str], errors: str, run_dir: Path, *, has_started: bool) -> None:
    assert process.returncode == 130, errors
    assert "kafka-chaos: interrupted" in errors
    if has_started:
        assert "interrupted; everything that was started is removed" in errors
    assert left_of(run_dir.name) == []
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    assert events[-1]["type"] == "run_ended"
    requested = {event["fault_id"] for event in events if event["type"] == "fault_requested"}
    assert {event["fault_id"] for event in events if event["type"] == "fault_healed"} == requested
