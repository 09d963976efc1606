"""Leadership and registrations that change on brokers that run on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from kafka_chaos.contract.metadata import KRAFT, ZOOKEEPER
from kafka_chaos.faults.coordination.controller_move import ControllerMove
from kafka_chaos.faults.coordination.leader_transfer import LeaderTransfer
from kafka_chaos.faults.coordination.session_expiry import SessionExpiry
from kafka_chaos.faults.fault import Proof
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.fault_control import ClusterView
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

LAYOUTS = {
    ZOOKEEPER: ClusterLayout(metadata_mode=ZOOKEEPER),
    KRAFT: ClusterLayout(metadata_mode=KRAFT, kafka_version="4.3.1"),
}


@pytest.fixture(
    scope="module",
    # The other mode needs the image of another version, which the nightly job builds.
    params=[ZOOKEEPER, pytest.param(KRAFT, marks=pytest.mark.slow)],
)
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers, in each metadata mode."""
    with Cluster(LAYOUTS[request.param], run_id=f"test-{secrets.token_hex(4)}") as cluster:
        yield cluster


def test_leadership_moves_away_from_a_broker_that_runs_on(running: Cluster) -> None:
    admin = running.admin()
    view = ClusterView(running, admin)
    for topic, replicas in {"moves": (1, 2, 3), "moves-too": (1, 3), "alone": (1,), "elsewhere": (2, 1)}.items():
        admin.create_topic(topic, replica_assignment=[replicas], configs={})
    admin.await_full_isr(["moves", "moves-too", "alone", "elsewhere"])
    process = running.brokers[1].state()["Pid"]
    fault = LeaderTransfer(target=Target.parse("leader(moves)"))
    nodes = fault.target.resolve(view, 0)
    fault.inject(view, nodes)
    fault.inject(view, nodes)
    proof = fault.proof(view, nodes)
    assert proof.took_effect, proof.reason
    moved = {one["partition"]: one for one in proof.evidence["broker-1"]["moved"]}
    assert {name: one["leader"] for name, one in moved.items()} == {"moves-0": [1, 2], "moves-too-0": [1, 3]}
    assert all(one["leader_epoch"][1] > one["leader_epoch"][0] for one in moved.values())
    with closing(running.metadata()) as metadata:
        recorded = {topic: metadata.partition(topic) for topic in ("moves", "moves-too", "alone", "elsewhere")}
    assert {topic: state and state.leader for topic, state in recorded.items()} == {
        "moves": 2,
        "moves-too": 3,
        "alone": 1,
        "elsewhere": 2,
    }
    admin.await_full_isr(["moves", "moves-too", "alone", "elsewhere"])
    assert running.brokers[1].state()["Pid"] == process
    fault.heal(view, nodes)
    assert view.leader("moves", 0) == 2


def test_a_broker_whose_session_is_over_is_replaced_and_registers_anew(running: Cluster) -> None:
    if not running.zookeepers:
        assert SessionExpiry.refusal(running.spec)
        return
    admin = running.admin()
    view = ClusterView(running, admin)
    admin.create_topic("expires", replica_assignment=[(1, 2, 3)], configs={})
    admin.await_full_isr(["expires"])
    before = view.leadership()["expires", 0]
    fault = SessionExpiry(target=Target.parse("leader(expires)"))
    nodes = fault.target.resolve(view, 0)
    fault.inject(view, nodes)
    fault.inject(view, nodes)
    proof = wait_until(lambda: _if_bit(fault.proof(view, nodes)), "the broker to register again", timeout=20)
    assert proof.evidence["broker-1"]["Pid"] == running.brokers[1].state()["Pid"]
    first, second = proof.evidence["broker-1"]["broker_epoch"]
    assert first < second
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert running.registered_brokers() == {1, 2, 3}
    # As after the death of a broker: another leads, or the same in a later leader epoch.
    wait_until(lambda: view.leadership()["expires", 0].leader_epoch > before.leader_epoch, "an election", timeout=20)
    admin.await_full_isr(["expires"])


def test_a_controller_is_elected_again_and_nobody_else_moves(running: Cluster) -> None:
    if not running.zookeepers:
        assert ControllerMove.refusal(running.spec)
        return
    admin = running.admin()
    view = ClusterView(running, admin)
    admin.create_topic("controlled", replica_assignment=[(2, 3)], configs={})
    admin.await_full_isr(["controlled"])
    before = view.leadership()["controlled", 0]
    fault = ControllerMove(target=Target.parse("controller"))
    nodes = fault.target.resolve(view, 0)
    assert not fault.proof(view, nodes).took_effect
    fault.inject(view, nodes)
    fault.inject(view, nodes)
    proof = wait_until(lambda: _if_bit(fault.proof(view, nodes)), "the next controller", timeout=20)
    first, second = proof.evidence[nodes[0].name]["controller_epoch"]
    assert second == first + 1
    fault.heal(view, nodes)
    # The new controller does its work, once brokers have told clients who it is, and has left the leader where it was.
    wait_until(lambda: _created(running, "created-later"), "the new controller to create a topic", timeout=30)
    admin.await_full_isr(["controlled", "created-later"])
    assert view.leadership()["controlled", 0] == before


def _created(cluster: Cluster, topic: str) -> bool:
    """Whether the topic is there; creates it unless brokers send the request to a former controller."""
    admin = cluster.admin()
    if not admin.partitions(topic):
        with suppress(ClusterFailure):
            admin.create_topic(topic, replica_assignment=[(1, 2, 3)], configs={})
    return bool(admin.partitions(topic))


def _if_bit(proof: Proof) -> Proof | None:
    return proof if proof.took_effect else None
