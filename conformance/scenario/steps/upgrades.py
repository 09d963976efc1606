"""The steps of scenarios that upgrade nodes to another version of Kafka, or migrate them from ZooKeeper to KRaft."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafka_chaos.conformance.broker_client import ScenarioClient
from kafka_chaos.conformance.migration import MigratingMetadata, Migration
from kafka_chaos.conformance.scenario.load import Load
from kafka_chaos.conformance.scenario.observe import ReplicaObserver
from kafka_chaos.conformance.scenario.steps.faults import FaultSteps
from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_ID_BASE, REPLICATION_PORT, node_name
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.reference_model.lockstep.stepping import step

_TAKEOVER_TEXT = "to DUAL_WRITE state"
"""A controller logs this once it writes all changes both to ZooKeeper and to the metadata log."""


@dataclass
class UpgradeSteps(FaultSteps):
    """The steps of `FaultSteps`, upgrades, and the steps of a migration (`conformance/migration.py`)."""

    observer: ReplicaObserver
    load: Load | None = None
    """The load beside the act, if it has any."""
    views: list[dict[str, Any]] = field(default_factory=list)
    """What `note_controllers` has noted, a row for each call."""

    def ignore_controller(self) -> None:
        """Stop comparing the controller with the model: from now on it changes without a step of the model."""
        self.observer.sees_controller = False

    def assume(self, rules: Mapping[str, Any]) -> None:
        """Let the model follow other rules from now on. `rules`: keys of `ClusterConfig` with their values."""
        self.model.config = replace(self.model.config, **rules)

    def expect_nothing_lost(self) -> None:
        """End the load beside the act, and expect that none of its acknowledged records is lost."""
        assert self.load is not None, "the act has no load"
        verdict = self.load.verify()
        self.fact("the load", self.load.table(verdict))
        reasons = [reason for lane in verdict.lanes for reason in lane.reasons]
        self.expect("The load conforms to its prediction", (verdict.verdict, reasons), (Verdict.CONFORMS, []))
        lost = [lane.count(Anomaly.LOST_WRITE) for lane in verdict.lanes]
        self.expect("It has lost nothing", lost, [0] * len(lost))

    # --- Upgrades --------------------------------------------------------------------------------------------------

    def upgrade_controllers(self, version: str) -> None:
        """The controllers come back with another version, one after the other, the active one last."""
        for node in self._controllers_active_last():
            sentence = f"Controller {node.number} is shut down, and comes back with Kafka {version}."
            change = partial(self.lease.cluster.change_version, kafka_version=version)
            self.take(sentence, partial(self._restart, node, change))

    def upgrade(self, broker: int, version: str) -> None:
        """A broker comes back with another version."""
        self.stop(broker)
        self.lease.cluster.change_version(self.node(broker), version)
        self.start(broker, how=f"with Kafka {version}")
        self.await_line(broker, f"Kafka version: {version}")

    def raise_features(self, release: str) -> None:
        """Raise the feature levels to those of a release."""
        server = f"{node_name('broker', 1)}:{REPLICATION_PORT}"
        command = ("java", "-cp", "/opt/kafka/jars/*", "org.apache.kafka.tools.FeatureCommand")
        arguments = ("--bootstrap-server", server, "upgrade", "--release-version", release)
        sentence = "The feature levels rise to those of the release."
        self.take(sentence, lambda: self.node(1).must_execute(*command, *arguments))

    def kill_until_fenced(self, broker: int) -> None:
        """Kill the last running broker (SIGKILL); the step ends when a controller has fenced the broker."""

        def kill() -> None:
            began = time.time()
            self.node(broker).kill()
            # No broker is left to ask who leads.
            self._await_controller_log(f"Fencing broker {broker} ", began)

        self.take(f"Broker {broker} is killed (SIGKILL), and fenced.", kill, step("kill", broker=broker))

    @property
    def feature_levels(self) -> dict[str, int]:
        """The feature levels in force, once all brokers name the same."""

        def agreed() -> dict[str, int] | None:
            levels = [self.answer_from(broker, ScenarioClient.features) for broker in self.act.replicas]
            return levels[0] if all(other == levels[0] for other in levels) else None

        return wait_until(agreed, "all brokers to name the same feature levels", timeout=20)

    # --- The migration from ZooKeeper to KRaft -----------------------------------------------------------------------

    def add_controllers(self) -> None:
        """KRaft controllers start in migration mode."""

        def add() -> None:
            nodes = self.migration.add_controllers()
            for node in nodes:
                node.create_and_start()
            for node in nodes:
                node.await_ready()

        self.take("Three KRaft controllers start in migration mode.", add)

    def join(self, broker: int, *, is_last: bool = False) -> None:
        """Restart a broker in migration mode. After the restart of the last one, a KRaft controller takes over."""
        self.stop(broker)
        self.migration.join(self.node(broker))
        if not is_last:
            self.start(broker, how="in migration mode")
            return

        def start() -> None:
            began = time.time()
            self.lease.cluster.start_again([self.node(broker)])
            self._await_controller_log(_TAKEOVER_TEXT, began)

        self.ignore_controller()
        sentence = f"Broker {broker} is restarted in migration mode, and a KRaft controller takes over."
        # In the model, this id stands for all KRaft controllers, whose own ids are above it.
        self.take(sentence, start, step("start", broker=broker), step("take_over", controller=CONTROLLER_ID_BASE))

    def kill_migrating_controller(self, controller: int) -> None:
        """Kill (SIGKILL) the controller that writes to ZooKeeper and KRaft's log; wait until another one takes over."""
        began = time.time()

        def kill() -> None:
            self.controller_node(controller).kill()
            self._await_controller_log(_TAKEOVER_TEXT, began)

        self.take(f"The active controller, {controller}, is killed (SIGKILL); the next one takes over.", kill)
        self.fact("seconds from the kill until the next controller writes to both", round(time.time() - began, 1))

    def restart_migrating_controller(self, controller: int) -> None:
        """A controller that was killed is started again."""
        nodes = [self.controller_node(controller)]
        self.take(f"Controller {controller} is started again.", lambda: self.lease.cluster.start_again(nodes))

    def convert(self, broker: int) -> None:
        """A broker that is down comes back in KRaft mode."""
        self.migration.convert(self.node(broker))
        self.start(broker, how="in KRaft mode")

    def leave_migration(self) -> None:
        """Each controller is restarted without ZooKeeper, the active one last."""
        began = time.time()
        for node in self._controllers_active_last():
            leave = partial(self._restart, node, self.migration.leave)
            self.take(f"Controller {node.number} leaves migration mode.", leave)
        self._await_controller_log("from MIGRATION to POST_MIGRATION", began)

    def shut_down_zookeeper(self) -> None:
        """Shut ZooKeeper down, which nothing needs any more."""
        for node in self.lease.cluster.zookeepers.values():
            self.take("ZooKeeper is shut down.", node.stop)

    def note_controllers(self, when: str) -> None:
        """Note the partition's state in ZooKeeper, and which controller ZooKeeper and each broker name."""
        view: dict[str, Any] = {"when": when, "ZooKeeper": self.zookeeper.controller()}
        for broker in self.act.replicas:
            view[f"broker {broker} names"] = self.answer_from(broker, ScenarioClient.controller)
        record = self.zookeeper.partition(self.topic)
        assert record is not None
        view["partition"] = f"leader {record.leader}, leader epoch {record.leader_epoch}, ISR {list(record.isr)}"
        self.views.append(view)

    @property
    def migration(self) -> Migration:
        """The steps of the cluster's migration."""
        mode = self.lease.cluster.mode
        assert isinstance(mode, Migration)
        return mode

    @property
    def zookeeper(self) -> ZooKeeper:
        """The metadata in ZooKeeper."""
        metadata = self.lease.metadata
        assert isinstance(metadata, MigratingMetadata)
        return metadata.zookeeper

    def _restart(self, node: Node, change: Callable[[Node], None]) -> None:
        """Shut a node down, change what it finds at its next start, and start it."""
        node.stop()
        change(node)
        self.lease.cluster.start_again([node])

    def _controllers_active_last(self) -> list[Node]:
        active = wait_until(self.lease.metadata.controller, "a controller to be active", timeout=30)
        return sorted(self.lease.cluster.controllers.values(), key=lambda node: node.number == active)

    def _await_controller_log(self, text: str, since: float) -> None:
        """Wait until a controller has logged `text` since a time, in seconds since 1970."""
        nodes = self.lease.cluster.controllers.values()
        awaited = f"a controller to log {text!r}"
        wait_until(lambda: any(text in node.log(since=since) for node in nodes), awaited, timeout=60, interval=0.2)


UPGRADE_OBSERVATIONS: Mapping[str, Callable[..., Any]] = {
    "feature level": lambda stage, name: stage.feature_levels.get(name, 0),
    "is more": lambda stage, one, other: float(one) > float(other),
    "are equal": lambda stage, one, other: one == other,
    "follower": lambda stage, index: [b for b in stage.act.replicas if b != stage.observation.leader][index],
    "brokers in ZooKeeper": lambda stage: sorted(stage.zookeeper.brokers()),
    "controller in ZooKeeper": lambda stage: stage.zookeeper.controller(),
    "KRaft has taken over": lambda stage: (stage.zookeeper.controller() or 0) > CONTROLLER_ID_BASE,
    "controller in the znode /migration": lambda stage: (stage.zookeeper.migration() or {}).get("kraft_controller_id"),
}
"""The observations of upgrades and migrations, by their names in files."""
