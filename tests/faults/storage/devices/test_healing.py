"""The journal of disks, and what heals and removes them by it: nothing is left, whenever the process ends."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_chaos.contract.command.journal import journal_folder
from kafka_chaos.faults.storage.devices import kernel
from kafka_chaos.faults.storage.devices.disk import Disk
from kafka_chaos.faults.storage.devices.healing import Journal, disk_journals, read_journal, remove_disks, thaw_disks
from tests.clusters import needs_disks
from tests.faults.storage.devices.made_disks import RUN, left, segment

pytestmark = needs_disks

STEPS = ("make_file_system", "mount", "flush", "freeze", "thaw", "shut_down", "fail", "unmount", "detach")
"""Each function that changes this machine; a process may be killed before or after it."""


def test_nothing_is_left_and_removing_twice_does_nothing_more(disk: Disk, folder: Path) -> None:
    disk.freeze()
    thaw_disks(RUN)
    assert remove_disks(RUN) == 1
    assert remove_disks(RUN) == 0
    assert left(folder) == []


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
    assert list(disk_journals()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from kafka_chaos.faults.storage.devices import kernel
from kafka_chaos.faults.storage.devices.disk import make_disks
from kafka_chaos.faults.storage.devices.healing import remove_disks
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
disks[2].repair()
disks[1].fill()
disks[1].repair()
remove_disks("test-disks")
"""


@pytest.mark.parametrize(
    ("step", "count"),
    [
        *(("make_file_system", count) for count in (1, 2)), *(("mount", count) for count in (1, 2, 3, 4)),
        *(("unmount", count) for count in (1, 2, 3, 4)), *(("freeze", count) for count in (1, 2)),
        *(("thaw", count) for count in (1, 2)), ("shut_down", 1), ("fail", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_whenever_the_process_is_killed_the_journal_suffices(step: str, count: int, when: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), step, when, str(count)], check=False, timeout=60)
    assert done.returncode == -9, "it was killed on the way"
    (recorded,) = disk_journals()
    thaw_disks(recorded.run_id)
    remove_disks(recorded.run_id)
    assert left(folder) == []


def test_a_loop_device_that_outlived_its_mount_is_detached(disk: Disk, folder: Path) -> None:
    device = next(kernel.loop_devices(disk.files.image))
    # Whoever holds the device keeps it from going with the mount.
    holder = os.open(device, os.O_RDONLY)
    started = time.monotonic()
    threading.Timer(0.5, os.close, (holder,)).start()
    remove_disks(RUN)
    assert time.monotonic() - started > 0.3
    assert left(folder) == []
