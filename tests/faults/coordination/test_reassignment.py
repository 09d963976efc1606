"""Which replicas move, to whom, what the proof demands, and which experiments are refused."""

import pytest

from kafka_chaos.faults.cluster import Leadership
from kafka_chaos.faults.coordination.reassignment import Reassignment
from kafka_chaos.faults.fault import Nodes
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from tests.faults.fakes import FakeCluster, FakeNode, hit_twice_by

ORDERS, MORE, PAYMENTS = ("topic-of-orders", 0), ("topic-of-orders", 1), ("topic-of-payments", 0)
OFFSETS = ("__consumer_offsets", 0)


def cluster_of(brokers: int, **led: tuple[int, ...]) -> FakeCluster:
    """Brokers, and partitions with these replicas, all in sync; the first leads."""
    places = {"orders": ORDERS, "more": MORE, "payments": PAYMENTS, "offsets": OFFSETS}
    return FakeCluster(
        brokers={n: FakeNode(f"broker-{n}", n) for n in range(1, brokers + 1)},
        led={places[name]: Leadership(replicas[0], 4, replicas, replicas) for name, replicas in led.items()},
    )


def injected(cluster: FakeCluster, target: str = "broker:1", **keys: str) -> tuple[Reassignment, Nodes]:
    fault = Reassignment(target=Target.parse(target), **keys)
    return fault, hit_twice_by(fault, cluster)


def test_a_broker_that_holds_no_replica_takes_the_place_of_one_that_does() -> None:
    cluster = cluster_of(4, orders=(1, 2, 3), more=(2, 3, 1), payments=(2, 3, 4), offsets=(1, 2, 3))
    fault, nodes = injected(cluster)
    assert cluster.ongoing == {ORDERS: (4, 2, 3), MORE: (2, 3, 4)}
    proof = fault.proof(cluster, nodes)
    assert proof.reason == "broker-1: topic-of-orders-0 has not moved, topic-of-orders-1 has not moved"
    cluster.move_on()
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect
    assert proof.evidence["broker-1"]["moved"] == [
        {"partition": "topic-of-orders-0", "heir": 4, "replicas": [[1, 2, 3], [4, 2, 3]], "leader": [1, 4]},
        {"partition": "topic-of-orders-1", "heir": 4, "replicas": [[2, 3, 1], [2, 3, 4]], "leader": [2, 2]},
    ]
    assert fault.describe_evidence(proof.evidence["broker-1"]) == (
        "replicas of 2 partitions moved: topic-of-orders-0 to broker 4, topic-of-orders-1 to broker 4; the old "
        "files are deleted"
    )
    fault.heal(cluster, nodes)
    assert (cluster.led[ORDERS].replicas, cluster.cancelled) == ((4, 2, 3), [])


@pytest.mark.parametrize(
    ("cluster", "target", "keys", "expected"),
    [
        (cluster_of(4, orders=(1, 2, 3), payments=(1, 2, 3)), "broker:1", {"lane": "payments"}, {PAYMENTS: (4, 2, 3)}),
        (cluster_of(5, orders=(1, 2, 3), more=(1, 3, 4), payments=(3, 4, 5)), "brokers:1,2", {},
         {ORDERS: (4, 5, 3), MORE: (5, 3, 4)}),
        (cluster_of(5, orders=(1, 2, 3), more=(1, 2, 3)), "broker:1", {}, {ORDERS: (4, 2, 3), MORE: (5, 2, 3)}),
    ],
    ids=["one lane alone", "several targets, never to each other", "free brokers share"],
)  # fmt: skip
def test_who_hands_over_to_whom(cluster: FakeCluster, target: str, keys: dict[str, str], expected: object) -> None:
    injected(cluster, target, **keys)
    assert cluster.ongoing == expected


def test_nobody_hands_over_to_a_broker_that_is_down() -> None:
    cluster = cluster_of(4, orders=(1, 2, 3))
    cluster.brokers[4].running = False
    fault, nodes = injected(cluster)
    assert not cluster.ongoing
    reason = "broker-1: it held no replica that another running broker could take"
    assert fault.proof(cluster, nodes).reason == reason
    assert not fault.can_begin(cluster, nodes)
    cluster.brokers[4].running = True
    assert fault.can_begin(cluster, nodes)


