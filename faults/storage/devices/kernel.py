"""Operations of the kernel on disks: loop mounts, freezing, cutting a file system off, and the present mounts.

All of it needs root. File systems are ext4, since only some can be cut off without a flush.
"""

import errno
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure

_FREEZE = 0xC0045877
_THAW = 0xC0045878
_SHUT_DOWN = 0x8004587D
_GET_FLAGS = 0x80086601
_SET_FLAGS = 0x40086602
_IMMUTABLE = 0x10
_WITHOUT_FLUSH = struct.pack("I", 2)
"""`EXT4_GOING_FLAGS_NOLOGFLUSH`: what is in memory only is gone, the journal's unwritten end too."""
_OPTIONS = "loop,noatime,noinit_itable,errors=remount-ro"
CGROUPS = Path("/sys/fs/cgroup")
_WRITE_LIMIT = "blkio.throttle.write_iops_device"
_LOOPS = Path("/sys/block")
_GONE = " (deleted)"


class BrokenFileSystem(ClusterFailure):
    """The file system has met an error, or was cut off: it takes no writes."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: where, from which device, and its options."""

    point: Path
    device: str
    options: frozenset[str]


def make_file_system(image: Path, size: int) -> None:
    """An empty ext4 of `size` bytes in a new sparse file; nothing in it is reserved for root."""
    with image.open("xb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", "-i", "65536", str(image))


def mount(image: Path, point: Path) -> None:
    """Mount an image through a loop device, which goes with the mount."""
    _run("mount", "-t", "ext4", "-o", _OPTIONS, str(image), str(point))


def unmount(point: Path) -> None:
    """Unmount; raises `ClusterFailure` where the file system is in use."""
    _run("umount", str(point))


def detach(device: str) -> None:
    """Let go of a loop device's image."""
    _run("losetup", "--detach", device)


def mounted(point: Path) -> Mount | None:
    """The mount at a path; the uppermost, if there is more than one."""
    found = None
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if _unescaped(fields[4]) == str(point):
            found = Mount(point, kind[1], frozenset((*fields[5].split(","), *kind[2].split(","))))
    return found


def loop_devices(image: Path) -> Iterator[str]:
    """The loop devices that hold an image, also one that was deleted meanwhile."""
    for file in sorted(_LOOPS.glob("loop*/loop/backing_file")):
        try:
            backing = file.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
        except OSError:
            continue
        if backing.removesuffix(_GONE) == str(image):
            yield f"/dev/{file.parts[3]}"


def freeze(point: Path) -> bool:
    """Let every writer of the file system wait, once all that was written is on the disk; False: it was frozen.

    Raises `BrokenFileSystem`.
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
    """Let the writers go on; nothing where it is not frozen."""
    with _opened(point) as file:
        try:
            fcntl.ioctl(file, _THAW, 0)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EIO):
                raise


def shut_down(point: Path) -> None:
    """Cut the file system off from its disk at once: what was not flushed by now never will be.

    From then on nobody can read or write it. Mounting it again shows what was on the disk.
    """
    with _opened(point) as file:
        fcntl.ioctl(file, _SHUT_DOWN, _WITHOUT_FLUSH)


def fail(device: str) -> None:
    """Let ext4 notice an error of the disk, on which it refuses to write any more (`errors=remount-ro`)."""
    Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("1")


def remount(point: Path, option: str) -> None:
    """Change an option of a mounted file system: `sync`, or `async`."""
    _run("mount", "-o", f"remount,{option}", str(point))


def limit_writes(pid: int, device: str, per_second: int | None) -> None:
    """Let the processes of a container, one of them by its id, write to a device so often a second; None: ever.

    Raises `ClusterFailure` where the kernel keeps no such limits. The limit goes with the container's process.
    """
    number = os.stat(device).st_rdev
    of = f"{os.major(number)}:{os.minor(number)}"
    try:
        file = limits_of(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
        if file is None:
            raise ClusterFailure(f"process {pid} is in no cgroup whose writes can be limited")
        old = file.name == _WRITE_LIMIT
        file.write_text(f"{of} {per_second or 0}" if old else f"{of} wiops={per_second or 'max'}", encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        # The process is gone, and the limit with it.
        return


def limits_of(groups: str) -> Path | None:
    """The file with the limits of a process's writes, by its lines of `/proc/PID/cgroup`, of either version."""
    for line in groups.splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return CGROUPS / "blkio" / path.lstrip("/") / _WRITE_LIMIT
        if hierarchy == "0" and (file := CGROUPS / path.lstrip("/") / "io.max").exists():
            return file
    return None


def refuse_writes(path: Path, *, refuse: bool) -> None:
    """Let the kernel refuse every write to a file (`chattr +i`), also by those who have it open; or take them again."""
    with _opened(path, os.O_RDONLY) as file:
        (flags,) = struct.unpack("i", fcntl.ioctl(file, _GET_FLAGS, bytes(8))[:4])
        wanted = flags | _IMMUTABLE if refuse else flags & ~_IMMUTABLE
        fcntl.ioctl(file, _SET_FLAGS, struct.pack("q", wanted))


def flush(point: Path) -> None:
    """Write everything of the file system to its disk."""
    _run("sync", "--file-system", str(point))


@contextmanager
def _opened(path: Path, how: int = os.O_RDONLY | os.O_DIRECTORY) -> Iterator[int]:
    file = os.open(path, how)
    try:
        yield file
    finally:
        os.close(file)


def _run(*command: str) -> None:
    # Of a session of its own: a Ctrl-C in the terminal would end it half-way.
    done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip()
        raise ClusterFailure(f"`{' '.join(command)}` ended with {done.returncode}: {reason}")


def _unescaped(path: str) -> str:
    """A path of mountinfo, which writes blanks and the like as octal numbers."""
    first, *rest = path.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)
