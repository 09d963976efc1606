"""A cluster in containers on one network. Containers and network have the run's label, and are removed with the run.

Everything is removed by this label. So the end of the `with` block also removes what an interrupt left half-made.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ClusterKept
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.building import NodeBuilder
from kafka_chaos.harness.cluster.configuration import server_properties as properties
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.containers import network as networks
from kafka_chaos.harness.cluster.containers.cleanup import remove_dead_runs_with_disks, remove_run, set_up_reaper
from kafka_chaos.harness.cluster.containers.engine import check_memory, docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image, scratch
from kafka_chaos.harness.cluster.containers.labels import run_labels
from kafka_chaos.harness.cluster.containers.versions import check_version
from kafka_chaos.harness.cluster.metadata.protocol import Members, Metadata, MetadataMode
from kafka_chaos.harness.cluster.metadata.zookeeper import ZooKeeperMode
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.security import PLAINTEXT, SecuredListener, add_user, make_listener
from kafka_chaos.harness.signals import signals_held_back, was_interrupted

if TYPE_CHECKING:
    from kafka_chaos.faults.links.relay.links import Links
    from kafka_chaos.faults.storage.devices.disk import Disk
    from kafka_chaos.harness.cluster.broker.client import BrokerClient

__all__ = ["Cluster", "ClusterLayout", "Keep", "kept_event"]

_ANSWER_TIMEOUT = 20.0  # seconds
_START_TIMEOUT = 120.0
"""Seconds for a broker's first start: all nodes start at once, maybe beside other work of the machine."""


class Keep(Enum):
    """When a cluster is left running at the end of its block. An interrupt removes it in any case."""

    NEVER = "never"
    FAILED = "failed"
    ALWAYS = "always"


