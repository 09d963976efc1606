"""Nodes get the properties of each step of a migration from ZooKeeper to KRaft."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.conformance import migration as module
from kafka_chaos.conformance.migration import MigratingMetadata, Migration
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.building import NodeBuilder
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.metadata.kraft import KRaftMode
from kafka_chaos.harness.cluster.metadata.protocol import Members

VOTERS = "101@controller-1:9091,102@controller-2:9091,103@controller-3:9091"


class StandIn(SimpleNamespace):
    """A node that is down."""

    def write_file(self, path: str, text: str) -> None:
        self.path = path
        self.properties = dict(line.split("=", 1) for line in text.splitlines())


def stand_in(role: str, number: int) -> Any:
    name = f"{role}-{number % 100}"
    return StandIn(role=role, number=number, name=name, host_port=15_000 if role == "broker" else None, started_text="")


@pytest.fixture
def migration(monkeypatch: pytest.MonkeyPatch) -> Migration:
    """A migration whose controllers have been added; `configs` of each are its own."""

    class Registry:
        def __init__(self, addresses: str) -> None: ...
        def __enter__(self) -> Registry:
            return self

        def __exit__(self, *_: object) -> None: ...
        def cluster_id(self) -> str:
            return "the id of the cluster"

    def controller(mode: KRaftMode, number: int, configs: dict[str, object]) -> Any:
        node = stand_in("controller", 100 + number)
        node.configs, node.cluster_id = configs, mode._cluster_id
        return node

    monkeypatch.setattr(module, "ZooKeeper", Registry)
    monkeypatch.setattr(KRaftMode, "controller", controller)
    layout = ClusterLayout(migration_controllers=3)
    made = Migration(NodeBuilder(layout, "run", "network", {}, {}, iter(())))
    made.add_controllers()
    return made


def test_controllers_know_zookeeper_and_have_the_cluster_s_id(migration: Migration) -> None:
    for node in migration._members.controllers.values():
        given: Any = node
        assert given.cluster_id == "the id of the cluster"
        assert given.configs == {
            "zookeeper.metadata.migration.enable": True,
            "zookeeper.connect": "zookeeper-1:2181",
            "inter.broker.listener.name": "REPLICATION",
        }


def test_a_broker_that_joins_knows_both_and_speaks_its_own_protocol(migration: Migration) -> None:
    node = stand_in("broker", 2)
    migration.join(node)
    assert node.path == "/etc/kafka-chaos/server.properties"
    expected = {
        "broker.id": "2",
        "zookeeper.connect": "zookeeper-1:2181",
        "zookeeper.metadata.migration.enable": "true",
        "controller.quorum.voters": VOTERS,
        "controller.listener.names": "CONTROL",
        "inter.broker.protocol.version": "3.9",
    }
    assert expected.items() <= node.properties.items()
    # Controllers of KRaft know no control plane: their requests go to the other brokers' port.
    assert "control.plane.listener.name" not in node.properties
    assert "CONTROL://" not in node.properties["listeners"]


def test_a_broker_in_kraft_mode_knows_nothing_of_zookeeper(migration: Migration) -> None:
    node = stand_in("broker", 2)
    migration.convert(node)
    expected = {"node.id": "2", "process.roles": "broker", "controller.quorum.voters": VOTERS}
    assert expected.items() <= node.properties.items()
    assert not [key for key in node.properties if key.startswith(("zookeeper", "broker.id", "inter.broker.protocol"))]
    assert (node.started_text, migration.converted) == ("Kafka Server started", {2})


def test_it_is_over_when_no_controller_knows_zookeeper_any_more(migration: Migration) -> None:
    assert not migration.is_over
    for number in (101, 102, 103):
        node = stand_in("controller", number)
        migration.leave(node)
        assert (node.properties["process.roles"], node.properties["node.id"]) == ("controller", str(number))
        assert not [key for key in node.properties if key.startswith("zookeeper")]
        assert migration.is_over is (number == 103)


def test_without_controllers_nothing_is_over() -> None:
    build = NodeBuilder(ClusterLayout(migration_controllers=1), "run", "network", {}, {}, iter(()))
    assert not Migration(build).is_over


def test_a_converted_broker_is_asked_for_in_the_quorum_alone(
    migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.ZooKeeperMode, "registered_brokers", lambda *_, **__: frozenset({2, 3}))
    # Brokers that still have ZooKeeper are known to the quorum, too: there they may outlast their session.
    monkeypatch.setattr(KRaftMode, "registered_brokers", lambda *_, **__: frozenset({1, 3}))
    members = Members(dict.fromkeys((1, 2, 3), stand_in("broker", 1)))
    assert migration.registered_brokers(members, timeout=1) == {2, 3}
    migration.converted.add(1)
    assert migration.registered_brokers(members, timeout=1) == {1, 2, 3}
    migration.converted.update((2, 3))
    assert migration.registered_brokers(members, timeout=1) == {1, 3}


@pytest.mark.cluster
@pytest.mark.slow
def test_one_broker_and_one_controller_migrate() -> None:
    layout = ClusterLayout(brokers=1, migration_controllers=1)
    with Cluster(layout, run_id=f"test-migrate-{secrets.token_hex(4)}", mode=Migration) as cluster:
        (broker,), steps = cluster.brokers.values(), cluster.mode
        assert isinstance(steps, Migration)
        metadata = cluster.metadata()
        assert isinstance(metadata, MigratingMetadata)
        cluster.admin().create_topic("t", replica_assignment=[[1]], configs={})
        (controller,) = steps.add_controllers()
        controller.create_and_start()
        controller.await_ready()
        assert metadata.controller() == 1
        for step in (steps.join, steps.convert):
            broker.stop()
            step(broker)
            cluster.start_again([broker])
            wait_until(lambda: metadata.controller() == 101, "the KRaft controller to take over", timeout=30)
        assert metadata.brokers() == cluster.registered_brokers() == {1}
        assert metadata.zookeeper.brokers() == frozenset()
        controller.stop()
        steps.leave(controller)
        cluster.start_again([controller])
        (zookeeper,) = cluster.zookeepers.values()
        zookeeper.kill()
        record = wait_until(lambda: metadata.partition("t"), "the partition in the metadata log", timeout=30)
        assert (record.leader, record.isr, metadata.controller()) == (1, (1,), 101)
        metadata.close()
