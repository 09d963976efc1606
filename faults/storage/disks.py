"""Shared by the kinds that break disks: a broker's own disk, and whether this machine can give brokers one.

Clusters get disks only where a fault of the schedule needs them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import DOWN, Fault, Nodes, at_once
from kafka_chaos.faults.machine import CAP_SYS_ADMIN, engine_elsewhere, has_capability
from kafka_chaos.faults.parts import DiskControl

_TOOLS = ("mkfs.ext4", "mount", "umount", "losetup")


def why_no_disks() -> str | None:
    """Why brokers can't have disks of their own on this machine, and what would be needed; None where they can."""
    if not sys.platform.startswith("linux"):
        return "disks are loop mounts of ext4: it needs Linux, with the Docker engine on the same machine"
    if (engine := engine_elsewhere()) is not None:
        return f"disks are mounted on this machine, and DOCKER_HOST={engine} is another: unset it"
    if not has_capability(CAP_SYS_ADMIN):
        return "disks are loop mounts: it needs root (with CAP_SYS_ADMIN, where this is a container)"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(missing)} not found in PATH: install e2fsprogs, mount and util-linux"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices: load the kernel's module loop"
    return None


def disk_of(node: NodeControl) -> DiskControl:
    """The disk of a container; raises `UsageFailure` if it has none of its own."""
    if node.disk is None:
        raise UsageFailure(f"{node.name} has no disk of its own: start the cluster with disk_mib")
    return node.disk


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk(Fault):
    """A fault of brokers' own disks."""

    needs_disk: ClassVar[bool] = True

    unavailable = staticmethod(why_no_disks)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailsWrites(OnDisk):
    """A disk that refuses what a broker writes. The broker ends by itself, sooner or later, without a controlled
    shutdown; so it is ended where it has not yet, and starts with a whole disk."""

    holds: ClassVar[str] = DOWN

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """End what still runs on such a disk, and start the brokers again."""
        at_once(nodes, lambda node: node.kill() if _is_broken(disk_of(node)) else None)
        cluster.start_again(nodes)


def what_became(node: NodeControl) -> dict[str, Any]:
    """Whether a broker still runs, or how it ended, as evidence."""
    state = node.state()
    return {"Running": state["Running"], "ExitCode": state.get("ExitCode")}


def described_end(evidence: Mapping[str, Any]) -> str:
    """What became of a broker, in words."""
    return "the broker still ran" if evidence["Running"] else f"the broker ended with {evidence['ExitCode']}"


def _is_broken(disk: DiskControl) -> bool:
    return disk.is_filled() or disk.refuses_writes() or any(disk.refused().values())
