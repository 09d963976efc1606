"""The rules of faults of the network, and what queues of packets are told, seen on a node that only writes commands
down.
"""

from typing import Any

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.fault import Fault, build
from kafka_chaos.faults.network.packet_filter import chain_name
from kafka_chaos.faults.network.partition import Isolate, Partition
from kafka_chaos.faults.network.queued import (
    PacketDelay,
    PacketDuplicate,
    PacketLoss,
    PacketRate,
    PacketReorder,
    Queued,
)
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, FakeNode

TARGET = Target.parse("broker:1")


QUEUE = "-j NFQUEUE --queue-num 1 --queue-bypass"
CHANCE = "-m statistic --mode random --probability 0.2500"
REPLICATION, CONTROL = {"direction": "in", "port": "replication"}, {"direction": "in", "port": "control"}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (
            Partition(target=TARGET),
            [*(f"in -s 10.0.0.{n} -j DROP" for n in (2, 3)), *(f"out -d 10.0.0.{n} -j DROP" for n in (2, 3))],
        ),
        (Partition(target=TARGET, direction="out", peers=(3,)), ["out -d 10.0.0.3 -j DROP"]),
        # A port is cut for connections to the target's own listener.
        (
            Partition(target=TARGET, action="reject", peers=(2,), **REPLICATION),
            ["in -s 10.0.0.2 -p tcp --dport 9092 -j REJECT --reject-with tcp-reset"],
        ),
        (Partition(target=TARGET, peers=(2,), **CONTROL), ["in -s 10.0.0.2 -p tcp --dport 9091 -j DROP"]),
        (Isolate(target=TARGET), ["in ! -i lo -j DROP", "out ! -o lo -j DROP"]),
        # Of what other brokers send, a part is lost, or it waits in a queue; what peers get is sent twice.
        (PacketLoss(target=TARGET, percent=25), [f"in -s 10.0.0.{n} {CHANCE} -j DROP" for n in (2, 3)]),
        (PacketDelay(target=TARGET), [f"in -s 10.0.0.{n} {QUEUE}" for n in (2, 3)]),
        (
            PacketDuplicate(target=TARGET, percent=25),
            [f"out -d 10.0.0.{n} {CHANCE} -j TEE --gateway 10.0.0.{n}" for n in (2, 3)],
        ),
    ],
)
def test_the_rules_of_a_fault(fault: Fault, expected: list[str]) -> None:
    assert rules(fault) == [f"-A CHAIN-{rule}" for rule in expected]


@pytest.mark.parametrize(
    ("target", "keys", "cut"),
    [
        ("controller:1", {}, ["controller-2", "controller-3"]),
        ("controllers:minority", {"peers": "controllers"}, ["controller-2", "controller-3"]),
        ("controller:1", {"peers": "brokers"}, ["broker-1", "broker-2", "broker-3"]),
        ("controller:1", {"peers": (2, 101, 103)}, ["broker-2", "controller-3"]),
        ("broker:1", {}, ["broker-2", "broker-3"]),
        ("broker:1", {"peers": "brokers"}, ["broker-2", "broker-3"]),
        ("broker:1", {"peers": "controllers"}, ["controller-1", "controller-2", "controller-3"]),
        ("zookeeper:1", {}, ["broker-1", "broker-2", "broker-3"]),
    ],
)
def test_whom_a_node_is_cut_off_from(target: str, keys: dict[str, Any], cut: list[str]) -> None:
    controllers = {n: FakeNode(f"controller-{n}", 100 + n, f"10.0.0.{100 + n}") for n in (1, 2, 3)}
    cluster = FakeCluster(controllers=controllers)
    role = Target.parse(target)
    nodes = (controllers[1],) if role.part else role.resolve(cluster, 0)
    Partition(target=role, direction="in", port="control", **keys).inject(cluster, nodes)
    names = {node.address: node.name for node in (*cluster.brokers.values(), *controllers.values())}
    (script,) = (command[2] for command in nodes[0].commands if command[:2] == ("sh", "-c"))
    rules = [line.split() for line in script.splitlines() if line.startswith("-A")]
    assert sorted(names[rule[3]] for rule in rules) == cut
    assert all(rule[4:] == ["-p", "tcp", "--dport", "9091", "-j", "DROP"] for rule in rules)


