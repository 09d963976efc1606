"""Each fault on real containers: it bites, it proves so, it heals, and injecting or healing twice does nothing more."""

import socket
from collections.abc import Callable, Iterator

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.network.packet_filter import chain_prefix
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.process.ended import Kill, Pause, Stop
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.faults.fakes import hit_by, hit_twice_by
from tests.faults.on_brokers import proof_of

pytestmark = pytest.mark.cluster


@pytest.fixture
def topic(make_topic: Callable[..., str], admin: ClusterAdmin) -> Iterator[str]:
    """A topic led by broker 1; the cluster is whole again afterwards."""
    name = make_topic()
    yield name
    admin.await_full_isr([name])


@pytest.mark.parametrize("kind", [Kill, pytest.param(Stop, marks=pytest.mark.slow)])
def test_a_broker_that_is_killed_or_stopped(
    kind: type[Kill | Stop], topic: str, view: ClusterView, cluster: Cluster, admin: ClusterAdmin
) -> None:
    fault = kind(target=Target.parse("broker:1"))
    nodes = hit_twice_by(fault, view)
    proof = fault.proof(view, nodes)
    assert proof.took_effect, proof.reason
    assert proof.evidence["broker-1"]["ExitCode"] == {"kill": 137, "stop": 143}[fault.kind]
    assert admin.await_leader(topic, 0, other_than=1) in (2, 3)
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert not fault.proof(view, nodes).took_effect
    wait_until(lambda: 1 in cluster.registered_brokers(), "broker 1 to register again", timeout=15)


def test_a_broker_that_is_frozen_answers_nobody_until_it_thaws(topic: str, view: ClusterView, cluster: Cluster) -> None:
    fault = Pause(target=Target.parse(f"leader({topic})"))
    nodes = hit_twice_by(fault, view)
    proof = fault.proof(view, nodes)
    assert proof.took_effect
    assert proof.evidence[nodes[0].name].get("freezer", "FROZEN") in ("FROZEN", "frozen 1")
    assert not _answers_api_versions(cluster, nodes[0].number)
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert not fault.proof(view, nodes).took_effect
    wait_until(lambda: _answers_api_versions(cluster, nodes[0].number), "the broker to answer", timeout=15)


def _answers_api_versions(cluster: Cluster, broker: int) -> bool:
    """Whether the broker answers an ApiVersions request (v0) within a second."""
    with socket.create_connection(("127.0.0.1", cluster.brokers[broker].host_port or 0), timeout=1) as client:
        request = bytes.fromhex("0012 0000 0000 0001 ffff".replace(" ", ""))
        client.sendall(len(request).to_bytes(4, "big") + request)
        try:
            return len(client.recv(4)) == 4
        except TimeoutError:
            return False


@pytest.mark.slow
@pytest.mark.parametrize("action", ["drop", "reject"])
def test_a_leader_whose_replication_port_is_closed_loses_its_followers_and_gets_them_back(
    action: str, make_topic: Callable[..., str], view: ClusterView, admin: ClusterAdmin
) -> None:
    topic = make_topic()
    fault = Partition(target=Target.parse("broker:1"), direction="in", port="replication", action=action)
    nodes = hit_by(fault, view)
    fault.inject(view, nodes)
    evidence = proof_of(fault, view).evidence["broker-1"]["packets"]
    assert set(evidence) == {f"{chain_prefix(fault)}-in"}
    assert evidence[f"{chain_prefix(fault)}-in"] > 0
    code, listing = nodes[0].execute("iptables", "-w", "-S", "INPUT")
    assert (code, listing.count(chain_prefix(fault))) == (0, 1)
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert chain_prefix(fault) not in nodes[0].must_execute("iptables", "-w", "-S")
    admin.await_full_isr([topic])


@pytest.mark.parametrize("direction", ["both", *(pytest.param(one, marks=pytest.mark.slow) for one in ("in", "out"))])
def test_a_broker_cut_off_from_the_others(direction: str, topic: str, view: ClusterView, admin: ClusterAdmin) -> None:
    fault = Partition(target=Target.parse("broker:1"), direction=direction)
    nodes = hit_by(fault, view)
    packets = proof_of(fault, view).evidence["broker-1"]["packets"]
    assert set(packets) == {f"{chain_prefix(fault)}-{way}" for way in ("in", "out") if direction in ("both", way)}
    fault.heal(view, nodes)
    assert chain_prefix(fault) not in nodes[0].must_execute("iptables", "-w", "-S")
