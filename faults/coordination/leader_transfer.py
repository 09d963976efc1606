"""Faults that move the leadership of partitions, or the controller, while all processes keep running.

`leader-transfer` does what operators do before they remove a broker, and what a preferred leader election does: the
former leader keeps running, and learns a moment later that it was replaced.

`session-expiry` ends a broker's session with ZooKeeper: the controller takes the broker for dead and lets others lead.
The broker learns of the expiry when it connects again. It registers under a new broker epoch (KIP-380), and is told
whom to follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.command.errors import counted, first_of
from kafka_chaos.faults.cluster import ClusterControl, Leadership, NodeControl, PartitionId
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, all_took_effect
from kafka_chaos.faults.process.ended import still_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderTransfer(Fault):
    """Move the leadership of every partition that the targets lead to another replica in sync, with
    AlterPartitionReassignments (a new order of the same replicas) and a preferred leader election. The brokers keep
    running. With `lane`, only that lane's partitions move. Leadership stays with the new leaders when the fault ends.
    Proof: in the metadata, each of these partitions has another leader, in a higher leader epoch than before."""

    lane: str | None = None
    kind: ClassVar[str] = "leader-transfer"
    only_brokers: ClassVar[bool] = True
    spares_other_lanes: ClassVar[bool] = True
    leaves_nodes_alone: ClassVar[bool] = True
    since: ClassVar[tuple[str, str]] = ("2.4", "leadership moves by AlterPartitionReassignments (KIP-455)")
    # The nearest fault that the model has: a running leader is replaced by a member of the ISR, and learns of it later.
    # Unlike after a session expiry, the former leader stays in the ISR.
    counts_as: ClassVar[str] = "session-expiry"
    appearance: ClassVar[Appearance] = Appearance("#2f6f4f", "#7fcfa4", Pattern.LINES)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Note the leaders, and have replicas in sync elected. Partitions that are being moved keep their leaders."""
        now, moving = cluster.leadership(), cluster.moving_partitions()
        # If no broker tells which partitions are being moved, no leader changes.
        candidates = [] if moving is None else [partition for partition in now if partition not in moving]
        possible = {partition: self._successor(cluster, nodes, partition, now[partition]) for partition in candidates}
        new_leaders = {partition: leader for partition, leader in possible.items() if leader is not None}
        self._noted(cluster).update({partition: now[partition] for partition in new_leaders})
        cluster.transfer(new_leaders)

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Whether every partition that a target led has another leader, in a higher leader epoch."""
        before: Mapping[PartitionId, Leadership] = self._noted(cluster)
        now = cluster.leadership() if before else {}
        return all_took_effect({node.name: _transfer_proof(node, before, now) for node in nodes})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """The partitions that moved, each with its new leader and leader epoch."""
        moved = evidence["moved"]
        words = [
            f"{move['partition']} to broker {move['leader'][1]} (epoch {move['leader_epoch'][1]})" for move in moved
        ]
        return f"leadership of {counted(len(moved), 'partition')} moved: {first_of(words)}"

    def _successor(self, cluster: ClusterControl, nodes: Nodes, partition: PartitionId, now: Leadership) -> int | None:
        """The broker that is to lead a target's partition; None if no target leads it, or if no other broker can."""
        targets = {node.number for node in nodes}
        if now.leader not in targets or (self.lane is not None and cluster.topic(self.lane) != partition[0]):
            return None
        candidates = [broker for broker in now.replicas if broker in now.isr and broker not in targets]
        return next((broker for broker in candidates if cluster.brokers[broker].is_running()), None)


