"""A ZooKeeper ensemble and brokers in containers on one network, all labelled with the run and removed with it.

The label finds everything that was created, so that leaving the `with` block also removes what an interrupt left
half-made.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.cluster import server_properties as properties
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.configs import OWNED_BROKER_KEYS, check_keys
from kafka_chaos.harness.cluster.containers.cleanup import remove_run
from kafka_chaos.harness.cluster.containers.engine import check_memory, docker_client
from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION, ensure_image
from kafka_chaos.harness.cluster.containers.labels import ROLE, run_labels
from kafka_chaos.harness.cluster.containers.network import create_network, node_addresses
from kafka_chaos.harness.cluster.containers.ports import free_ports
from kafka_chaos.harness.cluster.containers.reaper import choose_reaper
from kafka_chaos.harness.cluster.containers.versions import check_version
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.security import PLAINTEXT, SecuredListener, check_security, make_listener
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

    from kafka_chaos.harness.cluster.broker_client import BrokerClient

BROKER_OPTIONS = ("-Xmx300m",)
ZOOKEEPER_OPTIONS = (
    "-Xmx128m",
    # An election also asks the dead server, whose address is gone: by default it gives up after 5 s, again and again.
    "-Dzookeeper.cnxTimeout=500",
)
_ASK_FOR_EPHEMERAL_NODES = f"exec 3<>/dev/tcp/127.0.0.1/{properties.ZOOKEEPER_PORT} && echo dump >&3 && cat <&3"
_REGISTRATION = re.compile(r"/brokers/ids/(\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class ClusterLayout:
    """What a cluster consists of.

    `broker_configs` go to every broker, `configs_of` to single ones by id; both in Kafka's own key names.
    `controller` names the broker that is to be controller (started first: in ZooKeeper mode the first to register
    becomes it), None leaves it open and starts all at once. With two `log_directories` a broker outlives the loss of
    one (`BROKER_DATA`, `SECOND_BROKER_DATA`). `security` is how clients connect: `plaintext`, `sasl_ssl`
    (SCRAM-SHA-512 over TLS) or `mtls` (TLS with client certificates).
    """

    brokers: int = 3
    zookeepers: int = 1
    kafka_version: str = KAFKA_VERSION
    controller: int | None = None
    broker_configs: Mapping[str, object] = field(default_factory=dict)
    configs_of: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    log_directories: int = 1
    security: str = PLAINTEXT

    def __post_init__(self) -> None:
        check_security(self.security)
        check_version(self.kafka_version)
        if not 1 <= self.brokers <= 9:
            raise UsageFailure(f"brokers: {self.brokers} is not valid: expected 1 to 9")
        if self.log_directories not in (1, 2):
            raise UsageFailure(f"log_directories: {self.log_directories} is not valid: expected 1 or 2")
        if self.zookeepers not in (1, 3):
            raise UsageFailure(f"zookeepers: {self.zookeepers} is not valid: expected 1 or 3")
        if self.controller is not None and not 1 <= self.controller <= self.brokers:
            raise UsageFailure(f"controller: {self.controller} is not a broker: expected 1 to {self.brokers}")
        check_keys("broker", self.broker_configs, owned=OWNED_BROKER_KEYS)
        for broker, configs in self.configs_of.items():
            if not 1 <= broker <= self.brokers:
                raise UsageFailure(f"configs_of: {broker} is not a broker: expected 1 to {self.brokers}")
            check_keys("broker", configs, owned=OWNED_BROKER_KEYS)


class Cluster:
    """A running cluster as a context manager.

    `keep` leaves it running when the block ends with an error; an interrupt still removes it.
    """

    def __init__(self, spec: ClusterLayout, *, run_id: str, keep: bool = False) -> None:
        self.spec = spec
        self.run_id = run_id
        self.keep = keep
        self.kept = False
        self.brokers: dict[int, Node] = {}
        self.zookeepers: dict[int, Node] = {}
        self._listener = SecuredListener()

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.keep and isinstance(error, Exception):
            self.kept = True
            return
        remove_run(docker_client(), self.run_id)

    @property
    def nodes(self) -> list[Node]:
        """All containers: ZooKeeper first."""
        return [*self.zookeepers.values(), *self.brokers.values()]

    @property
    def bootstrap_servers(self) -> str:
        """The client addresses of all brokers, on 127.0.0.1."""
        return ",".join(f"127.0.0.1:{node.host_port}" for node in self.brokers.values())

    @property
    def client_configs(self) -> Mapping[str, str]:
        """What clients need besides the address, in librdkafka's keys; empty on a plaintext listener. Secret."""
        return self._listener.client_configs

    @property
    def client_config_file(self) -> Path | None:
        """A file that holds `client_configs`, for other tools; gone with the cluster."""
        return self._listener.client_config_file

    def admin(self, *, topics: Mapping[str, str] | None = None) -> ClusterAdmin:
        """An admin client; `topics` as `ClusterAdmin` has them."""
        return ClusterAdmin(self.bootstrap_servers, topics=topics, configs=self.client_configs)

    def broker_client(self, broker: int, *, timeout: float = 3.0) -> BrokerClient:
        """A connection to one broker."""
        from kafka_chaos.harness.cluster.broker_client import BrokerClient

        return BrokerClient(self.client_address(broker), timeout=timeout, configs=self.client_configs)

    @property
    def zookeeper_addresses(self) -> str:
        """The addresses of all ZooKeeper servers, on 127.0.0.1."""
        return ",".join(f"127.0.0.1:{node.host_port}" for node in self.zookeepers.values())

    def client_address(self, broker: int) -> str:
        """The client address of one broker, which it keeps across restarts."""
        return f"127.0.0.1:{self.brokers[broker].host_port}"

    def registered_brokers(self, *, timeout: float = 20.0) -> frozenset[int]:
        """The brokers that are registered in ZooKeeper now, from the `dump` of one of its servers.

        Asks again for up to `timeout` seconds while no server answers; then raises `ClusterFailure`.
        """
        answer = wait_until(self._ephemeral_nodes, "a ZooKeeper server to answer", timeout=timeout, interval=0.1)
        return frozenset(int(number) for number in _REGISTRATION.findall(answer))

    def _ephemeral_nodes(self) -> str | None:
        for zookeeper in self.zookeepers.values():
            if zookeeper.is_running():
                code, answer = zookeeper.execute("bash", "-c", _ASK_FOR_EPHEMERAL_NODES)
                if code == 0 and "Sessions with Ephemerals" in answer:
                    return answer
        return None

    def start_again(self, nodes: Sequence[Node], *, timeout: float = 60.0) -> None:
        """Start what is down, each broker as soon as its former session has expired, and wait until all serve."""
        for node in nodes:
            if not node.is_running():
                self._await_no_registration(node, timeout)
                node.start()
        for node in nodes:
            try:
                node.await_ready(timeout)
            except ClusterFailure:
                if not node.found_its_registration_taken():
                    raise
                # On a busy machine the new session may expire too, and the next one meets its registration.
                self._await_no_registration(node, timeout)
                node.start()
                node.await_ready(timeout)

    def _await_no_registration(self, node: Node, timeout: float) -> None:
        if node.role == "broker":
            wait_until(
                lambda: node.number not in self.registered_brokers(),
                f"ZooKeeper to let go of {node.name}'s former session",
                timeout=timeout,
            )

    def _start(self) -> None:
        check_memory(self.spec.brokers)
        client = docker_client()
        image = ensure_image(self.spec.kafka_version)
        choose_reaper(client, keep=self.keep)
        logging.getLogger("testcontainers").setLevel(logging.WARNING)
        labels = run_labels(self.run_id, keep=self.keep)
        network = create_network(client, f"kafka-chaos-{self.run_id}", labels)
        names = [properties.zookeeper_name(number + 1) for number in range(self.spec.zookeepers)]
        names += [properties.broker_name(number + 1) for number in range(self.spec.brokers)]
        addresses = dict(zip(names, node_addresses(network, len(names)), strict=True))
        build = _NodeBuilder(self.spec, self.run_id, image, str(network.name), labels, addresses)
        ports = iter(free_ports(self.spec.zookeepers + self.spec.brokers))
        for number in range(1, self.spec.zookeepers + 1):
            self.zookeepers[number] = build.zookeeper(number, next(ports))
        for broker in range(1, self.spec.brokers + 1):
            self.brokers[broker] = build.broker(broker, next(ports))
        self._start_nodes()

    def _await_known(self, broker: int) -> None:
        admin = ClusterAdmin(self.client_address(broker), configs=self.client_configs)
        admin.await_brokers(self.spec.brokers)

    def _secure(self) -> None:
        for node in self.zookeepers.values():
            node.await_ready()
        self._listener = make_listener(
            self.spec.security,
            run_id=self.run_id,
            maker=self.zookeepers[1],
            zookeeper_addresses=self.zookeeper_addresses,
        )
        for node in self.brokers.values():
            for path, content in self._listener.broker_files.items():
                node.testcontainer.with_copy_into_container(content, path, 0o600)

    def _start_nodes(self) -> None:
        first = [self.brokers[self.spec.controller]] if self.spec.controller else []
        rest = [node for node in self.brokers.values() if node not in first]
        # Leaving the executor waits for its threads: nothing is created behind the back of a clean-up.
        with ThreadPoolExecutor(max_workers=len(self.nodes)) as threads:
            try:
                zookeepers = [threads.submit(node.create_and_start) for node in self.zookeepers.values()]
                # A broker that finds nobody to connect to asks again only a second later: ZooKeeper gets a head start.
                wait_until(
                    lambda: (
                        all(node.exists() for node in self.zookeepers.values()) or any(z.done() for z in zookeepers)
                    ),
                    "ZooKeeper's containers to be created",
                    timeout=60,
                    interval=0.01,
                )
                if self.spec.security != PLAINTEXT:
                    for future in zookeepers:
                        future.result()
                    self._secure()
                for group in (first, rest):
                    for future in [threads.submit(_start_and_await, node) for node in group]:
                        future.result()
                for future in zookeepers:
                    future.result()
                for future in [threads.submit(self._await_known, broker) for broker in self.brokers]:
                    future.result()
            except BaseException:
                threads.shutdown(wait=True, cancel_futures=True)
                raise


