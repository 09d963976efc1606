"""Disks on this machine, without a cluster: what each action does, and that nothing is left whenever it ends.

They need loop mounts, so root. A machine that can't do them skips these tests and says why; `kafka-chaos doctor` says
the same.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_chaos.faults.storage.disks import why_no_disks
from kafka_chaos.harness.cluster.containers.labels import current_owner, run_labels
from kafka_chaos.harness.cluster.disks import kernel
from kafka_chaos.harness.cluster.disks.disk import Disk, make_disks
from kafka_chaos.harness.cluster.disks.healing import remove_disks, thaw_disks
from kafka_chaos.harness.cluster.disks.journal import Journal, journals, read_journal
from kafka_chaos.harness.cluster.disks.trial import lost_in_trial
from kafka_chaos.harness.journal import journal_folder

LACKS = why_no_disks()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=f"storage faults: {LACKS}")

RUN = "test-disks"
LABELS = {"kafka-chaos.run": RUN}
STEPS = ("make_file_system", "mount", "flush", "freeze", "thaw", "shut_down", "fail", "unmount", "detach")
"""What is done to this machine, function by function; a process may be killed before or after each."""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_STATE", str(tmp_path / "state"))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run" / "disks"
    thaw_disks(RUN)
    remove_disks(RUN)


@pytest.fixture
def disk(folder: Path) -> Disk:
    return make_disks(RUN, LABELS, folder, names={1: "broker-1"}, mib=256, log_directories=2)[1]


def left(folder: Path) -> list[str]:
    """What is left of the disks of a folder."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    loops = [one.read_text().strip() for one in Path("/sys/block").glob("loop*/loop/backing_file")]
    files = [str(path) for path in folder.parent.glob("*")]
    notes = [str(path) for path in journal_folder("disks").glob("*")]
    return [*mounts, *(one for one in loops if str(folder) in one), *files, *notes]


def segment(disk: Disk) -> Path:
    path = disk.folder(0) / "topic-0" / "00000000000000000000.log"
    path.parent.mkdir(exist_ok=True)
    return path


def write_flushed(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    parent = os.open(path.parent, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)


def test_a_loss_of_power_takes_what_was_not_flushed_and_nothing_else(disk: Disk) -> None:
    log = segment(disk)
    write_flushed(log, b"f" * 10_000)
    with log.open("ab") as file:
        file.write(b"u" * 5_000)
    disk.cut_power()
    with pytest.raises(OSError) as refused:
        log.read_bytes()
    assert refused.value.errno == errno.EIO
    disk.power_back()
    assert log.read_bytes() == b"f" * 10_000
    assert disk.loss == {"lost_bytes": 5_000, "shorter_files": 1, "kept_bytes": 10_000}
    disk.make_whole()
    assert disk.loss is None


def test_a_frozen_disk_lets_a_writer_wait_until_it_is_thawed(disk: Disk) -> None:
    log = segment(disk)
    assert not disk.is_frozen()
    disk.freeze()
    disk.freeze()
    assert disk.is_frozen()
    written = threading.Event()

    def write() -> None:
        log.write_bytes(b"late")
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert not written.wait(0.5)
    finally:
        disk.thaw()
        writer.join(10)
    assert written.is_set()
    disk.thaw()
    assert not disk.is_frozen()


def test_a_filled_disk_has_no_block_left_until_it_is_whole(disk: Disk) -> None:
    log = segment(disk)
    disk.fill()
    disk.fill()
    assert (disk.free_bytes(), disk.is_filled()) == (0, True)
    with pytest.raises(OSError) as refused:
        log.write_bytes(bytes(16_384))
    assert refused.value.errno == errno.ENOSPC
    disk.make_whole()
    assert not disk.is_filled()
    assert disk.free_bytes() > 100 << 20
    blocks = disk.files.image.stat().st_blocks * 512
    assert blocks < 64 << 20, "the image takes room only for what was written"


def test_a_disk_that_failed_refuses_writes_and_has_lost_what_was_not_flushed(disk: Disk) -> None:
    log = segment(disk)
    write_flushed(log, b"f" * 100)
    with log.open("ab") as file:
        file.write(b"u" * 50)
    assert not disk.refuses_writes()
    disk.fail()
    disk.fail()
    assert disk.refuses_writes()
    disk.fill()
    disk.freeze()
    assert (disk.is_filled(), disk.is_frozen()) == (False, False), "a broken disk is neither"
    disk.make_whole()
    assert not disk.refuses_writes()
    assert log.read_bytes() == b"f" * 100


def test_a_disk_is_made_whole_from_all_at_once(disk: Disk) -> None:
    disk.fill()
    disk.freeze()
    disk.make_whole()
    assert (disk.is_frozen(), disk.is_filled(), disk.refuses_writes()) == (False, False, False)
    disk.cut_power()
    disk.make_whole()
    assert segment(disk).parent.is_dir()


@pytest.mark.parametrize("action", ["fill", "fail", "cut_power", "refuses_writes", "make_whole"])
def test_what_is_done_to_a_frozen_disk_thaws_it_first(action: str, disk: Disk) -> None:
    disk.freeze()
    done = threading.Thread(target=getattr(disk, action), daemon=True)
    done.start()
    done.join(10)
    assert not done.is_alive()
    assert not disk.is_frozen()


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("7:blkio:/docker/1\n0::/\n", "blkio/docker/1/blkio.throttle.write_iops_device"),
        ("0::/docker/1\n", "docker/1/io.max"),
        ("0::/elsewhere\n4:memory:/docker/1\n", None),
    ],
)
def test_writes_are_limited_by_cgroups_of_either_version(
    groups: str, file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "CGROUPS", tmp_path)
    (tmp_path / "docker" / "1").mkdir(parents=True)
    (tmp_path / "docker" / "1" / "io.max").touch()
    assert kernel.limits_of(groups) == (None if file is None else tmp_path / file)


