"""`controller-move`: the controller is deposed, and another election follows, while every broker runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.faults.cluster import ClusterControl, NodeControl
from kafka_chaos.faults.fault import Appearance, Fault, Nodes, Pattern, Proof, Setting, all_took_effect, mark
from kafka_chaos.faults.process.ended import runs_on


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMove(Fault):
    """Depose the target, which has to be the controller (`target: controller`): the controller's node in ZooKeeper is
    removed, and the brokers elect one again, perhaps the same. They run on. Its proof: there is a controller, in a
    higher controller epoch than before, and the former one's process is the same."""

    kind: ClassVar[str] = "controller-move"
    only_brokers: ClassVar[bool] = True
    # The model expects nothing: a new controller elects leaders for those partitions alone whose leader is gone.
    appearance: ClassVar[Appearance] = Appearance("#7a6a00", "#d6c65a", Pattern.CROSSES)

    @staticmethod
    def refusal(cluster: Setting) -> str | None:
        """In KRaft mode no request deposes a controller that is well."""
        if cluster.metadata_mode != KRAFT:
            return None
        return "nothing deposes the active controller in KRaft mode: pause it, isolate it or kill it"

    def inject(self, cluster: ClusterControl, nodes: Nodes) -> None:
        """Note the controller's epoch, and depose it, if it is a target."""
        epoch, controller = cluster.controller_epoch(), cluster.controller()
        deposed = next((node for node in nodes if node.number == controller), None)
        if deposed is not None and epoch is not None and mark(self) not in cluster.noted:
            cluster.noted[mark(self)] = {"name": deposed.name, "epoch": epoch, "Pid": deposed.state()["Pid"]}
            cluster.depose_controller()

    def proof(self, cluster: ClusterControl, nodes: Nodes) -> Proof:
        """There is a controller in a later epoch."""
        before = cluster.noted.get(mark(self))
        epoch, controller = (cluster.controller_epoch(), cluster.controller()) if before else (None, None)
        return all_took_effect({node.name: _moved(node, before, epoch, controller) for node in nodes})

    @staticmethod
    def describe_evidence(evidence: Mapping[str, Any]) -> str:
        """Who is controller now, and the epochs before and after."""
        before, now = evidence["controller_epoch"]
        return f"broker {evidence['controller']} is controller in epoch {now} (before: {before})"


def _moved(node: NodeControl, before: Mapping[str, Any] | None, epoch: int | None, controller: int | None) -> Proof:
    if before is None or before["name"] != node.name:
        return Proof(False, {}, "it was not controller")
    state = node.state()
    if not runs_on(state, before["Pid"]):
        return Proof(False, {}, "its process ended")
    if epoch is None or epoch <= before["epoch"] or controller is None:
        return Proof(False, {}, "no other controller was elected")
    return Proof(True, {"controller": controller, "controller_epoch": [before["epoch"], epoch], "Pid": state["Pid"]})
