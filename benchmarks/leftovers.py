"""Leftovers of a run or a cluster on this machine, after its end and `kafka-chaos clean`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kafka_chaos.faults.storage.devices.healing import Journal
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.labels import RUN


def left_of(run_id: str, disks: Iterable[Path]) -> Counter[str]:
    """Leftovers of a run or a cluster, by kind; `disks`: the folders where its brokers' disks may have been made."""
    client, mine = docker_client(), {"label": f"{RUN}={run_id}"}
    loops = (file.read_text().strip() for file in Path("/sys/block").glob("loop*/loop/backing_file"))
    left = {
        "containers": len(client.containers.list(all=True, filters=mine)),
        "networks": len(client.networks.list(filters=mine)),
        "mounts": sum(run_id in line for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        "loop devices": sum(run_id in loop for loop in loops),
        "images of disks": sum(len(list(folder.glob("**"))) for folder in disks),
        "journals": int(Journal(run_id).path.exists()),
    }
    return Counter({kind: count for kind, count in left.items() if count})