def test_a_slow_disk_writes_at_once_and_a_fast_one_later(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, int | None]] = []
    monkeypatch.setattr(kernel, "limit_writes", lambda pid, device, many: limits.append((pid, many)))

    def options() -> frozenset[str]:
        mount = kernel.mounted(disk.files.point)
        assert mount is not None
        return mount.options

    disk.slow_down(7, 20)
    disk.slow_down(7, 20)
    assert "sync" in options()
    disk.speed_up()
    disk.speed_up()
    assert "sync" not in options()
    disk.slow_down(8, 5)
    disk.make_whole()
    assert "sync" not in options()
    assert limits == [(7, 20), (7, 20), (7, None), (8, 5), (8, None)]


def test_one_file_refuses_writes_also_by_those_who_have_it_open(disk: Disk) -> None:
    def make(name: str) -> Path:
        path = disk.folder(0) / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
        return path

    old, new, other = (make(name) for name in ("orders-0/0.log", "orders-0/1.log", "others-0/0.log"))
    make("__cluster_metadata-0/0.log")
    with new.open("ab", buffering=0) as opened:
        disk.refuse_appends("orders")
        with pytest.raises(PermissionError):
            opened.write(b"refused")
        assert disk.refused() == {"log-directory-1/orders-0/1.log": True}
        for path in (old, other):
            path.write_bytes(b"taken")
        disk.make_whole()
        opened.write(b"taken")
    assert disk.refused() == {}
    disk.refuse_appends(None)
    assert [name.split("/")[1] for name in sorted(disk.refused())] == ["orders-0", "others-0"]
    disk.take_appends()
    disk.take_appends()


def test_each_log_directory_has_an_empty_folder(disk: Disk) -> None:
    assert [list(disk.folder(number).iterdir()) for number in (0, 1)] == [[], []]


def test_nothing_is_left_and_removing_twice_does_nothing_more(disk: Disk, folder: Path) -> None:
    disk.freeze()
    thaw_disks(RUN)
    assert remove_disks(RUN) == 1
    assert remove_disks(RUN) == 0
    assert left(folder) == []