def _start_and_await(node: Node) -> None:
    node.create_and_start()
    node.await_ready()


@dataclass(frozen=True)
class _NodeBuilder:
    """Describes containers for Testcontainers; nothing is created yet."""

    spec: ClusterLayout
    run_id: str
    image: str
    network: str
    labels: dict[str, str]
    addresses: dict[str, str]

    @property
    def zookeeper_names(self) -> list[str]:
        return [properties.zookeeper_name(number) for number in range(1, self.spec.zookeepers + 1)]

    def zookeeper(self, number: int, host_port: int) -> Node:
        name = properties.zookeeper_name(number)
        text = properties.zookeeper_properties(zookeepers=self.zookeeper_names)
        container = self._container(name, "zookeeper", ZOOKEEPER_OPTIONS, text)
        container.ports[f"{properties.ZOOKEEPER_PORT}/tcp"] = ("127.0.0.1", host_port)  # type: ignore[assignment]
        if self.spec.zookeepers > 1:
            container.with_copy_into_container(f"{number}\n".encode(), f"{properties.ZOOKEEPER_DATA}/myid")
        started = "LEADER ELECTION TOOK" if self.spec.zookeepers > 1 else "PrepRequestProcessor"
        return Node(name, "zookeeper", number, self.addresses[name], host_port, started, container)

    def broker(self, broker: int, host_port: int) -> Node:
        name = properties.broker_name(broker)
        text = properties.broker_properties(
            broker,
            brokers=self.spec.brokers,
            host_port=host_port,
            zookeepers=self.zookeeper_names,
            configs={**self.spec.broker_configs, **self.spec.configs_of.get(broker, {})},
            log_directories=self.spec.log_directories,
            security=self.spec.security,
        )
        # Partitions are rules inside the broker's own network namespace.
        container = self._container(name, "broker", BROKER_OPTIONS, text, cap_add=["NET_ADMIN"])
        container.ports[f"{properties.CLIENT_PORT}/tcp"] = ("127.0.0.1", host_port)  # type: ignore[assignment]
        return Node(name, "broker", broker, self.addresses[name], host_port, "started (KafkaServer)", container)

    def _container(
        self, name: str, role: str, jvm_options: Sequence[str], text: str, **options: object
    ) -> DockerContainer:
        from docker.types import EndpointConfig
        from testcontainers.core.container import DockerContainer

        api_version = docker_client().api._version
        endpoint = EndpointConfig(version=api_version, aliases=[name], ipv4_address=self.addresses[name])
        container = DockerContainer(self.image, name=f"kafka-chaos-{self.run_id}-{name}")
        container.with_command(["/opt/kafka/bin/start-server", role, *jvm_options])
        # Not copied into the container: that costs every start a mount of its file system.
        container.with_env("SERVER_PROPERTIES", text)
        container.with_kwargs(
            hostname=name,
            labels={**self.labels, ROLE: name},
            # Docker's own names vanish with their container; names in real networks stay.
            extra_hosts=self.addresses,
            network=self.network,
            networking_config={self.network: endpoint},
            **options,
        )
        return container