class Cluster(Members):
    """A cluster that runs as long as its `with` block, or longer if `keep` says so.

    `spec`: its layout. `folder`: the folder for the brokers' own disks, by default in the system's temporary directory.
    `make_mode` makes the object that does what differs between metadata modes; by default, `spec` decides.
    """

    def __init__(
        self,
        spec: ClusterLayout,
        *,
        run_id: str,
        keep: Keep = Keep.NEVER,
        folder: Path | None = None,
        make_mode: Callable[[NodeBuilder], MetadataMode] | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.run_id = run_id
        self.keep = keep
        self._folder = folder or Path(tempfile.gettempdir(), f"kafka-chaos-disks-{run_id}")
        self.kept = False
        self._make_mode = make_mode or _mode_of_layout
        self._mode: MetadataMode | None = None
        self._metadata: Metadata | None = None
        self._listener = SecuredListener()
        self.links: Links | None = None

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
        # After an interrupt, which is no `Exception` unless it caused one, nothing is kept.
        failed, succeeded = isinstance(error, Exception) and not was_interrupted(), error is None
        self.kept = (failed and self.keep is not Keep.NEVER) or (succeeded and self.keep is Keep.ALWAYS)
        with signals_held_back():
            if self.links is not None:
                # Links end with this process anyway; a cluster that is kept serves without them.
                self.links.close()
            if not self.kept:
                remove_run(docker_client(), self.run_id)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers for clients, at this machine, or else at the host that `advertise` names."""
        return ",".join(self.addresses.values())

    @property
    def network(self) -> str:
        """The name of the engine's network that the containers are on, and that containers with clients can join."""
        return f"kafka-chaos-{self.run_id}"

    @property
    def bootstrap_servers_in_network(self) -> str:
        """The addresses of all brokers for clients in containers of the `network`, by the brokers' host names."""
        return ",".join(f"{node.name}:{properties.NETWORK_PORT}" for node in self.brokers.values())

    @property
    def client_configs(self) -> Mapping[str, str]:
        """Clients' configuration besides the address, in librdkafka's keys; empty on a plaintext listener. Secret."""
        return self._listener.client_configs

    @property
    def client_config_file(self) -> Path | None:
        """A file with `client_configs` for other tools, which is removed with the cluster."""
        return self._listener.client_config_file

    def admin(self, *, topics: Mapping[str, str] | None = None) -> ClusterAdmin:
        """An admin client; `topics` are the names of lanes' topics, as in `ClusterAdmin`."""
        return ClusterAdmin(self.bootstrap_servers, topics=topics, configs=self.client_configs)

    def broker_client(self, broker: int, *, timeout: float = 3.0) -> BrokerClient:
        """A connection to one broker."""
        from kafka_chaos.harness.cluster.broker.client import BrokerClient

        return BrokerClient(self.addresses[broker], timeout=timeout, configs=self.client_configs)

    @property
    def mode(self) -> MetadataMode:
        """The operations that differ between the metadata modes."""
        assert self._mode is not None, "the cluster was not started"
        return self._mode

    def metadata(self) -> Metadata:
        """A connection to the cluster's metadata."""
        return self.mode.metadata(self)

    def controller(self, admin: ClusterAdmin) -> int | None:
        """The number of the node that is the (active) controller; None while there is none or no node answers in time.

        With ZooKeeper, the metadata that `admin` gets names the controller. In KRaft mode, only the quorum knows it.
        """
        if self.spec.metadata_mode != KRAFT:
            return admin.controller()
        if self._metadata is None:
            self._metadata = self.metadata()
        return self._metadata.controller()

    def registered_brokers(self) -> frozenset[int]:
        """The brokers that are registered now, and not fenced; raises `ClusterFailure` if no node answers in time."""

        # `wait_until` waits for a true value. A tuple is true even if the answer in it is an empty set.
        def answer() -> tuple[frozenset[int]] | None:
            with suppress(ClusterFailure), closing(self.metadata()) as metadata:
                if (brokers := metadata.brokers()) is not None:
                    return (brokers,)
            return None

        return wait_until(answer, "a node to name the brokers", timeout=_ANSWER_TIMEOUT, interval=0.1)[0]

    def start_again(self, nodes: Sequence[Node], *, timeout: float = 60.0) -> None:
        """Start the nodes that are down, each when its former session is over, and wait until all serve."""
        self.mode.start_again(self, nodes, timeout=timeout)

    def change_version(self, node: Node, kafka_version: str) -> None:
        """Let a node that is down start with another version of Kafka next, on its data, address and port.

        The feature levels (KRaft) and the brokers' protocol (ZooKeeper) stay as they are. Raises `UsageFailure` for a
        version that can't be run in the cluster's metadata mode.
        """
        check_version(kafka_version, self.spec.metadata_mode)
        # A disk of the node's own is mounted again. Other data is in the old container's layer, and has to be copied.
        copied_folders = () if node.disk is not None else properties.LOG_DIRECTORIES[: self.spec.log_directories]
        node.replace_at_next_start(self.mode.container(node, kafka_version), copied_folders)

    def _start(self) -> None:
        if self.spec.advertise is None:
            check_memory(self.spec.brokers + self.spec.controllers + self.spec.migration_controllers)
        client = docker_client()
        remove_dead_runs_with_disks(client)
        for version in (self.spec.version, *self.spec.versions):
            ensure_image(version.number, clock=self.spec.clocks)
        set_up_reaper(client, keep=self.keep is not Keep.NEVER)
        logging.getLogger("testcontainers").setLevel(logging.WARNING)
        labels = run_labels(self.run_id, keep=self.keep is not Keep.NEVER)
        network = networks.create_network(client, self.network, labels)
        names = _node_names(self.spec)
        addresses = dict(zip(names, networks.node_addresses(network, len(names)), strict=True))
        engine_ip = networks.address_of(self.spec.advertise or networks.LOOPBACK)
        ports = iter(networks.free_ports(len(names), engine_ip))
        disks = self._make_disks(labels)
        volume = self._make_remote_store(labels)
        builder = NodeBuilder(self.spec, self.run_id, self.network, labels, addresses, ports, engine_ip, disks, volume)
        self._mode = self._make_mode(builder)
        members = self._mode.make()
        self.brokers, self.zookeepers, self.controllers = members.brokers, members.zookeepers, members.controllers
        if self.spec.security != PLAINTEXT:
            self._secure(labels)
        self._make_links()
        if self.spec.clocks:
            for node in self.nodes:
                node.add_clock()
        self._start_nodes()
        for disk in disks.values():
            # A later loss of power is meant to lose records, not the files of the start.
            disk.flush()

    def _make_links(self) -> None:
        if not self.spec.links:
            return
        from kafka_chaos.faults.links.relay.links import Links

        ports = (properties.CONTROL_PORT, properties.REPLICATION_PORT, properties.CLIENT_PORT, properties.NETWORK_PORT)
        self.links = Links({node.address: node.name for node in self.nodes}, ports)
        for node in (*self.brokers.values(), *self.controllers.values()):
            node.link = self.links.link_to(node.name)

    def _make_remote_store(self, labels: Mapping[str, str]) -> str:
        """Make the volume of the brokers' remote store, and return its name; empty without tiered storage."""
        if not self.spec.tiered_storage:
            return ""
        from kafka_chaos.harness.cluster.remote_store.volume import make_volume

        name = f"kafka-chaos-{self.run_id}-remote-store"
        make_volume(name, labels, self.spec.brokers)
        return name

    def _make_disks(self, labels: Mapping[str, str]) -> Mapping[int, Disk]:
        if not self.spec.disk_mib:
            return {}
        from kafka_chaos.faults.storage.devices.disk import make_disks

        brokers = {broker: properties.node_name("broker", broker) for broker in range(1, self.spec.brokers + 1)}
        return make_disks(
            self.run_id,
            labels,
            self._folder,
            names={**brokers, **properties.voters(self.spec)},
            mib=self.spec.disk_mib,
            log_directories=self.spec.log_directories,
        )

    def _secure(self, labels: Mapping[str, str]) -> None:
        from kafka_chaos.harness.cluster.metadata.kraft import KRaftMode

        with scratch(labels) as maker:
            nodes = self.brokers.values()
            names = sorted({name for node in nodes for name in (node.host, node.name, node.address)})
            self._listener = make_listener(self.spec.security, run_id=self.run_id, maker=maker, names=names)
        if isinstance(self.mode, KRaftMode):
            # The quorum is asked through the brokers, as clients ask them.
            self.mode.client_configs = self.client_configs
        for node in self.brokers.values():
            for path, content in self._listener.broker_files.items():
                node.testcontainer.with_copy_into_container(content, path, 0o600)

    def _start_nodes(self) -> None:
        # The executor's end waits for its threads, so that they create nothing after a clean-up.
        with ThreadPoolExecutor(max_workers=len(self.nodes)) as threads:
            try:
                started_zookeepers = self._start_zookeeper(threads)
                for group in self.mode.starting_groups(self):
                    list(threads.map(self._start_and_await, group))
                for future in started_zookeepers:
                    future.result()
                # With SASL, clients can log in only once their user is added.
                first_broker = self.brokers[1]
                add_user(first_broker, f"{first_broker.name}:{properties.REPLICATION_PORT}", self.client_configs)
                admins = [ClusterAdmin(address, configs=self.client_configs) for address in self.addresses.values()]
                list(threads.map(lambda admin: admin.await_brokers(self.spec.brokers), admins))
            except BaseException:
                threads.shutdown(wait=True, cancel_futures=True)
                raise

    def _start_and_await(self, node: Node) -> None:
        node.create_and_start()
        if node.disk is not None:
            # An engine that does not see this process's mounts binds an empty folder, which no fault would break.
            code, device = node.execute("stat", "-c", "%d", properties.LOG_DIRECTORIES[0])
            if code == 0 and int(device) != node.disk.folder(0).stat().st_dev:
                raise EnvironmentFailure(
                    f"{node.name} got a folder that is not on its disk: the engine does not see what is mounted here; "
                    "run kafka-chaos in the engine's own mount namespace"
                )
        self.mode.await_ready(self, node, timeout=_START_TIMEOUT)

    def _start_zookeeper(self, threads: ThreadPoolExecutor) -> list[Future[None]]:
        """Start ZooKeeper's containers, and wait until they are created; returns the futures of the starts."""
        # A moment before the brokers: a broker that can't connect tries again only a second later.
        nodes = list(self.zookeepers.values())
        started = [threads.submit(node.create_and_start) for node in nodes]
        wait_until(
            lambda: all(node.exists() for node in nodes) or any(future.done() for future in started),
            "ZooKeeper's containers to be created",
            timeout=60,
            interval=0.01,
        )
        return started


def kept_event(cluster: Cluster) -> ClusterKept:
    """The event that a cluster is left running, with its containers and how clients reach it."""
    return ClusterKept(
        run_id=cluster.run_id,
        containers=tuple(node.container_name for node in cluster.nodes if node.exists()),
        bootstrap_servers=cluster.bootstrap_servers,
        client_config=str(cluster.client_config_file or ""),
        network=cluster.network,
        bootstrap_servers_in_network=cluster.bootstrap_servers_in_network,
    )


def _mode_of_layout(builder: NodeBuilder) -> MetadataMode:
    # Imported here, since this module imports kafka-python, which the check of an experiment does not need.
    from kafka_chaos.harness.cluster.metadata.kraft import KRaftMode

    return KRaftMode(builder) if builder.layout.metadata_mode == KRAFT else ZooKeeperMode(builder)


def _node_names(spec: ClusterLayout) -> list[str]:
    server = "controller" if spec.metadata_mode == KRAFT else "zookeeper"
    counts = ((server, spec.metadata_servers), ("controller", spec.migration_controllers), ("broker", spec.brokers))
    return [properties.node_name(role, number) for role, count in counts for number in range(1, count + 1)]
