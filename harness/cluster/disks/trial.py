"""Tries whether this machine can do what storage faults need, on a disk that is removed at once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from kafka_chaos.harness.cluster.disks.disk import make_disks
from kafka_chaos.harness.cluster.disks.healing import remove_disks, thaw_disks
from kafka_chaos.harness.errors import ClusterFailure

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
