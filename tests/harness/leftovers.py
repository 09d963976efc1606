"""What is left of a run on the Docker engine."""

from __future__ import annotations

from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.labels import RUN


def left_of(run_id: str) -> list[str]:
    """Names of the containers, networks and volumes that carry the run's label, and containers that carry its name."""
    client = docker_client()
    mine = {"label": f"{RUN}={run_id}"}
    found = [f"container {thing.name}" for thing in client.containers.list(all=True, filters=mine)]
    found += [f"container {thing.name}" for thing in client.containers.list(all=True, filters={"name": run_id})]
    found += [f"network {thing.name}" for thing in client.networks.list(filters=mine)]
    found += [f"network {thing.name}" for thing in client.networks.list(names=[run_id])]
    return found + [f"volume {thing.name}" for thing in client.volumes.list(filters=mine)]
