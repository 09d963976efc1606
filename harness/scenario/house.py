"""Clusters that scenarios share: started when first asked for, handed on only when they were left clean.

Clean means: every node runs, nothing is frozen, no packet filter rule stands, all brokers are registered. A cluster
that can't be brought there is removed, and the next scenario gets a new one.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from kafka_chaos.harness.admin import ClusterAdmin
from kafka_chaos.harness.broker_client import BrokerClient
from kafka_chaos.harness.cluster import Cluster, ClusterSpec
from kafka_chaos.harness.cluster_view import ClusterView
from kafka_chaos.harness.errors import KafkaChaosError
from kafka_chaos.harness.image import KAFKA_VERSION
from kafka_chaos.harness.node import Node
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.zookeeper import ZooKeeper

BEFORE_KIP_101: Mapping[str, object] = {
    # The same binaries truncate to the high watermark, as brokers did before leader epochs; records stay in format v2.
    "inter.broker.protocol.version": "0.11.0-IV1",
    "log.message.format.version": "0.11.0-IV1",
}
_MOST_AT_ONCE = 2
"""Clusters that stand at one time: 1.3 GB each."""


@dataclass(frozen=True, kw_only=True)
class House:
    """A kind of cluster: what it is started with, and the protocol by which the model has its followers truncate.

    `fresh`: each act gets a cluster of its own.
    `lag_is_short`: a follower that does not fetch leaves the ISR within a step (`replica.lag.time.max.ms`); where it is
    not, that time is longer than any scenario.
    """

    name: str
    brokers: int = 3
    fresh: bool = False
    log_directories: int = 1
    kafka_version: str = KAFKA_VERSION
    protocol: str = "kip320"
    lag_is_short: bool = False
    configs: Mapping[str, object] = field(default_factory=dict)
    configs_of: Mapping[int, Mapping[str, object]] = field(default_factory=dict)

    @property
    def watermark_waits_for_min_isr(self) -> bool:
        """Whether these brokers hold the high watermark while the ISR is too small (KAFKA-15583, since 3.7)."""
        return tuple(int(part) for part in self.kafka_version.split(".")[:2]) >= (3, 7)

    @property
    def lag_seconds(self) -> float:
        """`replica.lag.time.max.ms` in seconds."""
        return float(str({**_ALWAYS, **self.configs}["replica.lag.time.max.ms"])) / 1000

    @property
    def spec(self) -> ClusterSpec:
        """The cluster's specification."""
        return ClusterSpec(
            kafka_version=self.kafka_version,
            brokers=self.brokers,
            log_directories=self.log_directories,
            broker_configs={**_ALWAYS, **self.configs},
            configs_of=dict(self.configs_of),
        )


_ALWAYS: Mapping[str, object] = {
    # A scenario compares checkpoints: every half second instead of every five.
    "replica.high.watermark.checkpoint.interval.ms": 500,
    # Longer than any cut of a scenario, unless the house says otherwise.
    "replica.lag.time.max.ms": 300_000,
    # Looks at a log directory bring its index files along: 10 MiB each by default.
    "log.index.size.max.bytes": 4096,
}

STEADY = House(name="steady")
"""A follower stays in the ISR however long it is cut off; else Kafka's defaults, but for what looks need."""

QUICK = House(name="quick to evict", lag_is_short=True, configs={"replica.lag.time.max.ms": 2500})
"""A follower that does not fetch leaves the ISR after 2.5 to 3.8 seconds."""


@dataclass
class Tenancy:
    """A running cluster and the connections to it."""

    house: House
    cluster: Cluster
    admin: ClusterAdmin
    zookeeper: ZooKeeper
    view: ClusterView

    def close(self) -> None:
        """End the connections and remove the cluster."""
        try:
            self.zookeeper.close()
        finally:
            self.cluster.__exit__(None, None, None)

    def make_controller(self, broker: int, *, timeout: float = 60.0) -> None:
        """Have a broker become controller, and wait until every broker tells clients so.

        Which of the brokers is elected is a race, so this asks again; every election raises the controller epoch.
        """

        def elected() -> bool:
            now = self._await_settled_controller()
            if now != broker:
                self.zookeeper.depose_controller()
            return now == broker

        wait_until(elected, f"broker {broker} to become controller", timeout=timeout, interval=0.05)
        # An admin client remembers the controller that it was told of first.
        self.admin = ClusterAdmin(self.cluster.bootstrap_servers)
        self.view = ClusterView(self.cluster, self.admin)

    def _await_settled_controller(self) -> int:
        """The controller, once every broker tells clients of it: it has begun its work, and the last one's is known to
        be over."""

        def told() -> dict[int, int | None]:
            answers = {}
            for number in self.cluster.brokers:
                with BrokerClient(self.cluster.client_address(number)) as client:
                    answers[number] = client.controller()
            return answers

        def agreed() -> int | None:
            controller = self.zookeeper.controller()
            return controller if set(told().values()) == {controller} else None

        return wait_until(
            agreed,
            "all brokers to know the controller",
            timeout=30,
            seen=lambda: f"ZooKeeper: {self.zookeeper.controller()}, brokers: {told()}",
        )

    def clean_up(self) -> None:
        """Thaw, start and reconnect everything; raises a `KafkaChaosError` where that fails."""
        for node in self.cluster.nodes:
            node.unpause()
        for node in self.cluster.brokers.values():
            if node.is_running():
                _drop_rules(node)
        self.cluster.start_again(self.cluster.nodes)
        everyone = frozenset(self.cluster.brokers)
        wait_until(
            lambda: self.zookeeper.brokers() == everyone and self.zookeeper.controller() is not None,
            "all brokers to be registered",
            timeout=30,
            seen=lambda: str(sorted(self.zookeeper.brokers())),
        )


def _drop_rules(node: Node) -> None:
    for command in ("-F", "-X"):
        node.must_execute("iptables", "-w", command)


class Houses:
    """Running clusters by house; a context manager that removes them all."""

    def __init__(self) -> None:
        self._standing: dict[str, Tenancy] = {}

    def __enter__(self) -> Houses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for tenancy in self._standing.values():
                stack.callback(tenancy.close)
            self._standing.clear()

    def enter(self, house: House) -> Tenancy:
        """A clean cluster of this house, a standing one where there is one."""
        tenancy = self._standing.get(house.name)
        if tenancy is not None:
            try:
                if not house.fresh:
                    tenancy.clean_up()
                    return tenancy
            except KafkaChaosError as trouble:
                logging.getLogger(__name__).info("cluster %s is given up: %s", house.name, trouble)
            self.discard(house)
        while len(self._standing) >= _MOST_AT_ONCE:
            self.discard(next(iter(self._standing.values())).house)
        tenancy = self._standing[house.name] = _start(house)
        return tenancy

    def discard(self, house: House) -> None:
        """Remove a cluster that nobody should be given any more."""
        tenancy = self._standing.get(house.name)
        if tenancy is not None:
            tenancy.close()
            # Only now: what an interrupt left of it is removed when all are.
            del self._standing[house.name]


def _start(house: House) -> Tenancy:
    cluster = Cluster(house.spec, run_id=f"scenario-{secrets.token_hex(4)}")
    cluster.__enter__()
    try:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        zookeeper = ZooKeeper(cluster.zookeeper_addresses)
    except BaseException:
        cluster.__exit__(None, None, None)
        raise
    return Tenancy(house, cluster, admin, zookeeper, ClusterView(cluster, admin))