def _transfer_proof(
    node: NodeControl, before: Mapping[PartitionId, Leadership], now: Mapping[PartitionId, Leadership]
) -> Proof:
    led = {partition: state for partition, state in before.items() if state.leader == node.number}
    if not led:
        return Proof(False, {}, "it led no partition that another replica in sync could lead")
    moved, stayed = [], []
    for (topic, number), former in sorted(led.items()):
        state, name = now.get((topic, number)), f"{topic}-{number}"
        if state is None or state.leader in (None, node.number) or state.leader_epoch <= former.leader_epoch:
            stayed.append(name)
            continue
        leaders, epochs = [former.leader, state.leader], [former.leader_epoch, state.leader_epoch]
        moved.append({"partition": name, "leader": leaders, "leader_epoch": epochs})
    return Proof(not stayed, {"moved": moved}, f"{first_of(stayed)} did not move")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMove(Fault):
    """Depose the target, which has to be the controller (`target: controller`): ZooKeeper's znode `/controller` is
    removed, and the brokers, which keep running, elect a controller again, perhaps the same. Proof: there is a
    controller in a higher controller epoch than before, and the former controller's process still runs."""

    kind: ClassVar[str] = "controller-move"
    in_words: ClassVar[str] = (
        "broker {controller} is controller in epoch {controller_epoch[1]} (before: {controller_epoch[0]})"
    )
    only_brokers: ClassVar[bool] = True
    needs_zookeeper: ClassVar[str | None] = (
        "nothing deposes the active controller in KRaft mode: pause it, isolate it or kill it"
    )
    # The model expects nothing: a new controller only elects leaders for partitions whose leader is gone.
    appearance: ClassVar[Appearance] = Appearance("#7a6a00", "#d6c65a", Pattern.CROSSES)

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Note the controller's epoch and depose the controller, if it is a target."""
        epoch, controller = cluster.controller_epoch(), cluster.controller()
        deposed = next((node for node in nodes if node.number == controller), None)
        if deposed is not None and epoch is not None and self.stable_name not in cluster.noted:
            cluster.noted[self.stable_name] = {"name": deposed.name, "epoch": epoch, "Pid": deposed.state()["Pid"]}
            cluster.depose_controller()

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """Whether there is a controller in a later epoch, and the former one's process still runs."""
        before = cluster.noted.get(self.stable_name)
        epoch, controller = (cluster.controller_epoch(), cluster.controller()) if before else (None, None)
        return all_took_effect({node.name: _controller_proof(node, before, epoch, controller) for node in nodes})


def _controller_proof(
    node: NodeControl, before: Mapping[str, Any] | None, epoch: int | None, controller: int | None
) -> Proof:
    if before is None or before["name"] != node.name:
        return Proof(False, {}, "it was not controller")
    state = node.state()
    if not still_runs(state, before["Pid"]):
        return Proof(False, {}, "its process ended")
    if epoch is None or epoch <= before["epoch"] or controller is None:
        return Proof(False, {}, "no controller was elected in a later epoch")
    return Proof(True, {"controller": controller, "controller_epoch": [before["epoch"], epoch], "Pid": state["Pid"]})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpiry(Fault):
    """End the brokers' sessions with ZooKeeper while their processes keep running: ZooKeeper closes each session, and
    removes the broker's registration. Proof: the broker is registered again in another session, under a higher
    broker epoch, and its process is the same as before."""

    kind: ClassVar[str] = "session-expiry"
    in_words: ClassVar[str] = (
        "registered again under broker epoch {broker_epoch[1]} (before: {broker_epoch[0]}) by the same process, {Pid}"
    )
    only_brokers: ClassVar[bool] = True
    counts_as: ClassVar[str] = "session-expiry"
    needs_zookeeper: ClassVar[str | None] = (
        "brokers have no sessions with ZooKeeper in KRaft mode: with cluster.controllers, hold their heartbeats "
        "({fault: hold, target: controllers, api: BrokerHeartbeat, sender: 'broker:1'})"
    )
    appearance: ClassVar[Appearance] = Appearance("#4a5a8a", "#9db0e8", Pattern.BACK_DIAGONALS)

    def can_begin(self, cluster: ClusterControl, nodes: Nodes) -> bool:
        """Whether every target has a session that can expire: a broker that was cut off may have lost its session."""
        return all(cluster.registration(node.number) is not None for node in nodes)

    def _inject(self, cluster: ClusterControl, node: NodeControl) -> None:
        now, noted = cluster.registration(node.number), self._noted(cluster)
        if now is None or (node.name in noted and noted[node.name]["session"] != now.session):
            return
        noted[node.name] = {"session": now.session, "broker_epoch": now.broker_epoch, "Pid": node.state()["Pid"]}
        cluster.expire_session(now.session)

    def _proof(self, cluster: ClusterControl, node: NodeControl) -> Proof:
        before = self._noted(cluster).get(node.name)
        if before is None:
            return Proof(False, {}, "it was not registered")
        state, now = node.state(), cluster.registration(node.number)
        if not still_runs(state, before["Pid"]):
            return Proof(False, {}, "its process ended")
        if now is None:
            return Proof(False, {}, "its registration is gone, and it has not registered again")
        evidence = {
            "broker_epoch": [before["broker_epoch"], now.broker_epoch],
            # Session ids are signed numbers of 64 bits; ZooKeeper writes them without sign.
            "session": [hex(session & 0xFFFFFFFFFFFFFFFF) for session in (before["session"], now.session)],
            "Pid": state["Pid"],
        }
        if now.session == before["session"] or now.broker_epoch <= before["broker_epoch"]:
            return Proof(False, evidence, "its session goes on")
        return Proof(True, evidence)

    def heal(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Wait until the running targets are registered; they register by themselves."""
        cluster.await_registered([node for node in nodes if node.is_running()])
