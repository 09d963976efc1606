"""A disk on this machine, its journal in the test's own folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_chaos.faults.storage.devices.disk import Disk, make_disks
from kafka_chaos.faults.storage.devices.healing import remove_disks, thaw_disks
from tests.faults.storage.devices.made_disks import LABELS, RUN


@pytest.fixture
def folder(tmp_path: Path, own_state: None) -> Iterator[Path]:
    yield tmp_path / "run" / "disks"
    thaw_disks(RUN)
    remove_disks(RUN)


@pytest.fixture
def disk(folder: Path) -> Disk:
    return make_disks(RUN, LABELS, folder, names={1: "broker-1"}, mib=256, log_directories=2)[1]
