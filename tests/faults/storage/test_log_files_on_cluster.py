"""Brokers that come back without checkpoints, indexes or the end of a segment, and are whole again."""

import pytest
from confluent_kafka import Producer

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.faults.fault import build
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import NEWEST, PLAIN
from tests.faults.fakes import hit_by, hit_twice_by
from tests.faults.on_brokers import in_both_modes

pytestmark = pytest.mark.cluster

RECORDS = 500

layout = in_both_modes(PLAIN, NEWEST)


def filled(cluster: Cluster, admin: ClusterAdmin, topic: str, replicas: tuple[int, ...]) -> None:
    """A topic of three segments with records that all replicas have; brokers since 4.0 want at least 1 MiB each."""
    admin.create_topic(topic, replica_assignment=[replicas], configs={"segment.bytes": 1 << 20})
    admin.await_full_isr([topic])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.size": 2000})
    for number in range(RECORDS):
        producer.produce(topic, f"record {number} {'.' * 5000}")
    assert producer.flush(30) == 0
    assert admin.end_offsets(topic, [0]) == {0: RECORDS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lost-checkpoint", "lost-index", "truncated-segment", "corrupted-segment"])
def test_a_broker_comes_back_without_them_and_lacks_nothing_that_others_have(
    kind: str, cluster: Cluster, admin: ClusterAdmin
) -> None:
    topic = f"{kind}-topic"
    view = ClusterView(cluster, admin, topics=[topic])
    filled(cluster, admin, topic, (1, 2, 3))
    fault = build(fault_kinds()[kind], target=Target.parse(f"leader({topic})"), at=1, duration=1, keys={})
    nodes = hit_twice_by(fault, view)
    proof = fault.proof(view, nodes)
    assert proof.took_effect, proof.reason
    names = {path.rpartition("/")[2] for path in proof.evidence["broker-1"]["files"]}
    assert {"lost-checkpoint": "leader-epoch-checkpoint", "lost-index": f"{0:020}.index"}.get(kind, min(names)) in names
    fault.heal(view, nodes)
    fault.heal(view, nodes)
    assert not fault.proof(view, nodes).took_effect
    admin.await_full_isr([topic], timeout=60)
    assert admin.end_offsets(topic, [0]) == {0: RECORDS}
    offsets = {broker: _offsets(cluster, broker, topic) for broker in (1, 2, 3)}
    assert offsets == {broker: list(range(RECORDS)) for broker in (1, 2, 3)}


@pytest.mark.parametrize("kind", ["truncated-segment", pytest.param("corrupted-segment", marks=pytest.mark.slow)])
def test_the_end_of_the_only_replica_is_gone_for_good(kind: str, cluster: Cluster, admin: ClusterAdmin) -> None:
    topic = f"{kind}-alone"
    view = ClusterView(cluster, admin, topics=[topic])
    filled(cluster, admin, topic, (2,))
    keys = {"lane": topic, "bytes": 1000}
    fault = build(fault_kinds()[kind], target=Target.parse("broker:2"), at=1, duration=1, keys=keys)
    nodes = hit_by(fault, view)
    proof = fault.proof(view, nodes)
    assert proof.took_effect, proof.reason
    assert [path.split("/")[-2] for path in proof.evidence["broker-2"]["files"]] == [f"{topic}-0"]
    fault.heal(view, nodes)
    admin.await_full_isr([topic], timeout=60)
    end = admin.end_offsets(topic, [0])[0]
    assert 0 < end < RECORDS
    assert _offsets(cluster, 2, topic) == list(range(end))


def _offsets(cluster: Cluster, broker: int, topic: str) -> list[int]:
    return [record.offset for record in read_replica(cluster.brokers[broker], topic, 0).records]
