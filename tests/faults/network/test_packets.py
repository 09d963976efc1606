"""Faults of packets that wait or come twice, seen on a node that only writes commands down."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.faults.fault import Fault, build
from kafka_chaos.faults.network.packet_filter import chain_name
from kafka_chaos.faults.network.queued import PacketDelay, PacketDuplicate, PacketRate, PacketReorder, Queued
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, FakeNode

TARGET = Target.parse("broker:1")
QUEUE = "-j NFQUEUE --queue-num 1 --queue-bypass"
PASSED = {"packets": 10, "waited": 4, "bytes": 4000, "seconds": 0.4, "overtaken": 2}


def rules(fault: Fault, cluster: FakeCluster | None = None) -> list[str]:
    cluster = cluster or FakeCluster()
    fault.inject(cluster, (cluster.brokers[1],))
    (script,) = (command[2] for command in cluster.brokers[1].commands if command[:2] == ("sh", "-c"))
    assert "*mangle\n" in script
    lines = script.replace(chain_name(fault), "CHAIN").splitlines()
    return [line for line in lines if line.startswith("-A")]


def test_what_other_brokers_send_waits_in_a_queue() -> None:
    assert rules(PacketDelay(target=TARGET)) == [f"-A CHAIN-in -s 10.0.0.2 {QUEUE}", f"-A CHAIN-in -s 10.0.0.3 {QUEUE}"]


def test_both_directions_and_one_peer() -> None:
    assert rules(PacketRate(target=TARGET, direction="both", peers=(3,))) == [
        f"-A CHAIN-in -s 10.0.0.3 {QUEUE}",
        f"-A CHAIN-out -d 10.0.0.3 {QUEUE}",
    ]


def test_clients_are_whoever_is_no_node_and_everyone_is_everyone() -> None:
    cluster = FakeCluster(zookeepers={1: FakeNode("zookeeper-1", 1, "10.0.0.9")})
    assert rules(PacketDelay(target=TARGET, direction="out", peers="clients"), cluster) == [
        *(f"-A CHAIN-out -d 10.0.0.{number} -j RETURN" for number in (1, 2, 3, 9)),
        f"-A CHAIN-out ! -o lo {QUEUE}",
    ]
    assert rules(PacketDelay(target=TARGET, peers="everyone")) == [f"-A CHAIN-in ! -i lo {QUEUE}"]


@pytest.mark.parametrize(
    ("fault", "treatment"),
    [
        (PacketDelay(target=TARGET, seconds=0.2, jitter=0.1), {"seconds": 0.2, "jitter": 0.1}),
        (PacketReorder(target=TARGET), {"seconds": 0.05, "percent": 10.0, "in_order": False}),
        (PacketRate(target=TARGET, kbit_per_second=64), {"bits_per_second": 64_000}),
    ],
)
def test_what_the_queue_is_told(fault: Queued, treatment: dict[str, Any]) -> None:
    cluster = FakeCluster()
    node = cluster.brokers[1]
    assert node.packets is not None
    fault.inject(cluster, (node,))
    fault.inject(cluster, (node,))
    assert node.packets.served == {chain_name(fault): treatment}
    fault.heal(cluster, (node,))
    fault.heal(cluster, (node,))
    assert node.packets.served == {}
    assert "-t mangle -D OUTPUT" in node.commands[-1][2]


@pytest.mark.parametrize(
    ("kind", "missing", "reason", "words"),
    [
        (PacketDelay, "waited", "no packet has waited yet", "4 packets waited, 100 ms on average"),
        (PacketRate, "waited", "no packet has waited yet", "4 packets waited, 100 ms on average"),
        (PacketReorder, "overtaken", "no packet was overtaken yet", "2 of 10 packets were overtaken"),
    ],
)
def test_packets_that_waited_prove_it_and_a_queue_that_nobody_serves_does_not(
    kind: type[Queued], missing: str, reason: str, words: str
) -> None:
    fault, cluster = kind(target=TARGET), FakeCluster()
    node = cluster.brokers[1]
    assert node.packets is not None
    assert fault.proof(cluster, (node,)).reason == "broker-1: its packets are in no queue"
    fault.inject(cluster, (node,))
    node.packets.passed = {**PASSED, missing: 0}
    assert fault.proof(cluster, (node,)).reason == f"broker-1: {reason}"
    node.packets.passed = PASSED
    proof = fault.proof(cluster, (node,))
    assert proof.took_effect
    assert fault.describe_evidence(proof.evidence["broker-1"]) == words  # type: ignore[attr-defined]
    node.packets.gone = True
    assert fault.proof(cluster, (node,)).reason == "broker-1: the process of the packets ended with -9"


def test_packets_are_sent_twice_to_the_peers() -> None:
    chance = "-m statistic --mode random --probability 0.2500"
    assert rules(PacketDuplicate(target=TARGET, percent=25)) == [
        f"-A CHAIN-out -d 10.0.0.2 {chance} -j TEE --gateway 10.0.0.2",
        f"-A CHAIN-out -d 10.0.0.3 {chance} -j TEE --gateway 10.0.0.3",
    ]


@pytest.mark.parametrize(
    ("kind", "keys", "refused"),
    [
        (PacketDelay, {"seconds": 0}, "seconds: 0 without jitter"),
        (PacketDelay, {"jitter": -1}, "jitter: "),
        (PacketDelay, {"direction": "up"}, "direction: "),
        (PacketReorder, {"percent": 100}, "percent: "),
        (PacketReorder, {"seconds": 0}, "seconds: "),
        (PacketRate, {"kbit_per_second": 0}, "kbit_per_second: "),
        (PacketDuplicate, {"percent": 0}, "percent: "),
    ],
)
def test_values_that_mean_nothing_are_refused(kind: Any, keys: dict[str, Any], refused: str) -> None:
    with pytest.raises(ValueError, match=f"^{refused}.*expected"):
        build(kind, target=TARGET, at=0, duration=0, keys=keys)


def test_what_the_model_must_expect() -> None:
    for kind in (PacketDelay, PacketReorder, PacketRate):
        assert kind(target=Target.parse("brokers:1,2")).model_faults(3) == ("partition",) * 2
        assert kind(target=Target.parse("zookeeper")).model_faults(3) == ("session-expiry",) * 3
    assert PacketDuplicate(target=TARGET).model_faults(3) == ()


def test_a_node_that_can_have_no_queue_is_refused() -> None:
    cluster = FakeCluster()
    cluster.brokers[1].packets = None
    with pytest.raises(UsageFailure, match="broker-1: its packets can't wait in a queue"):
        PacketDelay(target=TARGET).inject(cluster, (cluster.brokers[1],))
