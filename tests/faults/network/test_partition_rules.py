"""The rules of faults of the network, seen on a node that only writes commands down."""

from typing import Any

import pytest

from kafka_chaos.faults.fault import Fault
from kafka_chaos.faults.network.packet_filter import chain_prefix
from kafka_chaos.faults.network.partition import Isolate, PacketLoss, Partition
from kafka_chaos.faults.target import Target
from tests.faults.fakes import FakeCluster, FakeNode

TARGET = Target.parse("broker:1")

CHANCE = "-m statistic --mode random --probability 0.2500"
REPLICATION, CONTROL = {"direction": "in", "port": "replication"}, {"direction": "in", "port": "control"}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Partition(target=TARGET),
         [*(f"in -s 10.0.0.{n} -j DROP" for n in (2, 3)), *(f"out -d 10.0.0.{n} -j DROP" for n in (2, 3))]),
        (Partition(target=TARGET, direction="out", peers=(3,)), ["out -d 10.0.0.3 -j DROP"]),
        # A port is cut for connections to the target's own listener.
        (Partition(target=TARGET, action="reject", peers=(2,), **REPLICATION),
         ["in -s 10.0.0.2 -p tcp --dport 9092 -j REJECT --reject-with tcp-reset"]),
        (Partition(target=TARGET, peers=(2,), **CONTROL), ["in -s 10.0.0.2 -p tcp --dport 9091 -j DROP"]),
        (Isolate(target=TARGET), ["in ! -i lo -j DROP", "out ! -o lo -j DROP"]),
        # Of what other brokers send, a part is lost.
        (PacketLoss(target=TARGET, percent=25), [f"in -s 10.0.0.{n} {CHANCE} -j DROP" for n in (2, 3)]),
    ],
)  # fmt: skip
def test_the_rules_of_a_fault(fault: Fault, expected: list[str]) -> None:
    cluster = FakeCluster()
    fault.inject(cluster, (cluster.brokers[1],))
    (script,) = (command[2] for command in cluster.brokers[1].commands if command[:2] == ("sh", "-c"))
    lines = script.replace(chain_prefix(fault), "CHAIN").splitlines()
    assert [line for line in lines if line.startswith("-A")] == [f"-A CHAIN-{rule}" for rule in expected]


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


def test_all_rules_are_installed_at_once_unless_they_are_there() -> None:
    fault = Partition(target=TARGET, direction="in", peers=(2,))
    cluster = FakeCluster()
    fault.inject(cluster, (cluster.brokers[1],))
    (command,) = cluster.brokers[1].commands
    assert command[2].replace(chain_prefix(fault), "CHAIN") == (
        "iptables -w -C INPUT -j CHAIN-in 2>/dev/null || iptables-restore -w --noflush <<'END'\n"
        "*filter\n"
        ":CHAIN-in - [0:0]\n"
        "-A CHAIN-in -s 10.0.0.2 -j DROP\n"
        "-I INPUT -j CHAIN-in\n"
        "COMMIT\n"
        "END\n"
    )


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