def test_files_that_the_journal_does_not_name_stay(disk: Disk, folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    remove_disks(RUN)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_disk_in_use_is_waited_for(disk: Disk, folder: Path) -> None:
    held = segment(disk).open("wb")
    closing = threading.Timer(0.5, held.close)
    closing.start()
    remove_disks(RUN)
    closing.join()
    assert left(folder) == []


def test_every_action_is_on_disk_before_it_is_done(disk: Disk, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    actions: dict[str, Callable[[], object]] = {
        "freeze": disk.freeze,
        "cut power": disk.cut_power,
        "fail": disk.fail,
        "mount again": disk.power_back,
        "fill": disk.fill,
    }

    class Stopped(Exception):
        """In place of the action."""

    def stop(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        for name in (*STEPS, "mounted"):
            patched.setattr(kernel, name, stop)
        for step, action in actions.items():
            with pytest.raises(Stopped):
                action()
            last = json.loads(Journal(RUN).path.read_text().splitlines()[-1])
            assert last == {"step": step, "node": 1}


def test_the_journal_is_for_this_user_alone(disk: Disk) -> None:
    assert journal_folder("disks").stat().st_mode & 0o777 == 0o700
    assert Journal(RUN).path.stat().st_mode & 0o777 == 0o600


def test_a_torn_last_line_changes_nothing(disk: Disk, folder: Path) -> None:
    disk.freeze()
    path = Journal(RUN).path
    whole = path.read_bytes()
    begin = whole.index(b"\n") + 1
    for length in {begin, begin + 1, len(whole) - 3, len(whole)}:
        path.write_bytes(whole[:length])
        recorded = read_journal(RUN)
        assert recorded is not None
        assert [one.point for one in recorded.disks] == [disk.files.point]
    path.write_bytes(whole[: begin + 5])
    thaw_disks(RUN)
    assert not disk.is_frozen()
    remove_disks(RUN)
    assert left(folder) == []


def test_no_note_is_made_after_the_end(disk: Disk) -> None:
    remove_disks(RUN)
    with pytest.raises(FileNotFoundError):
        disk.freeze()
    assert list(journals()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from kafka_chaos.harness.cluster.disks import kernel
from kafka_chaos.harness.cluster.disks.disk import make_disks
from kafka_chaos.harness.cluster.disks.healing import remove_disks
folder, step, when, count = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
real, calls = getattr(kernel, step), 0

def killed(*arguments):
    global calls
    calls += 1
    if calls == count and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(*arguments)
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

setattr(kernel, step, killed)
names = {1: "broker-1", 2: "broker-2"}
disks = make_disks("test-disks", {"kafka-chaos.run": "test-disks"}, folder, names=names, mib=256, log_directories=1)
disks[1].freeze()
disks[1].thaw()
disks[1].freeze()
disks[2].cut_power()
disks[2].power_back()
disks[2].fail()
disks[2].make_whole()
disks[1].fill()
disks[1].make_whole()
remove_disks("test-disks")
"""


@pytest.mark.parametrize(
    ("step", "count"),
    [
        *(("make_file_system", count) for count in (1, 2)),
        *(("mount", count) for count in (1, 2, 3, 4)),
        *(("unmount", count) for count in (1, 2, 3, 4)),
        *(("freeze", count) for count in (1, 2)),
        *(("thaw", count) for count in (1, 2)),
        ("shut_down", 1),
        ("fail", 1),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_whenever_the_process_is_killed_the_journal_suffices(step: str, count: int, when: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), step, when, str(count)], check=False, timeout=60)
    assert done.returncode == -9, "it was killed on the way"
    (recorded,) = journals()
    thaw_disks(recorded.run_id)
    remove_disks(recorded.run_id)
    assert left(folder) == []


def test_a_journal_that_was_never_begun_is_none(folder: Path) -> None:
    journal_folder("disks").mkdir(parents=True)
    (journal_folder("disks") / ".test-disks.jsonl.00ff.part").write_text('{"step": "be')
    assert list(journals()) == []
    assert remove_disks(RUN) == 0


def test_a_loop_device_that_outlived_its_mount_is_detached(disk: Disk, folder: Path) -> None:
    device = next(kernel.loop_devices(disk.files.image))
    # Whoever holds the device keeps it from going with the mount.
    holder = os.open(device, os.O_RDONLY)
    threading.Timer(0.5, os.close, (holder,)).start()
    started = time.monotonic()
    remove_disks(RUN)
    assert time.monotonic() - started > 0.3
    assert left(folder) == []


def test_the_trial_of_the_doctor_leaves_nothing(tmp_path: Path) -> None:
    assert lost_in_trial("test-trial", run_labels("test-trial", keep=False)) == 4096
    assert list(journals()) == []
    assert not Path("/tmp/kafka-chaos-disks-test-trial").exists()


def test_labels_say_who_made_it(folder: Path) -> None:
    make_disks(RUN, run_labels(RUN, keep=True), folder, names={1: "broker-1"}, mib=256, log_directories=1)
    (recorded,) = journals()
    assert recorded.labels["kafka-chaos.owner"] == current_owner()
    assert recorded.labels["kafka-chaos.keep"] == "true"
