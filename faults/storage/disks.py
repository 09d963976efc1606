"""Shared by the kinds that break disks: a broker's own disk, and whether this machine can give brokers one.

Such a kind says so by `needs_disk`. Clusters get disks only where a fault of the schedule needs them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Fault, Nodes, at_once
from kafka_chaos.faults.machine import CAP_SYS_ADMIN, engine_elsewhere, has_capability
from kafka_chaos.faults.parts import DiskControl

_TOOLS = ("mkfs.ext4", "mount", "umount", "losetup")


def needs_disk(kind: type[Fault]) -> bool:
    """Whether faults of a kind break disks, so that brokers need some of their own."""
    return bool(getattr(kind, "needs_disk", False))


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


def start_whole(cluster: ClusterControl, nodes: Nodes) -> None:
    """Heal disks that a broker can't go on with: end what still runs on such a disk, and start with a whole one.

    A broker that met an error of its disk ends by itself, sooner or later. So it is ended where it has not yet.
    """
    at_once(nodes, lambda node: node.kill() if _is_broken(disk_of(node)) else None)
    cluster.start_again(nodes)


def _is_broken(disk: DiskControl) -> bool:
    return disk.is_filled() or disk.refuses_writes() or any(disk.refused().values())