def test_what_moves_already_is_left_alone_and_so_is_all_while_nobody_tells() -> None:
    cluster = cluster_of(4, orders=(1, 2, 3), more=(1, 2, 3))
    cluster.ongoing[ORDERS] = (1, 2, 4)
    injected(cluster)
    assert cluster.ongoing == {ORDERS: (1, 2, 4), MORE: (4, 2, 3)}
    silent = cluster_of(4, orders=(1, 2, 3))
    silent.silent_about_moves = True
    injected(silent)
    assert not silent.ongoing


@pytest.mark.parametrize(
    "state",
    [Leadership(4, 5, (4, 2, 3), (2, 3)), Leadership(4, 5, (4, 2, 3, 1), (2, 3, 4))],
    ids=["the new one is out of sync", "the old one is a replica"],
)
def test_a_move_is_not_over(state: Leadership) -> None:
    cluster = cluster_of(4, orders=(1, 2, 3))
    fault, nodes = injected(cluster)
    cluster.led[ORDERS] = state
    assert fault.proof(cluster, nodes).reason == "broker-1: topic-of-orders-0 has not moved"


def test_the_old_files_have_to_be_gone() -> None:
    cluster = cluster_of(4, orders=(1, 2, 3))
    cluster.brokers[1].answers["sh"] = (0, "meta.properties\ntopic-of-orders-0\n")
    fault, nodes = injected(cluster)
    cluster.move_on()
    reason = "broker-1: topic-of-orders-0 has moved, and its old files are still there"
    assert fault.proof(cluster, nodes).reason == reason
    cluster.brokers[1].answers["sh"] = (0, "topic-of-orders-0.8c1d2e-delete\ntopic-of-orders-01\n")
    assert fault.proof(cluster, nodes).took_effect


def test_a_broker_that_is_down_keeps_files_that_are_no_replica_any_more() -> None:
    cluster = cluster_of(4, orders=(1, 2, 3))
    fault, nodes = injected(cluster)
    cluster.move_on()
    cluster.brokers[1].running = False
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect
    assert fault.describe_evidence(proof.evidence["broker-1"]) == (
        "replicas of 1 partition moved: topic-of-orders-0 to broker 4; the broker is down, with the old files"
    )


def test_a_move_that_does_not_end_is_cancelled() -> None:
    cluster = cluster_of(4, orders=(1, 2, 3))
    fault, nodes = injected(cluster)
    fault.heal(cluster, nodes)
    fault.heal(cluster, nodes)
    assert cluster.cancelled == [ORDERS]


def experiment(fault: str, lanes: str = "{lane: orders}", cluster: str = "{brokers: 4}", more: str = "") -> Experiment:
    text = f"name: moved\ncluster: {cluster}\nlanes: [{lanes}]\nschedule: [{{{fault}, at: 1}}{more}]\n"
    return parse_experiment(text, "moved.yaml")


def faults_of(*args: str, **kwargs: str) -> dict[str, tuple[str, ...]]:
    return {lane.lane: lane.faults for _, _, lane in experiment(*args, **kwargs).lanes}


def test_while_a_replica_moves_a_fault_may_hit_one_more() -> None:
    lanes = "{lane: orders}, {lane: stays}"
    faults = faults_of(
        "fault: reassignment, target: broker:1, lane: orders", lanes, more=", {fault: kill, target: all, at: 2}"
    )
    assert faults == {"orders": ("session-expiry", *("kill",) * 4), "stays": ("kill",) * 3}


def test_a_quorum_is_not_lost_by_it() -> None:
    kraft = "{brokers: 4, metadata_mode: kraft, kafka_version: 4.3.1}"
    during = ", {fault: kill, target: broker:1, at: 0.5, duration: 5}"
    found = faults_of("fault: reassignment, target: 'broker:2'", cluster=kraft, more=during)
    assert found == {"orders": ("kill", "session-expiry")}
