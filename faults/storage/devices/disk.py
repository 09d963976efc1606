"""One node's disk: an ext4 in an image file, mounted on this machine, with a folder for each log directory.

All actions are idempotent. Those that break or mount the disk are noted in the journal first. All that write to the
disk thaw it first: otherwise they would wait for a thaw, perhaps by a thread that itself waits for them to end.
"""

import errno
import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.faults.cluster import DiskControl
from kafka_chaos.faults.storage.devices import kernel
from kafka_chaos.faults.storage.devices.healing import DiskFiles, Journal, remove_disks, take_down, thaw_disks

_FILLER = "filler"  # the file by which `fill` takes the free blocks
_LARGEST_PIECE = 1 << 30  # 1 GiB


class Disk(DiskControl):
    """A node's disk of `size` bytes."""

    def __init__(self, files: DiskFiles, size: int, journal: Journal) -> None:
        self.files = files
        self._size = size
        self._journal = journal
        self._loss: Mapping[str, int] | None = None
        self._lengths_before: Mapping[Path, int] = {}
        self._immutable: list[Path] = []
        self._slowed_pid: int | None = None
        """The process id of the container whose writes are slow."""
        self._freezing = threading.Lock()
        """Held while `is_frozen` freezes the disk for a moment as a trial: `freeze` must not take this for its own."""

    def make(self, log_directories: int) -> None:
        """Make the file system and mount it, with an empty folder for each log directory."""
        kernel.make_file_system(self.files.image, self._size)
        self.files.point.mkdir()
        kernel.mount(self.files.image, self.files.point)
        for number in range(log_directories):
            self.folder(number).mkdir()
        kernel.flush(self.files.point)

    def folder(self, number: int) -> Path:
        """The folder for the log directory of this number, counted from 0."""
        # Not the disk's top folder: that has a `lost+found`, which Kafka accepts in no log directory.
        return self.files.point / f"log-directory-{number + 1}"

    def flush(self) -> None:
        """Write to the disk whatever is in memory only."""
        kernel.flush(self.files.point)

    def freeze(self) -> None:
        """Let every write wait; do nothing if a broken file system already refuses writes."""
        self._note("freeze")
        with self._freezing, suppress(kernel.BrokenFileSystem):
            kernel.freeze(self.files.point)

    def thaw(self) -> None:
        if kernel.mounted(self.files.point):
            kernel.thaw(self.files.point)

    def is_frozen(self) -> bool:
        """Whether writes wait: the kernel refuses to freeze a file system that is frozen."""
        with self._freezing, suppress(kernel.BrokenFileSystem):
            if not kernel.freeze(self.files.point):
                return True
            kernel.thaw(self.files.point)
        return False

    def slow_down(self, pid: int, writes_per_second: int) -> None:
        self._note("slow down")
        self.thaw()
        mount = kernel.mounted(self.files.point)
        if mount is not None and self._error_of_new_file() is None:
            kernel.remount(self.files.point, "sync")
            kernel.limit_writes(pid, mount.device, writes_per_second)
            self._slowed_pid = pid

    def speed_up(self) -> None:
        pid, self._slowed_pid = self._slowed_pid, None
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
        self._lengths_before = _lengths(self.files.point)
        kernel.shut_down(self.files.point)

    def power_back(self) -> None:
        self._mount_again()
        now = _lengths(self.files.point)
        lost = [length - now.get(path, 0) for path, length in self._lengths_before.items() if length > now.get(path, 0)]
        self._loss = {"lost_bytes": sum(lost), "shorter_files": len(lost), "kept_bytes": sum(now.values())}

    @property
    def loss(self) -> Mapping[str, int] | None:
        return self._loss

    def fill(self) -> None:
        """Take all free blocks; do nothing if a broken file system already refuses writes."""
        self._note("fill")
        if self._error_of_new_file() is not None:
            return
        with (self.files.point / _FILLER).open("ab") as filler:
            # Pieces of one size until none fits any more, then of half that size.
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
        status = os.statvfs(self.files.point)
        return status.f_bavail * status.f_frsize

    def refuse_appends(self, topic: str | None) -> None:
        self._note("refuse appends")
        self.thaw()
        for partition in sorted(self.files.point.glob("*/*-*/")):
            name, _, number = partition.name.rpartition("-")
            segments = sorted(partition.glob("*.log"))
            if number.isdigit() and segments and name != "__cluster_metadata" and topic in (None, name):
                kernel.set_immutable(segments[-1], immutable=True)
                self._immutable.append(segments[-1])

    def failing_segments(self) -> Mapping[str, bool]:
        return {str(path.relative_to(self.files.point)): _segment_refuses(path) for path in self._immutable}

    def allow_appends(self) -> None:
        """Let the segments that `refuse_appends` chose take writes again."""
        self.thaw()
        while self._immutable:
            with suppress(FileNotFoundError):
                kernel.set_immutable(self._immutable[-1], immutable=False)
            self._immutable.pop()

    def fail(self) -> None:
        self._note("fail")
        mount = kernel.mounted(self.files.point)
        if mount is not None and not self.is_read_only():
            kernel.fail(mount.device)

    def is_read_only(self) -> bool:
        return self._error_of_new_file() == errno.EROFS

    def repair(self) -> None:
        """Undo whatever was done to the disk: thaw it, let it take writes, and free the blocks that `fill` took.

        What a loss of power took stays lost. The broker must not run if the file system has to be mounted again.
        """
        self.thaw()
        self.speed_up()
        if self._error_of_new_file() in (errno.EROFS, errno.EIO):
            self._mount_again()
        (self.files.point / _FILLER).unlink(missing_ok=True)
        self.allow_appends()
        self._loss = None

    def _error_of_new_file(self) -> int | None:
        """The error number with which the file system refuses a new file; None if it takes one."""
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
    """Make a disk of `mib` MiB for each node in a new folder; returns the disks by node id. `names`: host names by id.

    `labels`: the labels of the run's containers, which the journal of disks notes, too.
    """
    # The kernel lists mounts by resolved paths.
    folder = folder.resolve()
    files = [DiskFiles(node, folder / f"{name}.img", folder / name) for node, name in names.items()]
    journal = Journal(run_id)
    journal.begin_with(labels, folder, tuple(files))
    folder.mkdir(parents=True)
    disks = {disk_files.node: Disk(disk_files, mib << 20, journal) for disk_files in files}
    for disk in disks.values():
        disk.make(log_directories)
    return disks


def _segment_refuses(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EROFS)
    return False


def _lengths(folder: Path) -> dict[Path, int]:
    """The lengths of all segments below a folder; a file that is deleted meanwhile is left out."""
    lengths = {}
    for path in folder.glob("*/*/*.log"):
        with suppress(FileNotFoundError):
            lengths[path] = path.stat().st_size
    return lengths


def bytes_lost_in_trial(run_id: str, labels: Mapping[str, str]) -> int:
    """Freeze, thaw and cut off a disk as a trial; returns how many bytes were lost because nothing flushed them.

    Raises `ClusterFailure` or `OSError` if one of these actions fails, or has no effect.
    """
    folder = Path(tempfile.gettempdir(), f"kafka-chaos-disks-{run_id}")
    try:
        disk = make_disks(run_id, labels, folder, names={1: "broker-1"}, mib=256, log_directories=1)[1]
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
