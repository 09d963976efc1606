"""Which partitions are added, who leads them, what the proof demands, and what lanes and predictions become."""

from kafka_chaos.faults.cluster import Leadership
from kafka_chaos.faults.coordination.reassignment import PartitionGrowth
from kafka_chaos.faults.fault import Nodes
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from tests.faults.fakes import FakeCluster, hit_twice_by

ORDERS, PAYMENTS = "topic-of-orders", "topic-of-payments"


def cluster_of(**led: tuple[int, ...]) -> FakeCluster:
    """Three brokers, and topics whose first partition has these replicas."""
    return FakeCluster(led={(f"topic-of-{lane}", 0): Leadership(of[0], 4, of, of) for lane, of in led.items()})


def injected(cluster: FakeCluster, target: str = "all", **keys: object) -> tuple[PartitionGrowth, Nodes]:
    fault = PartitionGrowth(target=Target.parse(target), **keys)  # type: ignore[arg-type]
    return fault, hit_twice_by(fault, cluster)


def replicas_of(cluster: FakeCluster, topic: str) -> list[tuple[int, ...]]:
    return [state.replicas for place, state in sorted(cluster.led.items()) if place[0] == topic]


def test_the_targets_lead_new_partitions_in_turn_with_as_many_followers() -> None:
    cluster = cluster_of(orders=(1, 2), payments=(3,))
    fault, nodes = injected(cluster, add=4)
    assert replicas_of(cluster, ORDERS) == [(1, 2), (1, 2), (2, 3), (3, 1), (1, 2)]
    assert replicas_of(cluster, PAYMENTS) == [(3,), (1,), (2,), (3,), (1,)]
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect
    assert fault.describe_evidence(proof.evidence["broker-2"]) == (
        "2 new partitions: topic-of-orders-2 (leader 2), topic-of-payments-2 (leader 2)"
    )
    fault.heal(cluster, nodes)
    assert len(replicas_of(cluster, ORDERS)) == 5


def test_a_lane_grows_alone_and_a_target_leads_all_that_is_new() -> None:
    cluster = cluster_of(orders=(1, 2), payments=(1, 2))
    injected(cluster, "broker:3", lane="payments", add=2)
    assert (len(replicas_of(cluster, ORDERS)), replicas_of(cluster, PAYMENTS)) == (1, [(1, 2), (3, 1), (3, 1)])


def test_it_can_begin_once_a_target_runs_and_enough_brokers_for_every_topic() -> None:
    cluster = cluster_of(orders=(1, 3), payments=(1, 2, 3))
    everything = PartitionGrowth(target=Target.parse("broker:1"))
    orders = PartitionGrowth(target=Target.parse("broker:1"), lane="orders")
    nodes = everything.target.resolve(cluster, 0)
    assert everything.can_begin(cluster, nodes)
    cluster.brokers[2].running = False
    assert (everything.can_begin(cluster, nodes), orders.can_begin(cluster, nodes)) == (False, True)
    cluster.brokers[2].running, cluster.brokers[1].running = True, False
    assert (everything.can_begin(cluster, nodes), orders.can_begin(cluster, nodes)) == (False, False)


def test_a_partition_that_is_not_in_sync_is_no_proof() -> None:
    cluster = cluster_of(orders=(1, 2, 3))
    cluster.brokers[3].paused = True
    fault, nodes = injected(cluster, "broker:1")
    assert fault.proof(cluster, nodes).reason == "broker-1: topic-of-orders-1 is not there, or not in sync"
    cluster.led[ORDERS, 1] = Leadership(None, 0, (1, 2, 3), (1, 2, 3))
    assert not fault.proof(cluster, nodes).took_effect


def experiment(fault: str, lanes: str = "{lane: orders}", cluster: str = "{}") -> Experiment:
    text = f"name: grown\ncluster: {cluster}\nlanes: [{lanes}]\nschedule: [{fault}]\n"
    return parse_experiment(text, "grown.yaml")


def test_a_lane_has_all_its_partitions_for_the_model_and_the_verdict_and_its_topic_the_first_ones() -> None:
    found = experiment(
        "{fault: partition-growth, target: all, add: 2, at: 1}, "
        "{fault: partition-growth, target: broker:1, lane: orders, at: 2}",
        "{lane: orders, partitions: 3}, {lane: payments}",
    )
    assert {lane.lane: (lane.partitions, lane.faults) for _, _, lane in found.lanes} == {
        "orders": (6, ()),
        "payments": (3, ()),
    }
    specs = {spec.lane: spec for spec in found.lane_specs}
    assert [len(specs[name].replica_assignment(3)) for name in ("orders", "payments")] == [3, 1]
    assert all(spec.grows for spec in specs.values())
    (phase,) = found.phases
    assert [lane.partitions for lane in phase.lanes] == [3, 1]
    assert [lane.partitions for lane in phase.with_added_partitions().with_added_partitions().lanes] == [6, 3]


def test_a_quorum_is_not_lost_by_it() -> None:
    found = experiment(
        "{fault: kill, target: broker:1, at: 1, duration: 5}, {fault: partition-growth, target: all, at: 2}",
        cluster="{metadata_mode: kraft, kafka_version: 4.3.1}",
    )
    assert [lane.faults for _, _, lane in found.lanes] == [("kill",)]
