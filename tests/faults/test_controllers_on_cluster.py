"""Faults at three controllers that are no brokers: each takes effect, proves so and heals, and leaders serve on."""

from collections.abc import Callable

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.network.partition import Isolate, Partition
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.fault_control import ClusterView

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def layout() -> ClusterLayout:
    """Three controllers and three brokers."""
    return ClusterLayout(metadata_mode="kraft", controllers=3)


@pytest.fixture
def topic(make_topic: Callable[..., str]) -> str:
    return make_topic()


@pytest.mark.parametrize(
    ("kind", "target", "keys"),
    [
        (Kill, "controllers:majority", {}),
        (Partition, "controller", {}),
        (Kill, "controllers:minority", {}),
        (Kill, "controllers", {}),
        (Stop, "controllers:minority", {}),
        (Stop, "controllers:majority", {}),
        (Stop, "controllers", {}),
        (Pause, "controller", {}),
        (Pause, "controllers:majority", {}),
        (Partition, "controllers:majority", {"port": "control", "action": "reject"}),
        (Partition, "controller", {"peers": "brokers", "port": "control", "direction": "in"}),
        (Isolate, "controllers:majority", {}),
    ],
)
def test_leaders_serve_on_while_controllers_are_hit(
    kind: Callable[..., Fault],
    target: str,
    keys: dict[str, object],
    topic: str,
    cluster: Cluster,
    view: ClusterView,
    admin: ClusterAdmin,
) -> None:
    metadata = cluster.metadata()
    fault = kind(target=Target.parse(target), **keys)
    nodes = fault.target.resolve(view, 0)
    assert nodes
    assert all(node.name.startswith("controller-") for node in nodes)
    assert not fault.proof(view, nodes).took_effect
    fault.inject(view, nodes)
    try:
        fault.inject(view, nodes)
        wait_until(lambda: fault.proof(view, nodes).took_effect, f"{fault.kind} of {target} to take effect", timeout=15)
        with BrokerClient(cluster.client_address(1)) as client:
            error, _ = client.produce(topic, "meanwhile", acks="1")
        assert error == 0
    finally:
        fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert not fault.proof(view, nodes).took_effect
    wait_until(
        lambda: metadata.controller() is not None and cluster.registered_brokers() == {1, 2, 3},
        "a controller with all brokers",
        timeout=30,
    )
    admin.await_full_isr([topic])


def test_a_broker_that_no_controller_hears_is_fenced_though_all_brokers_reach_it(
    topic: str, cluster: Cluster, view: ClusterView, admin: ClusterAdmin
) -> None:
    fault = Partition(target=Target.parse("broker:1"), peers="controllers", port="control", direction="out")
    nodes = fault.target.resolve(view, 0)

    def heir() -> int | None:
        # Not broker 1: it knows nothing of its successor, and a client library may well ask it.
        with cluster.broker_client(2) as client:
            leader = client.metadata(topic).leader
        return leader if leader != 1 else None

    fault.inject(view, nodes)
    try:
        assert wait_until(heir, "another broker than 1 to lead", timeout=30) in (2, 3)
        assert fault.proof(view, nodes).took_effect
        # Its own metadata is from before it was fenced: it takes itself for the leader, and acknowledges.
        with BrokerClient(cluster.client_address(1)) as client:
            error, _ = client.produce(topic, "to nobody", acks="1")
        assert error == 0
    finally:
        fault.heal(view, nodes)
    wait_until(lambda: cluster.registered_brokers() == {1, 2, 3}, "broker 1 to be back", timeout=30)
    admin.await_full_isr([topic])
