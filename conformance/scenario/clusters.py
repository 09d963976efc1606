"""Clusters that scenarios share: started on first use, and cleaned up before the next scenario uses them.

In a clean cluster every node runs, nothing is frozen, there are no packet filter rules, and all brokers are
registered. A cluster that can't be cleaned up is removed, and the next scenario gets a new one.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from kafka_chaos.conformance.migration import Migration
from kafka_chaos.contract.command.errors import KafkaChaosError
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.metadata import KRAFT, ZOOKEEPER, release
from kafka_chaos.faults.network.packet_filter import RuleSet
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerClient, ask_each
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_ID_BASE
from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.cluster.metadata.protocol import Metadata
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.reference_model.lockstep.state import ClusterConfig
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.protocol.rules import rules_in

_ZOOKEEPER_KEY_PREFIXES = ("zookeeper.", "controlled.shutdown.retry.", "controlled.shutdown.max.")
_MAX_RUNNING_CLUSTERS = 2
"""Each cluster takes 1.3 GB of memory."""


@dataclass(frozen=True, kw_only=True)
class ClusterProfile:
    """A kind of cluster: its settings, and the `protocol` by which followers truncate in the model.

    `fresh`: each act (a part of a scenario, on a topic of its own) gets a cluster of its own.
    `lag_is_short`: a follower that does not fetch leaves the ISR within a step (`replica.lag.time.max.ms`). Otherwise
    that time is longer than any scenario.
    `controllers`: the number of dedicated controllers in KRaft mode; a scenario breaks one only if there are several.
    `migration_controllers`: the number of controllers to which a cluster with ZooKeeper can migrate.
    `elr`: whether leaders may be elected from the eligible leader replicas (KIP-966); None: the default of the version.
    `links`: whether every connection passes a link, which can hold requests. `configs_of`: each broker's own settings.
    """

    name: str
    brokers: int = 3
    fresh: bool = False
    log_directories: int = 1
    metadata_mode: str = ZOOKEEPER
    kafka_version: str = KAFKA_VERSION
    controllers: int = 1
    migration_controllers: int = 0
    elr: bool | None = None
    links: bool = False
    protocol: str = "kip320"
    lag_is_short: bool = False
    configs: Mapping[str, object] = field(default_factory=dict)
    configs_of: Mapping[int, Mapping[str, object]] = field(default_factory=dict)

    def in_kraft(self, kafka_version: str) -> Self:
        """The same profile in KRaft mode with dedicated controllers, without the keys of brokers with ZooKeeper.

        `kafka_version` replaces the default version, and the older version of a profile that is in KRaft mode already.
        Any other version stays: the profile needs it.
        """
        is_older = self.metadata_mode == KRAFT and release(self.kafka_version) < release(kafka_version)
        version = kafka_version if is_older or self.kafka_version == KAFKA_VERSION else self.kafka_version
        name = f"{self.name}, Kafka {version} in KRaft mode"
        configs = {key: value for key, value in self.configs.items() if not key.startswith(_ZOOKEEPER_KEY_PREFIXES)}
        return replace(self, name=name, metadata_mode=KRAFT, kafka_version=version, configs=configs)

    @property
    def voters(self) -> tuple[int, ...]:
        """The node ids of the controllers where there are several, so that some may fail; otherwise none."""
        has_several = self.metadata_mode == KRAFT and self.controllers > 1
        return tuple(CONTROLLER_ID_BASE + number for number in range(1, self.controllers + 1)) if has_several else ()

    def model_config(self, **topic: Any) -> ClusterConfig:
        """The model's configuration for a topic on this kind of cluster. `topic`: further fields of `ClusterConfig`."""
        rules, version = rules_in(self.kafka_version, self.metadata_mode, self.elr), release(self.kafka_version)
        return ClusterConfig(
            protocol=PROTOCOLS[self.protocol],
            lag_is_short=self.lag_is_short,
            kraft=self.metadata_mode == KRAFT,
            watermark_waits_for_min_isr=rules.watermark_waits,
            elects_eligible=rules.elects_eligible,
            controllers=self.voters,
            resigns_without_majority=version >= (3, 7),
            asks_before_election=version >= (4, 0),
            **topic,
        )

    @property
    def layout(self) -> ClusterLayout:
        """The layout with which a cluster of this profile is started."""
        return ClusterLayout(
            kafka_version=self.kafka_version,
            metadata_mode=self.metadata_mode,
            controllers=self.controllers if self.metadata_mode == KRAFT else 0,
            migration_controllers=self.migration_controllers,
            elr=self.elr,
            links=self.links,
            brokers=self.brokers,
            log_directories=self.log_directories,
            broker_configs={**_COMMON_CONFIGS, **self.configs},
            configs_of=dict(self.configs_of),
        )


_COMMON_CONFIGS: Mapping[str, object] = {
    # Scenarios compare checkpoints: write them every half second instead of every five seconds.
    "replica.high.watermark.checkpoint.interval.ms": 500,
    # Longer than any cut of a scenario, unless the profile sets it.
    "replica.lag.time.max.ms": 300_000,
    # Observing a log directory copies its index files: 10 MiB each by default.
    "log.index.size.max.bytes": 4096,
}

STEADY = ClusterProfile(name="steady")
"""A follower stays in the ISR however long it is cut off. Other settings are Kafka's defaults, or serve observation."""

QUICK = ClusterProfile(name="short lag time", lag_is_short=True, configs={"replica.lag.time.max.ms": 2500})
"""A follower that does not fetch leaves the ISR after 2.5 to 3.8 seconds."""


