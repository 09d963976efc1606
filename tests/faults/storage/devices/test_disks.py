"""Disks on this machine, without a cluster: what each action does, and that nothing is left whenever it ends.

They need loop mounts, so root. A machine that can't do them skips these tests and says why; `kafka-chaos doctor` says
the same.
"""

import errno
import os
import threading
from pathlib import Path

import pytest

from kafka_chaos.faults.storage.devices import kernel
from kafka_chaos.faults.storage.devices.disk import Disk, bytes_lost_in_trial
from kafka_chaos.faults.storage.devices.healing import disk_journals
from kafka_chaos.harness.cluster.containers.labels import run_labels
from tests.clusters import needs_disks
from tests.faults.storage.devices.made_disks import segment

pytestmark = needs_disks


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
    disk.repair()
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
    disk.repair()
    assert not disk.is_filled()
    assert disk.free_bytes() > 100 << 20
    blocks = disk.files.image.stat().st_blocks * 512
    assert blocks < 64 << 20, "the image takes room only for what was written"


def test_a_disk_that_failed_refuses_writes_and_has_lost_what_was_not_flushed(disk: Disk) -> None:
    log = segment(disk)
    write_flushed(log, b"f" * 100)
    with log.open("ab") as file:
        file.write(b"u" * 50)
    assert not disk.is_read_only()
    disk.fail()
    disk.fail()
    assert disk.is_read_only()
    disk.fill()
    disk.freeze()
    assert (disk.is_filled(), disk.is_frozen()) == (False, False), "a broken disk is neither"
    disk.repair()
    assert not disk.is_read_only()
    assert log.read_bytes() == b"f" * 100


@pytest.mark.parametrize("action", ["fill", "fail", "cut_power", "is_read_only", "repair"])
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
    assert kernel.file_limiting_writes(groups) == (None if file is None else tmp_path / file)


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
    disk.repair()
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
        assert disk.failing_segments() == {"log-directory-1/orders-0/1.log": True}
        for path in (old, other):
            path.write_bytes(b"taken")
        disk.repair()
        opened.write(b"taken")
    assert disk.failing_segments() == {}
    disk.refuse_appends(None)
    assert [name.split("/")[1] for name in sorted(disk.failing_segments())] == ["orders-0", "others-0"]
    disk.allow_appends()
    disk.allow_appends()


@pytest.mark.usefixtures("own_state")
def test_the_trial_of_the_doctor_leaves_nothing() -> None:
    assert bytes_lost_in_trial("test-trial", run_labels("test-trial", keep=False)) == 4096
    assert list(disk_journals()) == []
    assert not Path("/tmp/kafka-chaos-disks-test-trial").exists()
