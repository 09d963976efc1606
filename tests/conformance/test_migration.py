"""A cluster migrates from ZooKeeper to KRaft, step by step."""

from __future__ import annotations

import secrets

import pytest

from kafka_chaos.conformance.migration import MigratingMetadata, Migration
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout


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
