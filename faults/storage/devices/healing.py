"""The journal of a run's disks, and the disks' removal: they are thawed and unmounted, and their files deleted.

Guarantee: the journal names each file before the file is made, so the removal needs nothing but the journal, and
touches no other files. The removal looks at what exists, never at what should exist, so it may run at any moment and
any number of times, also in another process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.journal import JournalFile, journaled_runs
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.storage.devices import kernel

_IN_USE_TIMEOUT = 20.0  # seconds that processes which are about to end may still use a disk
_KIND = "disks"  # tells these journals from the other journals of runs


def thaw_disks(run_id: str) -> None:
    """Thaw a run's disks. This comes before anything else: a process that waits for its disk can't even be killed."""
    journaled = read_journal(run_id)
    for disk in journaled.disks if journaled else ():
        if kernel.mounted(disk.point):
            kernel.thaw(disk.point)


def remove_disks(run_id: str) -> int:
    """Remove a run's disks, and then its journal; returns the number of disks. The containers must be gone."""
    journaled = read_journal(run_id)
    if journaled is None:
        return 0
    for disk in journaled.disks:
        take_down(disk)
        disk.image.unlink(missing_ok=True)
    _remove_folder(journaled.folder)
    Journal(run_id).end()
    return len(journaled.disks)


def take_down(disk: DiskFiles) -> None:
    """Unmount a disk and detach its loop device as soon as no process uses them; the image stays."""
    wait_until(
        lambda: _try_to_unmount(disk),
        f"{disk.point} to be unmounted",
        timeout=_IN_USE_TIMEOUT,
        seen=lambda: f"loop devices: {', '.join(kernel.loop_devices(disk.image)) or 'none'}",
    )
    _remove_folder(disk.point)


def _try_to_unmount(disk: DiskFiles) -> bool:
    try:
        while kernel.mounted(disk.point):
            kernel.thaw(disk.point)
            kernel.unmount(disk.point)
        for device in kernel.loop_devices(disk.image):
            kernel.detach(device)
    except (ClusterFailure, OSError):
        # A process that is about to end still uses the disk, or the disk was removed a moment ago.
        return False
    return not any(kernel.loop_devices(disk.image))


def _remove_folder(folder: Path) -> None:
    # The folder may be gone, or hold files that the journal does not name.
    with suppress(OSError):
        folder.rmdir()


@dataclass(frozen=True, slots=True)
class DiskFiles:
    """Where one node's disk is: its image, and the folder where it is mounted."""

    node: int
    image: Path
    point: Path


@dataclass(frozen=True, slots=True)
class JournaledDisks:
    """The content of a journal: the run and its labels, the folder that was made for its disks, and the disks."""

    run_id: str
    labels: Mapping[str, str]
    folder: Path
    disks: tuple[DiskFiles, ...]


class Journal(JournalFile):
    """The journal of a run's disks."""

    def __init__(self, run_id: str) -> None:
        super().__init__(_KIND, run_id)

    def begin_with(self, labels: Mapping[str, str], folder: Path, disks: tuple[DiskFiles, ...]) -> None:
        """Begin with the run's labels, the folder of its disks, and the files that will be made there."""
        entries = [{"node": disk.node, "image": str(disk.image), "point": str(disk.point)} for disk in disks]
        self.begin({"step": "begin", "labels": dict(labels), "folder": str(folder), "disks": entries})


def disk_journals() -> Iterator[JournaledDisks]:
    """The content of all journals of this user, in the order of their runs."""
    for run_id in journaled_runs(_KIND):
        journaled = read_journal(run_id)
        if journaled is not None:
            yield journaled


def read_journal(run_id: str) -> JournaledDisks | None:
    """The content of a run's journal; None if it has none."""
    lines = Journal(run_id).lines()
    if not lines:
        return None
    begin = lines[0]
    disks = tuple(DiskFiles(int(disk["node"]), Path(disk["image"]), Path(disk["point"])) for disk in begin["disks"])
    return JournaledDisks(run_id, begin["labels"], Path(begin["folder"]), disks)
