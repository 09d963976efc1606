"""Describes a cluster's containers for Testcontainers; the caller creates and starts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_chaos.faults.clock.process_clock import CLOCK_ENVIRONMENT
from kafka_chaos.faults.storage.remote_store import REMOTE_STORE
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import CLIENT_PORT, LOG_DIRECTORIES, ZOOKEEPER_PORT
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.labels import ROLE
from kafka_chaos.harness.cluster.containers.versions import KafkaVersion
from kafka_chaos.harness.cluster.node import Node

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

    from kafka_chaos.faults.storage.devices.disk import Disk

JVM_OPTIONS = {
    "broker": ("-Xmx300m",),
    "controller": ("-Xmx160m",),
    # In an election, each server connects to dead ones, too, again and again; by default it waits 5 s each time.
    "zookeeper": ("-Xmx128m", "-Dzookeeper.cnxTimeout=500"),
}


@dataclass(frozen=True)
class NodeBuilder:
    """Describes the nodes and containers of one cluster.

    `addresses`: IP addresses on the network, by host name. `engine_ip`: the address of the engine's machine, on which
    containers publish ports. `ports`: free ports of that address, enough for all containers. `disks`: by node id, the
    disks of brokers and controllers that have one. `remote_store`: the name of the store's volume, or empty.
    """

    layout: ClusterLayout
    run_id: str
    network: str
    labels: Mapping[str, str]
    addresses: Mapping[str, str]
    ports: Iterator[int]
    engine_ip: str
    disks: Mapping[int, Disk] = field(default_factory=dict)
    remote_store: str = ""

    def node(self, role: str, number: int, name: str, started_text: str, *, host_port: int | None = None) -> Node:
        """A node without its container, which the caller adds. `started_text`: what its server logs once it serves."""
        disk = None if role == "zookeeper" else self.disks.get(number)
        host = self.layout.advertise or self.engine_ip
        return Node(name, role, number, self.addresses[name], host_port, started_text, disk, host)

    def container(
        self,
        node: Node,
        server: str,
        properties: str,
        *,
        version: KafkaVersion,
        environment: Mapping[str, str] | None = None,
    ) -> DockerContainer:
        """A container that runs `server` (see docker/kafka/bin/start-server) with this server.properties."""
        from docker.types import EndpointConfig
        from testcontainers.core.container import DockerContainer

        api_version = docker_client().api._version
        endpoint = EndpointConfig(version=api_version, aliases=[node.name], ipv4_address=node.address)
        image = ensure_image(version.number, clock=self.layout.clocks)
        container = DockerContainer(image, name=f"kafka-chaos-{self.run_id}-{node.name}")
        # Only the server gets these variables: other commands in the container need the true time.
        env = ["env", *(f"{key}={value}" for key, value in CLOCK_ENVIRONMENT.items())] if self.layout.clocks else []
        container.with_command([*env, "/opt/kafka/bin/start-server", server, *JVM_OPTIONS[node.role]])
        # Properties come in a variable: to copy a file, Docker would mount the file system again, which takes time.
        for key, value in {"SERVER_PROPERTIES": properties, **(environment or {})}.items():
            container.with_env(key, value)
        is_zookeeper = node.role == "zookeeper"
        if node.host_port is not None:
            port = ZOOKEEPER_PORT if is_zookeeper else CLIENT_PORT
            container.ports[f"{port}/tcp"] = (self.engine_ip, node.host_port)  # type: ignore[assignment]
        if node.disk is not None:
            for number, path in enumerate(LOG_DIRECTORIES[: self.layout.log_directories]):
                container.with_volume_mapping(str(node.disk.folder(number)), path, "rw")
        if self.remote_store and node.role == "broker":
            container.with_volume_mapping(self.remote_store, REMOTE_STORE, "rw")
        container.with_kwargs(
            hostname=node.name,
            labels={**self.labels, ROLE: node.name},
            # Docker's names disappear while their container is down; in a real network, names stay.
            extra_hosts=dict(self.addresses),
            network=self.network,
            networking_config={self.network: endpoint},
            # Network partitions are packet-filter rules inside the network namespace of a node.
            cap_add=[] if is_zookeeper else ["NET_ADMIN"],
        )
        return container
