"""Heals what a journal names, however far it got: thaws, unmounts, detaches loop devices and removes files.

Guarantee: looks at what is there, never at what should be there, so that it may be called at any moment and any number
of times, by another process too. Touches nothing that the journal does not name.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kafka_chaos.harness.cluster.disks import kernel
from kafka_chaos.harness.cluster.disks.journal import DiskFiles, Journal, read_journal
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until

_IN_USE_TIMEOUT = 20.0


def thaw_disks(run_id: str) -> None:
    """Thaw a run's disks. Before anything else: a process that waits for a frozen disk can't even be killed."""
    recorded = read_journal(run_id)
    for disk in recorded.disks if recorded else ():
        if kernel.mounted(disk.point):
            kernel.thaw(disk.point)


def remove_disks(run_id: str) -> int:
    """Remove a run's disks, and its journal last; the number of disks. The containers must be gone."""
    recorded = read_journal(run_id)
    if recorded is None:
        return 0
    for disk in recorded.disks:
        take_down(disk)
        disk.image.unlink(missing_ok=True)
    _remove_folder(recorded.folder)
    Journal(run_id).end()
    return len(recorded.disks)


def take_down(disk: DiskFiles) -> None:
    """Unmount a disk and free its loop device, as soon as nobody uses them; the image stays."""
    wait_until(
        lambda: _unmounted(disk),
        f"{disk.point} to be unmounted",
        timeout=_IN_USE_TIMEOUT,
        seen=lambda: f"loop devices: {', '.join(kernel.loop_devices(disk.image)) or 'none'}",
    )
    _remove_folder(disk.point)


def _unmounted(disk: DiskFiles) -> bool:
    try:
        while kernel.mounted(disk.point):
            kernel.thaw(disk.point)
            kernel.unmount(disk.point)
        for device in kernel.loop_devices(disk.image):
            kernel.detach(device)
    except (ClusterFailure, OSError):
        # Used by a process that is about to end, or gone between two looks.
        return False
    return not any(kernel.loop_devices(disk.image))


def _remove_folder(folder: Path) -> None:
    # One that is gone, or holds what the journal does not name.
    with suppress(OSError):
        folder.rmdir()
