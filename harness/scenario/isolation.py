"""A broker alone: no packet to or from any other node of its cluster, ZooKeeper included; clients still reach it."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_chaos.harness.node import Node

_CHAIN = "KC-isolated"
_SIDES = (("INPUT", "-s"), ("OUTPUT", "-d"))


def isolate(node: Node, others: Iterable[Node]) -> None:
    """Drop everything between a running broker and these nodes."""
    node.must_execute("iptables", "-w", "-N", _CHAIN)
    for other in others:
        for _, side in _SIDES:
            node.must_execute("iptables", "-w", "-A", _CHAIN, side, other.address, "-j", "DROP")
    for hook, _ in _SIDES:
        node.must_execute("iptables", "-w", "-I", hook, "-j", _CHAIN)


def rejoin(node: Node) -> None:
    """Take the rules down."""
    for hook, _ in _SIDES:
        node.must_execute("iptables", "-w", "-D", hook, "-j", _CHAIN)
    node.must_execute("iptables", "-w", "-F", _CHAIN)
    node.must_execute("iptables", "-w", "-X", _CHAIN)
