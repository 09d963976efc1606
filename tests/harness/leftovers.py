"""Remains of a run on the Docker engine, and of its disks on this machine."""

from collections.abc import Iterator
from pathlib import Path

from kafka_chaos.faults.storage.devices.healing import Journal
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.labels import RUN


def left_of(run_id: str) -> list[str]:
    """Names of the containers, networks and volumes that carry the run's label, and containers that carry its name.

    Then what is left of its disks: mounts, loop devices and the journal.
    """
    client = docker_client()
    mine = {"label": f"{RUN}={run_id}"}
    found = [f"container {thing.name}" for thing in client.containers.list(all=True, filters=mine)]
    found += [f"container {thing.name}" for thing in client.containers.list(all=True, filters={"name": run_id})]
    found += [f"network {thing.name}" for thing in client.networks.list(filters=mine)]
    found += [f"network {thing.name}" for thing in client.networks.list(names=[run_id])]
    found += [f"volume {thing.name}" for thing in client.volumes.list(filters=mine)]
    return [*found, *_disks(run_id)]


def _disks(run_id: str) -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if run_id in line:
            yield f"mount {line.split()[4]}"
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        if run_id in (image := file.read_text().strip()):
            yield f"loop device {file.parts[3]} of {image}"
    if Journal(run_id).path.exists():
        yield f"journal {Journal(run_id).path}"
