"""Leadership and registrations that change on brokers that run on."""

from contextlib import closing

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.coordination.leader_transfer import LeaderTransfer, SessionExpiry
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import NEWEST, PLAIN
from tests.faults.fakes import hit_by
from tests.faults.on_brokers import in_both_modes, proof_of

pytestmark = pytest.mark.cluster

layout = in_both_modes(PLAIN, NEWEST)


def test_leadership_moves_away_from_a_broker_that_runs_on(cluster: Cluster) -> None:
    admin = cluster.admin()
    view = ClusterView(cluster, admin, topics=["moves", "moves-too", "alone", "elsewhere"])
    for topic, replicas in {"moves": (1, 2, 3), "moves-too": (1, 3), "alone": (1,), "elsewhere": (2, 1)}.items():
        admin.create_topic(topic, replica_assignment=[replicas], configs={})
    admin.await_full_isr(["moves", "moves-too", "alone", "elsewhere"])
    process = cluster.brokers[1].state()["Pid"]
    fault = LeaderTransfer(target=Target.parse("leader(moves)"))
    nodes = hit_by(fault, view)
    fault.inject(view, nodes)
    proof = fault.proof(view, nodes)
    assert proof.took_effect, proof.reason
    # Topics of other modules, which the shared cluster has too, move as well.
    everything = {one["partition"]: one for one in proof.evidence["broker-1"]["moved"]}
    moved = {name: one for name, one in everything.items() if not name.startswith("topic-")}
    assert {name: one["leader"] for name, one in moved.items()} == {"moves-0": [1, 2], "moves-too-0": [1, 3]}
    assert all(one["leader_epoch"][1] > one["leader_epoch"][0] for one in moved.values())
    with closing(cluster.metadata()) as metadata:
        recorded = {topic: metadata.partition(topic) for topic in ("moves", "moves-too", "alone", "elsewhere")}
    assert {topic: state and state.leader for topic, state in recorded.items()} == {
        "moves": 2, "moves-too": 3, "alone": 1, "elsewhere": 2,
    }  # fmt: skip
    admin.await_full_isr(["moves", "moves-too", "alone", "elsewhere"])
    assert cluster.brokers[1].state()["Pid"] == process
    fault.heal(view, nodes)
    wait_until(lambda: view.leader("moves", 0) == 2, "clients to be told of the new leader", timeout=20)


def test_a_broker_whose_session_is_over_is_replaced_and_registers_anew(cluster: Cluster) -> None:
    if not cluster.zookeepers:
        assert SessionExpiry.refusal(cluster.spec)
        return
    admin = cluster.admin()
    view = ClusterView(cluster, admin)
    admin.create_topic("expires", replica_assignment=[(1, 2, 3)], configs={})
    admin.await_full_isr(["expires"])
    before = view.leadership()["expires", 0]
    fault = SessionExpiry(target=Target.parse("leader(expires)"))
    nodes = hit_by(fault, view)
    fault.inject(view, nodes)
    proof = proof_of(fault, view, nodes)
    assert proof.evidence["broker-1"]["Pid"] == cluster.brokers[1].state()["Pid"]
    first, second = proof.evidence["broker-1"]["broker_epoch"]
    assert first < second
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert cluster.registered_brokers() == {1, 2, 3}
    # As after the death of a broker: another leads, or the same in a later leader epoch.
    wait_until(lambda: view.leadership()["expires", 0].leader_epoch > before.leader_epoch, "an election", timeout=20)
    admin.await_full_isr(["expires"])
