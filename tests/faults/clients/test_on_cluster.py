"""Clients of a real cluster that lose their connections."""

from collections.abc import Callable

import pytest

from kafka_chaos.faults.clients.members import ConnectionReset
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.broker.client import BrokerClient, BrokerUnreachable
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView

pytestmark = pytest.mark.cluster


@pytest.mark.slow
def test_a_client_s_connection_is_reset_and_the_broker_goes_on(
    cluster: Cluster, view: ClusterView, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    before = cluster.brokers[1].state()["Pid"]
    for turn in range(10):
        fault = ConnectionReset(target=Target.parse("broker:1"), at=float(turn))
        nodes = fault.target.resolve(view, 0)
        with BrokerClient(cluster.addresses[1]) as connected:
            assert connected.latest_offset(topic)[0] == 0
            assert not fault.proof(view, nodes).took_effect
            fault.inject(view, nodes)
            proof = fault.proof(view, nodes)
            assert proof.took_effect, proof.reason
            assert proof.evidence["broker-1"]["connections"] >= 1
            with pytest.raises(BrokerUnreachable, match=r"closed the connection|reset"):
                connected.latest_offset(topic)
        with BrokerClient(cluster.addresses[1]) as again:
            fault.inject(view, nodes)
            assert again.latest_offset(topic)[0] == 0, "a second injection reset a new connection"
        fault.heal(view, nodes)
    assert cluster.brokers[1].state()["Pid"] == before