@dataclass
class ClusterLease:
    """A running cluster and the connections to it. `is_reusable`: whether further acts may use the cluster."""

    profile: ClusterProfile
    cluster: Cluster
    admin: ClusterAdmin
    metadata: Metadata
    view: ClusterView[Node]
    is_reusable: bool = True

    def close(self) -> None:
        """Close the connections and remove the cluster."""
        try:
            self.metadata.close()
        finally:
            self.cluster.__exit__(None, None, None)

    def make_controller(self, broker: int) -> int:
        """Make a broker the controller, wait until every broker's metadata names it, and return its id.

        The winner of an election is random, so elections are repeated; each raises the controller epoch. In KRaft mode
        brokers can't be controllers, so this does nothing, and returns the id of the active controller.
        """
        if self.profile.metadata_mode == KRAFT:
            return self.settled_controller()

        def elected() -> bool:
            controller = self._await_settled_controller()
            if controller != broker:
                self.metadata.depose_controller()
            return controller == broker

        wait_until(elected, f"broker {broker} to become controller", timeout=60, interval=0.05)
        return self.settled_controller()

    def settled_controller(self) -> int:
        """The id of the present controller; with ZooKeeper, once every broker's metadata names it."""
        if self.profile.metadata_mode == KRAFT:
            return wait_until(self.metadata.controller, "a controller to be active", timeout=30)
        controller = self._await_settled_controller()
        # An admin client keeps using the controller that it learned of first.
        self.admin = ClusterAdmin(self.cluster.bootstrap_servers)
        self.view = ClusterView(self.cluster, self.admin)
        return controller

    def _await_settled_controller(self) -> int:
        """The id of the controller, once every broker names it: only then is its election over."""

        def controllers_named() -> dict[int, int | None]:
            addresses = self.cluster.addresses.items()
            return {number: next(ask_each([address], BrokerClient.controller), None) for number, address in addresses}

        def agreed() -> int | None:
            controller = self.metadata.controller()
            return controller if set(controllers_named().values()) == {controller} else None

        return wait_until(
            agreed,
            "all brokers to know the controller",
            timeout=30,
            seen=lambda: f"ZooKeeper: {self.metadata.controller()}, brokers: {controllers_named()}",
        )

    def isolation(self, broker: int) -> RuleSet:
        """Packet filter rules that drop all traffic between a broker and the other nodes; clients still reach it."""
        others = [node.address for node in self.cluster.nodes if node is not self.cluster.brokers[broker]]
        # The other node is the source of incoming packets, and the destination of outgoing ones.
        options = {"INPUT": "-s", "OUTPUT": "-d"}
        rules = {hook: [(option, other, "-j", "DROP") for other in others] for hook, option in options.items()}
        return RuleSet("isolation", rules)

    def clean_up(self) -> None:
        """Thaw, start and reconnect all nodes, so that the cluster is clean; raises `KafkaChaosError` if that fails."""
        for node in self.cluster.nodes:
            node.unpause()
        for node in [*self.cluster.brokers.values(), *self.cluster.controllers.values()]:
            if node.is_running():
                for command in ("-F", "-X"):  # Delete all rules, then all chains.
                    node.must_execute("iptables", "-w", command)
        self.cluster.start_again(self.cluster.nodes)
        brokers = frozenset(self.cluster.brokers)
        wait_until(
            lambda: self.metadata.brokers() == brokers and self.metadata.controller() is not None,
            "all brokers to be registered",
            timeout=30,
            seen=lambda: str(sorted(self.metadata.brokers() or ())),
        )


class ClusterPool(AbstractContextManager["ClusterPool"]):
    """Running clusters by profile; a context manager that removes them all.

    `kraft_version`: if given, every cluster runs in KRaft mode (`ClusterProfile.in_kraft`).
    """

    def __init__(self, *, kraft_version: str | None = None) -> None:
        self._kraft_version = kraft_version
        self._running: dict[str, ClusterLease] = {}

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for lease in self._running.values():
                stack.callback(lease.close)
            self._running.clear()

    def lease_clean_cluster(self, profile: ClusterProfile) -> ClusterLease:
        """A clean cluster of this profile: a new one if the profile is `fresh` or no running one can be cleaned up."""
        if self._kraft_version is not None:
            profile = profile.in_kraft(self._kraft_version)
        lease = self._running.get(profile.name)
        if lease is not None:
            try:
                if lease.is_reusable and not profile.fresh:
                    lease.clean_up()
                    return lease
            except KafkaChaosError as trouble:
                logging.getLogger(__name__).info("cluster %s is removed: %s", profile.name, trouble)
            self._remove(lease)
        while len(self._running) >= _MAX_RUNNING_CLUSTERS:
            self._remove(next(iter(self._running.values())))
        lease = self._running[profile.name] = _start(profile)
        return lease

    @contextmanager
    def leased(self, profile: ClusterProfile) -> Iterator[ClusterLease]:
        """A clean cluster of this profile for a `with` block; an error in the block removes the cluster."""
        lease = self.lease_clean_cluster(profile)
        try:
            yield lease
        except BaseException as error:
            try:
                if lease in self._running.values():
                    self._remove(lease)
            except Exception as trouble:  # noqa: BLE001  the first error is the one that counts
                error.add_note(f"its cluster could not be removed either: {trouble}")
            raise

    def _remove(self, lease: ClusterLease) -> None:
        lease.close()
        # Only now: if closing is interrupted, leaving the pool closes the cluster.
        del self._running[lease.profile.name]


def _start(profile: ClusterProfile) -> ClusterLease:
    make_mode = Migration if profile.migration_controllers else None
    cluster = Cluster(profile.layout, run_id=f"scenario-{secrets.token_hex(4)}", make_mode=make_mode)
    cluster.__enter__()
    try:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        metadata = cluster.metadata()
    except BaseException:
        cluster.__exit__(None, None, None)
        raise
    return ClusterLease(profile, cluster, admin, metadata, ClusterView(cluster, admin))