def test_different_faults_have_different_chains_that_netfilter_accepts() -> None:
    faults = [Partition(target=TARGET), Partition(target=TARGET, action="reject"), Partition(target=TARGET, at=1)]
    names = {f"{chain_name(fault)}-out" for fault in faults}
    assert len(names) == 3
    assert all(len(name) < 29 for name in names)


def test_all_rules_are_installed_at_once_unless_they_are_there() -> None:
    fault = Partition(target=TARGET, direction="in", peers=(2,))
    cluster = FakeCluster()
    fault.inject(cluster, (cluster.brokers[1],))
    (command,) = cluster.brokers[1].commands
    assert command[2].replace(chain_name(fault), "CHAIN") == (
        "iptables -w -C INPUT -j CHAIN-in 2>/dev/null || iptables-restore -w --noflush <<'END'\n"
        "*filter\n"
        ":CHAIN-in - [0:0]\n"
        "-A CHAIN-in -s 10.0.0.2 -j DROP\n"
        "-I INPUT -j CHAIN-in\n"
        "COMMIT\n"
        "END\n"
    )


@pytest.mark.parametrize("percent", [0, -1, 100.5])
def test_a_loss_is_a_percentage(percent: float) -> None:
    with pytest.raises(ValueError, match=r"^percent: expected (more than 0|at most 100), got"):
        build(PacketLoss, target=TARGET, at=0, duration=0, keys={"percent": percent})


@pytest.mark.parametrize("action", ["inject", "heal"])
def test_a_container_that_ends_meanwhile_has_no_rules_to_change(action: str) -> None:
    cluster = FakeCluster()
    cluster.brokers[1].ends = True
    getattr(Isolate(target=TARGET), action)(cluster, (cluster.brokers[1],))
    assert not cluster.brokers[1].running


@pytest.mark.parametrize("action", ["inject", "heal"])
def test_rules_that_cannot_be_changed_are_an_error(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.faults.network.packet_filter._ENDING_SECONDS", 0.2)
    cluster = FakeCluster()
    cluster.brokers[1].answers["sh"] = (4, "Permission denied")
    with pytest.raises(RuntimeError, match="Permission denied"):
        getattr(Isolate(target=TARGET), action)(cluster, (cluster.brokers[1],))


QUEUE = "-j NFQUEUE --queue-num 1 --queue-bypass"
PASSED = {"packets": 10, "waited": 4, "bytes": 4000, "seconds": 0.4, "overtaken": 2}


def rules(fault: Fault, cluster: FakeCluster | None = None) -> list[str]:
    """The rules that begin a fault at broker 1; those of queues stand in a table of their own."""
    cluster = cluster or FakeCluster()
    fault.inject(cluster, (cluster.brokers[1],))
    (script,) = (command[2] for command in cluster.brokers[1].commands if command[:2] == ("sh", "-c"))
    assert ("*mangle\n" in script) is isinstance(fault, Queued | PacketDuplicate)
    lines = script.replace(chain_name(fault), "CHAIN").splitlines()
    return [line for line in lines if line.startswith("-A")]


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
    for kind in (Isolate, PacketDelay, PacketReorder, PacketRate):
        assert kind(target=Target.parse("brokers:1,2")).model_faults(3) == ("partition",) * 2
        assert kind(target=Target.parse("zookeeper")).model_faults(3) == ("session-expiry",) * 3
    assert PacketLoss(target=TARGET).model_faults(3) == ("partition",)
    assert PacketDuplicate(target=TARGET).model_faults(3) == ()


def test_a_node_that_can_have_no_queue_is_refused() -> None:
    cluster = FakeCluster()
    cluster.brokers[1].packets = None
    with pytest.raises(UsageFailure, match="broker-1: its packets can't wait in a queue"):
        PacketDelay(target=TARGET).inject(cluster, (cluster.brokers[1],))
