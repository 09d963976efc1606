"""Disks that the tests make, and what is left of them."""

from pathlib import Path

from kafka_chaos.contract.command.journal import journal_folder
from kafka_chaos.faults.storage.devices.disk import Disk

RUN = "test-disks"
LABELS = {"kafka-chaos.run": RUN}


def left(folder: Path) -> list[str]:
    """The remains of a folder's disks."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    loops = [one.read_text().strip() for one in Path("/sys/block").glob("loop*/loop/backing_file")]
    files = [str(path) for path in folder.parent.glob("*")]
    notes = [str(path) for path in journal_folder("disks").glob("*")]
    return [*mounts, *(one for one in loops if str(folder) in one), *files, *notes]


def segment(disk: Disk) -> Path:
    path = disk.folder(0) / "topic-0" / "00000000000000000000.log"
    path.parent.mkdir(exist_ok=True)
    return path
