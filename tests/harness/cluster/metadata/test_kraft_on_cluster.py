"""Clusters in KRaft mode on a real engine: who is controller, who is there, and how nodes come back."""

import secrets

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.fault import Nodes
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import IN_KRAFT

pytestmark = pytest.mark.cluster

EVERYONE = frozenset({1, 2, 3})


@pytest.fixture(scope="module")
def layout() -> ClusterLayout:
    """In the image that clusters with ZooKeeper have."""
    return IN_KRAFT


@pytest.mark.slow
def test_the_active_controller_can_be_killed_and_comes_back(cluster: Cluster) -> None:
    admin, metadata = cluster.admin(), cluster.metadata()
    view = ClusterView(cluster, admin)
    epoch = metadata.controller_epoch()
    fault = Kill(target=Target.parse("controller"))
    nodes: Nodes = fault.target.resolve(view, seed=0)
    (killed,) = nodes
    assert killed.number in EVERYONE
    topic = f"topic-{secrets.token_hex(4)}"
    others = sorted(EVERYONE - {killed.number})
    admin.create_topic(topic, replica_assignment=[[killed.number, *others]], configs={})
    admin.await_full_isr([topic])
    fault.inject(view, nodes)
    try:
        assert fault.proof(view, nodes).took_effect
        leader = admin.await_leader(topic, 0, other_than=killed.number)
        record = metadata.partition(topic)
        assert record is not None
        assert (record.leader, record.isr, record.leader_epoch) == (leader, tuple(others), 1)
        wait_until(lambda: metadata.controller() in others, "another active controller", timeout=10)
        assert metadata.controller_epoch() > epoch
        assert cluster.registered_brokers() == set(others)
    finally:
        fault.heal(view, nodes)
    admin.await_full_isr([topic])
    assert cluster.registered_brokers() == EVERYONE


@pytest.mark.slow
def test_the_controller_can_be_deposed(cluster: Cluster) -> None:
    metadata = cluster.metadata()
    before, epoch = metadata.controller(), metadata.controller_epoch()
    metadata.depose_controller()
    # The deposed one may answer first, and with its old epoch.
    wait_until(
        lambda: metadata.controller_epoch() > epoch and metadata.controller() not in (None, before),
        "another controller",
        timeout=30,
    )
    wait_until(lambda: cluster.registered_brokers() == EVERYONE, "all brokers to be unfenced", timeout=30)
