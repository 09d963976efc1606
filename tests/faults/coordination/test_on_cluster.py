"""Leadership and registrations that change on brokers that run on."""

from contextlib import closing, suppress
from functools import partial

import pytest

from kafka_chaos.conformance.replica import NoReplica, read_replica
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.cluster import Leadership
from kafka_chaos.faults.coordination.leader_transfer import ControllerMove, LeaderTransfer, SessionExpiry
from kafka_chaos.faults.coordination.reassignment import Reassignment
from kafka_chaos.faults.fault import Nodes, Proof
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import NEWEST, PLAIN
from tests.faults.fakes import hit_by, hit_twice_by
from tests.faults.on_brokers import in_both_modes, proof_of

pytestmark = pytest.mark.cluster


layout = in_both_modes(PLAIN, NEWEST)


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    return cluster


def test_leadership_moves_away_from_a_broker_that_runs_on(running: Cluster) -> None:
    admin = running.admin()
    view = ClusterView(running, admin, topics=["moves", "moves-too", "alone", "elsewhere"])
    for topic, replicas in {"moves": (1, 2, 3), "moves-too": (1, 3), "alone": (1,), "elsewhere": (2, 1)}.items():
        admin.create_topic(topic, replica_assignment=[replicas], configs={})
    admin.await_full_isr(["moves", "moves-too", "alone", "elsewhere"])
    process = running.brokers[1].state()["Pid"]
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
    wait_until(lambda: view.leader("moves", 0) == 2, "clients to be told of the new leader", timeout=20)


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
    nodes = hit_by(fault, view)
    fault.inject(view, nodes)
    proof = proof_of(fault, view, nodes)
    assert proof.evidence["broker-1"]["Pid"] == running.brokers[1].state()["Pid"]
    first, second = proof.evidence["broker-1"]["broker_epoch"]
    assert first < second
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert running.registered_brokers() == {1, 2, 3}
    # As after the death of a broker: another leads, or the same in a later leader epoch.
    wait_until(lambda: view.leadership()["expires", 0].leader_epoch > before.leader_epoch, "an election", timeout=20)
    admin.await_full_isr(["expires"])


@pytest.mark.slow
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
    nodes = hit_twice_by(fault, view)
    proof = proof_of(fault, view, nodes)
    first, second = proof.evidence[nodes[0].name]["controller_epoch"]
    assert second == first + 1
    fault.heal(view, nodes)
    # The new controller does its work, once brokers have told clients who it is, and has left the leader where it was.
    wait_until(lambda: _created(running, "created-later"), "the new controller to create a topic", timeout=30)
    admin.await_full_isr(["controlled", "created-later"])
    assert view.leadership()["controlled", 0] == before


def _moved(view: ClusterView, **keys: str) -> tuple[Reassignment, Nodes, Proof]:
    """A reassignment away from broker 1, once it has its proof."""
    fault = Reassignment(target=Target.parse("broker:1"), **keys)
    nodes = hit_by(fault, view)
    fault.inject(view, nodes)
    return fault, nodes, proof_of(fault, view, nodes, timeout=30)


@pytest.mark.slow
def test_replicas_move_to_a_broker_that_had_none(running: Cluster) -> None:
    admin = running.admin()
    view = ClusterView(running, admin, topics=["travels", "stays"])
    admin.create_topic("travels", replica_assignment=[(1, 2), (2, 1)], configs={})
    admin.create_topic("stays", replica_assignment=[(2, 3)], configs={})
    admin.await_full_isr(["travels", "stays"])
    for partition, leader in enumerate((1, 2)):
        with running.broker_client(leader) as client:
            # The leader may learn of a new topic later than the broker that answered.
            taken = partial(_takes, client, "travels", partition)
            wait_until(taken, "the leader to take a record", timeout=20)
    before, process = view.leadership(), running.brokers[1].state()["Pid"]
    fault, nodes, proof = _moved(view)
    moved = {one["partition"]: one["replicas"] for one in proof.evidence["broker-1"]["moved"]}
    assert moved == {"travels-0": [[1, 2], [3, 2]], "travels-1": [[2, 1], [2, 3]]}
    assert proof.evidence["broker-1"]["files_deleted"]
    fault.heal(view, nodes)
    assert view.moving() == frozenset()
    after = view.leadership()
    assert {place: after[place].leader for place in (("travels", 0), ("travels", 1))} == {
        ("travels", 0): 3,
        ("travels", 1): 2,
    }
    assert after["travels", 0].leader_epoch > before["travels", 0].leader_epoch
    assert _place_of(after["stays", 0]) == _place_of(before["stays", 0])
    admin.await_full_isr(["travels", "stays"])
    for partition in (0, 1):
        assert read_replica(running.brokers[3], "travels", partition).log_end == 1
        with pytest.raises(NoReplica):
            read_replica(running.brokers[1], "travels", partition)
    assert running.brokers[1].state()["Pid"] == process


def _created(cluster: Cluster, topic: str) -> bool:
    """Whether the topic is there; creates it unless brokers send the request to a former controller."""
    admin = cluster.admin()
    if not admin.partitions(topic):
        with suppress(ClusterFailure):
            admin.create_topic(topic, replica_assignment=[(1, 2, 3)], configs={})
    return bool(admin.partitions(topic))


def _takes(client: BrokerClient, topic: str, partition: int) -> bool:
    return client.produce(topic, "kept", partition=partition)[0] == NONE


def _place_of(state: Leadership) -> tuple[int | None, int, tuple[int, ...]]:
    """Who leads and who holds it: on a slow machine, a follower may leave the ISR for a moment."""
    return state.leader, state.leader_epoch, state.replicas
