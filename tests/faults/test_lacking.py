"""What a node or this machine lacks for a fault is named with the way to get it."""

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults import machine
from kafka_chaos.faults.fault import build
from kafka_chaos.faults.links import on_frames
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.storage import disks
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, FakeNode

DISKS = ("power-loss", "failing-segment", "freeze-disk", "full-disk", "read-only-disk")
NEEDS = {
    **dict.fromkeys(DISKS, "broker-1 has no disk of its own: start the cluster with disk_mib"),
    "drop": "start the cluster with links",
    "clock-step": "the clock of broker-1 can't be moved: start the cluster with clocks",
}
ROOT = {
    **dict.fromkeys(DISKS, "disks are loop mounts: this needs root (in a container, with CAP_SYS_ADMIN)"),
    "drop": "needs root",
    "clock-step": "clocks are in the containers' processes: this needs root",
}


@pytest.mark.parametrize("kind", NEEDS)
def test_a_cluster_without_what_a_fault_needs_is_refused(kind: str) -> None:
    keys = {"seconds": -60} if kind == "clock-step" else {}
    fault = build(fault_kinds()[kind], target=Target.parse("broker:1"), at=0, duration=1, keys=keys)
    with pytest.raises(UsageFailure, match=NEEDS[kind]):
        fault.inject(FakeCluster(), (FakeNode("broker-1", 1),))


def test_a_machine_without_root_or_tools_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(machine, "may_administer", lambda: False)
    assert {kind: needed for kind, needed in ROOT.items() if needed not in str(fault_kinds()[kind].unavailable())} == {}
    monkeypatch.setattr(machine, "may_administer", lambda: True)
    monkeypatch.setattr(disks.shutil, "which", lambda tool: None if tool == "mkfs.ext4" else f"/sbin/{tool}")
    assert str(disks.why_no_disks()).startswith("mkfs.ext4 not found in PATH")
    monkeypatch.setattr(on_frames.shutil, "which", lambda _: None)
    assert "util-linux" in str(on_frames.why_no_links())
