"""Shared by the kinds that act on packets between nodes: which nodes, which way, which listeners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Nodes

PORTS = {"replication": 9092, "control": 9091}
"""Listener ports that can be cut separately: replication (followers fetch from it) and control (controller to broker
with ZooKeeper, the controllers' own listener in KRaft mode)."""

DIRECTIONS = ("both", "in", "out")
HOOKS = {"in": "INPUT", "out": "OUTPUT"}
"""Where the packet filter sees what comes to a target, and what it sends."""

Named = tuple[int, ...] | Literal["brokers", "controllers"] | None
"""Nodes as experiments name them: by ids, by kind, or (None) those of the targets' own kind."""


def named_nodes(named: Named, cluster: ClusterControl, nodes: Nodes) -> Sequence[NodeControl]:
    """The nodes that are named, the targets `nodes` among them where they are of that kind."""
    kinds = {"brokers": list(cluster.brokers.values()), "controllers": list(cluster.controllers.values())}
    if isinstance(named, tuple):
        return [node for kind in kinds.values() for node in kind if node.number in named]
    targets = {node.name for node in nodes}
    controllers = named is None and any(node.name in targets for node in kinds["controllers"])
    return kinds[named or ("controllers" if controllers else "brokers")]
