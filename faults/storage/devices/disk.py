"""One node's disk: an ext4 in an image file, mounted on this machine, with a folder for each log directory.

What is done to it stands in the journal first. All actions are idempotent. Each thaws the disk first, except `freeze`:
otherwise it would wait for whoever thaws it, and he perhaps for it.
"""

import errno
import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.faults.parts import DiskControl
from kafka_chaos.faults.storage.devices import kernel
from kafka_chaos.faults.storage.devices.healing import DiskFiles, Journal, remove_disks, take_down, thaw_disks

_FILLER = "filler"
_LARGEST_PIECE = 1 << 30


class Disk(DiskControl):
    """A node's disk."""

    def __init__(self, files: DiskFiles, size: int, journal: Journal) -> None:
        self.files = files
        self._size = size
        self._journal = journal
        self._loss: Mapping[str, int] | None = None
        self._lengths: Mapping[Path, int] = {}
        self._refused: list[Path] = []
        self._slowed: int | None = None
        """The process whose container's writes are slow."""
        self._freezing = threading.Lock()
        """Held while `is_frozen` tries: a freeze that comes meanwhile would find the disk frozen, and not last."""

    def make(self, folders: int) -> None:
        """Make the file system and mount it, with empty folders for so many log directories."""
        kernel.make_file_system(self.files.image, self._size)
        self.files.point.mkdir()
        kernel.mount(self.files.image, self.files.point)
        for number in range(folders):
            self.folder(number).mkdir()
        kernel.flush(self.files.point)

    def folder(self, number: int) -> Path:
        """The folder for the log directory of this number, counted from 0."""
        # Kafka takes no log directory that has a `lost+found`.
        return self.files.point / f"log-directory-{number + 1}"

    def flush(self) -> None:
        """Write to the disk whatever is in memory only."""
        kernel.flush(self.files.point)

    def freeze(self) -> None:
        """Let every write wait; nothing where a broken file system refuses writes already."""
        self._note("freeze")
        with self._freezing, suppress(kernel.BrokenFileSystem):
            kernel.freeze(self.files.point)

    def thaw(self) -> None:
        if kernel.mounted(self.files.point):
            kernel.thaw(self.files.point)

    def is_frozen(self) -> bool:
        """Whether writes wait: the kernel refuses to freeze what is frozen."""
        with self._freezing, suppress(kernel.BrokenFileSystem):
            if not kernel.freeze(self.files.point):
                return True
            kernel.thaw(self.files.point)
        return False

    def slow_down(self, pid: int, writes_per_second: int) -> None:
        self._note("slow down")
        self.thaw()
        mount = kernel.mounted(self.files.point)
        if mount is not None and self._refusal() is None:
            kernel.remount(self.files.point, "sync")
            kernel.limit_writes(pid, mount.device, writes_per_second)
            self._slowed = pid

    def speed_up(self) -> None:
        pid, self._slowed = self._slowed, None
        mount = kernel.mounted(self.files.point)
        if mount is None or pid is None:
            return
        self.thaw()
        kernel.limit_writes(pid, mount.device, None)
        if "sync" in mount.options:
            kernel.remount(self.files.point, "async")

    def cut_power(self) -> None:
        self._note("cut power")
        self.thaw()
        self._lengths = _lengths(self.files.point)
        kernel.shut_down(self.files.point)

    def power_back(self) -> None:
        self._mount_again()
        left = _lengths(self.files.point)
        lost = {path: length - left.get(path, 0) for path, length in self._lengths.items()}
        gone = [bytes_ for bytes_ in lost.values() if bytes_ > 0]
        self._loss = {"lost_bytes": sum(gone), "shorter_files": len(gone), "kept_bytes": sum(left.values())}

    @property
    def loss(self) -> Mapping[str, int] | None:
        return self._loss

    def fill(self) -> None:
        """Take all free blocks; nothing where a broken file system refuses writes already."""
        self._note("fill")
        if self._refusal() is not None:
            return
        with (self.files.point / _FILLER).open("ab") as filler:
            piece = _LARGEST_PIECE
            while piece >= 1:
                try:
                    os.posix_fallocate(filler.fileno(), os.fstat(filler.fileno()).st_size, piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece //= 2

    def is_filled(self) -> bool:
        return (self.files.point / _FILLER).exists()

    def free_bytes(self) -> int:
        room = os.statvfs(self.files.point)
        return room.f_bavail * room.f_frsize

    def refuse_appends(self, topic: str | None) -> None:
        self._note("refuse appends")
        self.thaw()
        # Of each partition of a topic, or of all; but not of KRaft's metadata.
        found = []
        for partition in self.files.point.glob("*/*-*/"):
            name, _, number = partition.name.rpartition("-")
            segments = sorted(partition.glob("*.log"))
            if number.isdigit() and segments and name != "__cluster_metadata" and topic in (None, name):
                found.append(segments[-1])
        for path in found:
            kernel.refuse_writes(path, refuse=True)
            self._refused.append(path)

    def refused(self) -> Mapping[str, bool]:
        return {str(path.relative_to(self.files.point)): _refuses(path) for path in self._refused}

    def take_appends(self) -> None:
        """Take writes again to what refused them."""
        self.thaw()
        while self._refused:
            with suppress(FileNotFoundError):
                kernel.refuse_writes(self._refused[-1], refuse=False)
            self._refused.pop()

    def fail(self) -> None:
        self._note("fail")
        mount = kernel.mounted(self.files.point)
        if mount is not None and not self.refuses_writes():
            kernel.fail(mount.device)

    def refuses_writes(self) -> bool:
        return self._refusal() == errno.EROFS

    def make_whole(self) -> None:
        """Undo whatever was done to it: thawed, writable and without the filler.

        What a loss of power took is not brought back. Where the file system has to be mounted again, the broker must
        not run.
        """
        self.thaw()
        self.speed_up()
        if self._refusal() in (errno.EROFS, errno.EIO):
            self._mount_again()
        (self.files.point / _FILLER).unlink(missing_ok=True)
        self.take_appends()
        self._loss = None

    def _refusal(self) -> int | None:
        """The error number with which a new file is refused; None where it is not."""
        self.thaw()
        probe = self.files.point / "probe"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            return error.errno
        return None

    def _mount_again(self) -> None:
        self._note("mount again")
        take_down(self.files)
        self.files.point.mkdir(exist_ok=True)
        kernel.mount(self.files.image, self.files.point)

    def _note(self, step: str) -> None:
        self._journal.note({"step": step, "node": self.files.node})


def make_disks(
    run_id: str, labels: Mapping[str, str], folder: Path, *, names: Mapping[int, str], mib: int, log_directories: int
) -> dict[int, Disk]:
    """A disk of `mib` MiB for each node of a run, in a new folder; `labels` say whose run it is.

    `names`: by id, the nodes that get one.
    """
    # As the kernel writes paths.
    folder = folder.resolve()
    files = [DiskFiles(node, folder / f"{name}.img", folder / name) for node, name in names.items()]
    journal = Journal(run_id)
    journal.begin_with(labels, folder, tuple(files))
    folder.mkdir(parents=True)
    disks = {one.node: Disk(one, mib << 20, journal) for one in files}
    for disk in disks.values():
        disk.make(log_directories)
    return disks


def _refuses(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EROFS)
    return False


def _lengths(folder: Path) -> dict[Path, int]:
    """The lengths of all segments below a folder; a file that goes meanwhile is passed over."""
    found = {}
    for path in folder.glob("*/*/*.log"):
        try:
            found[path] = path.stat().st_size
        except FileNotFoundError:
            continue
    return found


_MIB = 256


def lost_in_trial(run_id: str, labels: Mapping[str, str]) -> int:
    """Freeze, thaw and cut off a disk: the bytes that were lost, since nothing had flushed them.

    Raises `ClusterFailure` or `OSError` where something of it can't be done, or has no effect.
    """
    folder = Path(tempfile.gettempdir(), f"kafka-chaos-disks-{run_id}")
    try:
        disk = make_disks(run_id, labels, folder, names={1: "broker-1"}, mib=_MIB, log_directories=1)[1]
        disk.freeze()
        if not disk.is_frozen():
            raise ClusterFailure("a frozen file system takes writes")
        disk.thaw()
        unflushed = disk.folder(0) / "trial-0" / "unflushed.log"
        unflushed.parent.mkdir()
        unflushed.write_bytes(bytes(4096))
        disk.cut_power()
        disk.power_back()
        if not disk.loss or not disk.loss["lost_bytes"]:
            raise ClusterFailure("a file system that was cut off lost nothing")
        return disk.loss["lost_bytes"]
    finally:
        thaw_disks(run_id)
        remove_disks(run_id)
