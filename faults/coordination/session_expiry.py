"""`session-expiry`: a broker's session with ZooKeeper is over, and the broker lives.

The controller takes it for dead and lets others lead. The broker learns of it when it connects again: it registers
anew, under a new broker epoch (KIP-380), and is told whom to follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, Setting
from kafka_chaos.faults.process.ended import runs_on


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpiry(Fault):
    """End the brokers' sessions with ZooKeeper while their processes run on: ZooKeeper closes each session, and removes
    the broker's registration. Its proof: the broker is registered again in another session, under a higher broker
    epoch, and its process is the same as before."""

    kind: ClassVar[str] = "session-expiry"
    in_words: ClassVar[str] = (
        "registered again under broker epoch {broker_epoch[1]} (before: {broker_epoch[0]}) by the same process, {Pid}"
    )
    only_brokers: ClassVar[bool] = True
    counts_as: ClassVar[str] = "session-expiry"
    appearance: ClassVar[Appearance] = Appearance("#4a5a8a", "#9db0e8", Pattern.BACK_DIAGONALS)

    @classmethod
    def refusal(cls, cluster: Setting) -> str | None:
        """There are no sessions in KRaft mode; heartbeats that don't arrive have the same effect."""
        if cluster.metadata_mode != KRAFT:
            return None
        return (
            "brokers have no sessions with ZooKeeper in KRaft mode: with cluster.controllers, hold their heartbeats "
            "({fault: hold, target: controllers, api: BrokerHeartbeat, sender: 'broker:1'})"
        )

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether every target has a session that can expire: one that was cut off may have lost its own."""
        return all(cluster.registration(node.number) is not None for node in nodes)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        now, noted = cluster.registration(node.number), self._noted(cluster)
        if now is None or (node.name in noted and noted[node.name]["session"] != now.session):
            return
        noted[node.name] = {"session": now.session, "broker_epoch": now.broker_epoch, "Pid": node.state()["Pid"]}
        cluster.expire_session(now.session)

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        return _registered_anew(cluster, node, self._noted(cluster).get(node.name))

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Wait until those that run are registered: brokers do that by themselves."""
        cluster.await_registered([node for node in nodes if node.is_running()])


def _registered_anew(cluster: ClusterControl, node: NodeControl, before: Mapping[str, Any] | None) -> Proof:
    if before is None:
        return Proof(False, {}, "it was not registered")
    state, now = node.state(), cluster.registration(node.number)
    if not runs_on(state, before["Pid"]):
        return Proof(False, {}, "its process ended")
    if now is None:
        return Proof(False, {}, "its registration is gone, and it has not registered again")
    evidence = {
        "broker_epoch": [before["broker_epoch"], now.broker_epoch],
        "session": [hex(session & 0xFFFFFFFFFFFFFFFF) for session in (before["session"], now.session)],
        "Pid": state["Pid"],
    }
    if now.session == before["session"] or now.broker_epoch <= before["broker_epoch"]:
        return Proof(False, evidence, "its session goes on")
    return Proof(True, evidence)
