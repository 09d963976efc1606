"""The migration from ZooKeeper to KRaft, under load."""

import time
from dataclasses import replace
from typing import Any

from kafka_chaos.conformance.migration import MigratingMetadata, Migration
from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.experiments.behaviours.upgrading.load import LoadBeside
from kafka_chaos.experiments.behaviours.upgrading.upgrades import (
    BROKERS,
    LANES,
    SAFE,
    active_last,
    await_controller,
    expect_nothing_lost,
)
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_IDS
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.reference_model.lockstep.cluster_model import step

MIGRATING = ClusterProfile(name="with ZooKeeper, to migrate to three controllers", fresh=True, migration_controllers=3)
DUAL_WRITE = "to DUAL_WRITE state"


def migration(play: Play) -> None:
    """All steps of a migration, the loss of a controller among them."""
    with (
        play.pool.leased(MIGRATING) as lease,
        LoadBeside(lease, LANES, ("stop",) * (2 * len(BROKERS)) + ("kill",)) as load,
    ):
        controller = lease.make_controller(BROKERS[-1])
        with play.stage(lease, "from ZooKeeper to KRaft", SAFE, controller=controller) as stage:
            _Migration(stage).play()
            expect_nothing_lost(stage, load, records=6)


class _Migration:
    """The steps of the act, and what the nodes say on the way."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.cluster = stage.lease.cluster
        mode = stage.lease.cluster.mode
        assert isinstance(mode, Migration)
        self.mode = mode
        metadata = stage.lease.metadata
        assert isinstance(metadata, MigratingMetadata)
        self.zookeeper = metadata.zookeeper
        self.views: list[dict[str, Any]] = []

    def play(self) -> None:
        stage = self.stage
        stage.produce("m1")
        self.note("with ZooKeeper")
        stage.take("Three KRaft controllers start in migration mode.", self.add_controllers)
        stage.expect("A broker is still the controller", self.zookeeper.controller(), BROKERS[-1])
        self.join()
        self.note("the controllers write to both")
        stage.produce("m2")
        self.lose_the_controller()
        stage.produce("m3")
        self.convert()
        self.note("all brokers are in KRaft mode")
        stage.produce("m4")
        self.leave()
        stage.produce("m5")
        self.go_on_without_zookeeper()
        stage.fact("who is controller", self.views)

    def add_controllers(self) -> None:
        nodes = self.mode.add_controllers()
        for node in nodes:
            node.create_and_start()
        for node in nodes:
            node.await_ready()

    def join(self) -> None:
        stage = self.stage
        for broker in BROKERS:
            stage.stop(broker)
            self.mode.join(stage.node(broker))
            if broker != BROKERS[-1]:
                stage.start(broker, how="in migration mode")
                stage.expect("No KRaft controller has taken over", (self.zookeeper.controller() or 0) < CONTROLLER_IDS)
        began = time.time()

        def last() -> None:
            self.cluster.start_again([stage.node(BROKERS[-1])])
            await_controller(stage, DUAL_WRITE, began)

        stage.observer.sees_controller = False
        stage.take(
            f"Broker {BROKERS[-1]} is restarted in migration mode, and a KRaft controller takes over.",
            last,
            step("start", broker=BROKERS[-1]),
            step("take_over", controller=CONTROLLER_IDS),
        )
        self.expect_kraft_controller()

    def lose_the_controller(self) -> None:
        """The active controller is killed while a broker is down that is to come back in KRaft mode."""
        stage, (first, *_) = self.stage, BROKERS
        stage.stop(first)
        active = self.active()
        began = time.time()

        def kill() -> None:
            active.kill()
            await_controller(stage, DUAL_WRITE, began)

        stage.take(f"The active controller, {active.number}, is killed (SIGKILL); the next one takes over.", kill)
        stage.fact("seconds from the kill until the next controller writes to both", round(time.time() - began, 1))
        self.expect_kraft_controller()
        stage.expect("It is another one", self.active() is not active)
        self.mode.convert(stage.node(first))
        stage.start(first, how="in KRaft mode")
        stage.take(f"Controller {active.number} is started again.", lambda: self.cluster.start_again([active]))

    def convert(self) -> None:
        stage = self.stage
        for broker in BROKERS[1:]:
            stage.stop(broker)
            self.mode.convert(stage.node(broker))
            stage.start(broker, how="in KRaft mode")
        stage.expect("No broker is registered with ZooKeeper", self.zookeeper.brokers(), frozenset())

    def leave(self) -> None:
        stage = self.stage
        began = time.time()
        for node in active_last(stage):

            def leave(node: Node = node) -> None:
                node.stop()
                self.mode.leave(node)
                self.cluster.start_again([node])

            stage.take(f"Controller {node.number} leaves migration mode.", leave)
        await_controller(stage, "from MIGRATION to POST_MIGRATION", began)
        # From now on the leader epoch stays where a follower leaves the ISR.
        stage.model.config = replace(stage.model.config, kraft=True)

    def go_on_without_zookeeper(self) -> None:
        stage = self.stage
        left = stage.seen
        for node in self.cluster.zookeepers.values():
            stage.take("ZooKeeper is shut down.", node.stop)
        leader = left.leader or 0
        stage.kill(leader)
        stage.expect("Another broker leads", stage.seen.leader not in (leader, 0))
        stage.produce("m6")
        stage.start(leader)
        stage.expect("All replicas are in sync", stage.seen.isr, BROKERS)

    # --- What is seen -----------------------------------------------------------------------------------------------

    def active(self) -> Node:
        """The controller that has claimed the cluster in ZooKeeper."""
        number = self.zookeeper.controller()
        return next(node for node in self.cluster.controllers.values() if node.number == number)

    def expect_kraft_controller(self) -> None:
        migration = self.zookeeper.migration() or {}
        self.stage.expect(
            "ZooKeeper's /controller and /migration name the same KRaft controller",
            (migration.get("kraft_controller_id"), (self.zookeeper.controller() or 0) > CONTROLLER_IDS),
            (self.zookeeper.controller(), True),
        )

    def note(self, when: str) -> None:
        """Who is controller, as ZooKeeper has it and as each broker answers a client."""
        named: dict[str, Any] = {"when": when, "ZooKeeper": self.zookeeper.controller()}
        for broker in BROKERS:
            with self.stage.ask(broker) as client:
                named[f"broker {broker} names"] = client.controller()
        named["partition"] = _words(self.zookeeper.partition(self.stage.topic))
        self.views.append(named)


def _words(record: Any) -> str:
    return f"leader {record.leader}, leader epoch {record.leader_epoch}, ISR {list(record.isr)}"
