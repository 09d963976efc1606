"""Faults of the remote store: what the plugin is told, and what it noted is the proof."""

from dataclasses import dataclass, field

import pytest

from kafka_chaos.faults.fault import build
from kafka_chaos.faults.registry import fault_kinds
from kafka_chaos.faults.storage.remote_store import REMOTE_STORE, SEGMENTS
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from tests.faults.fakes import FakeCluster, FakeNode


@dataclass
class Broker(FakeNode):
    """A broker whose files are those of one store."""

    store: dict[str, str] = field(default_factory=dict)

    def write_file(self, path: str, data: str) -> None:
        self.store[path] = data

    def read_file(self, path: str) -> bytes:
        return self.store[path].encode()


@pytest.fixture
def nodes() -> tuple[Broker, ...]:
    store = {f"{REMOTE_STORE}/affected/{number}": "copy fail\nfetch fail\n" for number in (1, 2)}
    return tuple(Broker(f"broker-{number}", number, store=store) for number in (1, 2))


def said(node: Broker) -> str:
    mine = f"{REMOTE_STORE}/faults/{node.number}-"
    return "".join(text for path, text in node.store.items() if path.startswith(mine))


@pytest.mark.parametrize(
    ("kind", "keys", "lines"),
    [
        ("failing-remote-store", {}, "copy fail\nfetch fail\ndelete fail\n"),
        ("failing-remote-store", {"operations": ["fetch"]}, "fetch fail\n"),
        ("slow-remote-store", {"operations": ["copy"], "seconds": 1.5}, "copy delay 1500\n"),
        ("full-remote-store", {}, "copy full\n"),
    ],
)
def test_operations_that_met_the_fault_since_are_its_proof(
    kind: str, keys: dict[str, object], lines: str, nodes: tuple[Broker, ...]
) -> None:
    cluster = FakeCluster(brokers={node.number: node for node in nodes})
    fault = build(fault_kinds()[kind], target=Target.parse("all"), at=0, duration=1, keys=keys)
    fault.inject(cluster, nodes)
    fault.inject(cluster, nodes)
    assert [said(node) for node in nodes] == [lines, lines]
    assert not fault.proof(cluster, nodes).took_effect
    met = lines.splitlines()[0]
    nodes[0].store[f"{REMOTE_STORE}/affected/2"] += f"{met}\nanother delay 7\n{met}\n"
    proof = fault.proof(cluster, nodes)
    operation = met.split()[0]
    assert (proof.took_effect, proof.evidence["broker-2"]) == (True, {"operations": {operation: 2}})
    told = [fault.describe_evidence(proof.evidence[node.name]) for node in nodes]
    assert told == ["it asked nothing of the remote store", f"{operation} 2 times"]
    fault.heal(cluster, nodes)
    assert [said(node) for node in nodes] == ["", ""]


def test_lost_segments_were_there_and_are_not(nodes: tuple[Broker, ...]) -> None:
    cluster = FakeCluster(brokers={node.number: node for node in nodes})
    fault = build(fault_kinds()["lost-remote-segment"], target=Target.parse("all"), at=0, duration=1, keys={})
    nodes[0].answers["sh"] = (0, "")
    fault.inject(cluster, nodes)
    assert fault.proof(cluster, nodes).reason == "no segment was in the remote store"
    cluster.noted.clear()
    lost = f"{SEGMENTS}/orders-0/{0:020d}-{9:020d}-x"
    nodes[0].answers["sh"] = (0, f"{lost}\n")
    fault.inject(cluster, nodes)
    proof = fault.proof(cluster, nodes)
    assert proof.took_effect
    assert fault.describe_evidence(proof.evidence["broker-2"]) == f"1 segment gone: orders-0/{0:020d}-{9:020d}-x"
    nodes[0].sizes[lost] = 4096
    assert fault.proof(cluster, nodes).reason == f"still there: {lost}"


def test_a_cluster_without_a_remote_store_is_refused() -> None:
    kind = fault_kinds()["full-remote-store"]
    assert kind.refusal(ClusterLayout()) == "the cluster has no remote store: expected tiered_storage: true"
    assert kind.refusal(ClusterLayout(tiered_storage=True)) is None
