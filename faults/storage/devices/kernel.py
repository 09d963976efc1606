"""Operations of the kernel on disks: loop mounts, freezing, cutting a file system off from its disk, limits on writes.

All these operations need root. The file systems are ext4, one of the few that can be cut off without a flush.
"""

import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure

_FREEZE = 0xC0045877  # FIFREEZE; this and the next four are numbers of ioctls in linux/fs.h or ext4
_THAW = 0xC0045878  # FITHAW
_SHUT_DOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS
_SET_FLAGS = 0x40086602  # FS_IOC_SETFLAGS
_IMMUTABLE = 0x10  # FS_IMMUTABLE_FL
_WITHOUT_FLUSH = struct.pack("I", 2)
"""`EXT4_GOING_FLAGS_NOLOGFLUSH`: what is only in memory is lost, the unwritten end of ext4's journal included."""
_MOUNT_OPTIONS = "loop,noatime,noinit_itable,errors=remount-ro"
CGROUPS = Path("/sys/fs/cgroup")
_CGROUP_V1_LIMIT = "blkio.throttle.write_iops_device"
_BLOCK_DEVICES = Path("/sys/block")
_DELETED = " (deleted)"  # what the kernel appends to the path of a deleted file


class BrokenFileSystem(ClusterFailure):
    """Raised when a file system takes no writes, since it met an error or was cut off from its disk."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: where, from which device, and its options."""

    point: Path
    device: str
    options: frozenset[str]


def make_file_system(image: Path, size: int) -> None:
    """Make an empty ext4 of `size` bytes in a new sparse file, with no blocks reserved for root."""
    with image.open("xb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", "-i", "65536", str(image))


def mount(image: Path, point: Path) -> None:
    """Mount an image through a loop device, which the kernel detaches when the image is unmounted."""
    _run("mount", "-t", "ext4", "-o", _MOUNT_OPTIONS, str(image), str(point))


def unmount(point: Path) -> None:
    """Unmount a file system; raises `ClusterFailure` if it is in use."""
    _run("umount", str(point))


def detach(device: str) -> None:
    """Detach a loop device from its image."""
    _run("losetup", "--detach", device)


def mounted(point: Path) -> Mount | None:
    """The mount at a path, the uppermost if there are several; None if nothing is mounted there."""
    uppermost = None
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        # The fifth field is the mount point, the sixth its options (proc(5)).
        fields = before.split()
        if _unescaped(fields[4]) == str(point):
            _, device, super_options = after.split()
            uppermost = Mount(point, device, frozenset((*fields[5].split(","), *super_options.split(","))))
    return uppermost


def loop_devices(image: Path) -> Iterator[str]:
    """The loop devices whose content is an image, even if the image's file is deleted."""
    for file in sorted(_BLOCK_DEVICES.glob("loop*/loop/backing_file")):
        try:
            backing = file.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
        except OSError:  # The device was detached a moment ago.
            continue
        if backing.removesuffix(_DELETED) == str(image):
            yield f"/dev/{file.parts[3]}"


def freeze(point: Path) -> bool:
    """Flush a file system and make all its writers wait; returns False if it was frozen already.

    Raises `BrokenFileSystem` if it takes no writes.
    """
    with _opened(point) as file:
        try:
            fcntl.ioctl(file, _FREEZE, 0)
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EIO):
                raise BrokenFileSystem(f"{point}: {error.strerror}") from error
            if error.errno != errno.EBUSY:
                raise
            return False
    return True


def thaw(point: Path) -> None:
    """Let the writers of a file system continue; nothing happens if it is not frozen, or if it is broken."""
    with _opened(point) as file:
        try:
            fcntl.ioctl(file, _THAW, 0)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EIO):
                raise


def shut_down(point: Path) -> None:
    """Cut a file system off from its disk at once: what is not flushed by now is lost.

    The file system can't be read or written any more. Mounted again, it shows what is on the disk.
    """
    with _opened(point) as file:
        fcntl.ioctl(file, _SHUT_DOWN, _WITHOUT_FLUSH)


def fail(device: str) -> None:
    """Make ext4 believe that the disk had an error: from then on ext4 refuses writes (`errors=remount-ro`)."""
    Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")


def remount(point: Path, option: str) -> None:
    """Mount a mounted file system with another `option`: `sync` (each write waits for the disk) or `async`."""
    _run("mount", "-o", f"remount,{option}", str(point))


def limit_writes(pid: int, device: str, per_second: int | None) -> None:
    """Limit how many writes per second the container with the process `pid` may make to a device; None: no limit.

    Raises `ClusterFailure` if the kernel has no such limits. The limit ends with the container's process.
    """
    device_number = os.stat(device).st_rdev
    device_numbers = f"{os.major(device_number)}:{os.minor(device_number)}"
    # If the process is gone, so is the limit.
    with suppress(FileNotFoundError, ProcessLookupError):
        file = file_limiting_writes(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
        if file is None:
            raise ClusterFailure(f"process {pid} is in no cgroup whose writes can be limited")
        # In version 1 of cgroups, 0 means no limit.
        limit = str(per_second or 0) if file.name == _CGROUP_V1_LIMIT else f"wiops={per_second or 'max'}"
        file.write_text(f"{device_numbers} {limit}", encoding="ascii")


def file_limiting_writes(groups: str) -> Path | None:
    """The file that limits a process's writes, None if there is none; `groups`: the text of its `/proc/PID/cgroup`."""
    for line in groups.splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return CGROUPS / "blkio" / path.lstrip("/") / _CGROUP_V1_LIMIT
        # Version 2 of cgroups is the hierarchy 0.
        if hierarchy == "0" and (file := CGROUPS / path.lstrip("/") / "io.max").exists():
            return file
    return None


def set_immutable(path: Path, *, immutable: bool) -> None:
    """Make the kernel refuse all writes to a file (`chattr +i`), even by open descriptors, or no longer refuse them."""
    with _opened(path, os.O_RDONLY) as file:
        # The number of the ioctl announces a long of 8 bytes, but the kernel fills in an int.
        (flags,) = struct.unpack("i", fcntl.ioctl(file, _GET_FLAGS, bytes(8))[:4])
        flags = flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE
        fcntl.ioctl(file, _SET_FLAGS, struct.pack("q", flags))


def flush(point: Path) -> None:
    """Write everything that a file system has in memory to its disk."""
    _run("sync", "--file-system", str(point))


@contextmanager
def _opened(path: Path, flags: int = os.O_RDONLY | os.O_DIRECTORY) -> Iterator[int]:
    file = os.open(path, flags)
    try:
        yield file
    finally:
        os.close(file)


def _run(*command: str) -> None:
    # In a session of its own, so that a Ctrl-C in the terminal does not end the command half-way.
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip()
        raise ClusterFailure(f"`{' '.join(command)}` ended with {done.returncode}: {reason}")


def _unescaped(path: str) -> str:
    """The real path for a path in mountinfo, which writes blanks and the like as a backslash and an octal number."""
    first, *rest = path.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)
