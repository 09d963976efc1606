"""An attached cluster as faults see it: nodes from a file, roles from what its brokers tell clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from kafka_chaos.contract.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.harness.attached.journal import BreakJournal
from kafka_chaos.harness.attached.node import RUNNING, AttachedNode
from kafka_chaos.harness.attached.nodes_file import NodesFile
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.waiting import wait_until

START_TIMEOUT = 180.0
"""Seconds until a node that was started has to serve."""
_START_INTERVAL = 0.5


@dataclass
class AttachedCluster:
    """Implements `kafka_chaos.harness.cluster.fault_control.BreakableCluster`.

    `journal_id`: the name of its journal, which nobody else has. `addresses`: where clients reach each broker, by id.
    `allowed`: the names of the nodes that may be broken.
    """

    file: NodesFile
    journal_id: str
    metadata_mode: str
    addresses: Mapping[int, str]
    client_configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed: Collection[str] = ()

    @cached_property
    def brokers(self) -> dict[int, AttachedNode]:
        """Brokers by id."""
        return {number: self._node("brokers", number, self.addresses.get(number)) for number in self.file.brokers}

    @cached_property
    def controllers(self) -> dict[int, AttachedNode]:
        """KRaft's dedicated controllers, numbered from 1 in the order of their ids."""
        ids = sorted(self.file.controllers)
        return {place: self._node("controllers", number) for place, number in enumerate(ids, start=1)}

    @cached_property
    def zookeepers(self) -> dict[int, AttachedNode]:
        """ZooKeeper's servers by number."""
        return {number: self._node("zookeepers", number) for number in sorted(self.file.zookeepers)}

    @property
    def nodes(self) -> list[AttachedNode]:
        """All nodes that the file names."""
        return [*self.zookeepers.values(), *self.controllers.values(), *self.brokers.values()]

    def client_address(self, broker: int) -> str:
        """Where clients reach a broker."""
        return self.addresses[broker]

    def controller(self, admin: ClusterAdmin) -> int | None:
        """The node id of the (active) controller, as the first broker that answers tells it."""
        if self.metadata_mode != KRAFT:
            return admin.controller()
        for address in self.addresses.values():
            try:
                with BrokerClient(address, timeout=1.0, configs=self.client_configs) as broker:
                    found = broker.quorum()
            except BrokerUnreachable:
                continue
            if found is not None and found.leader >= 0:
                return found.leader
        return None

    def start_again(self, nodes: Sequence[AttachedNode]) -> None:
        """Start what is down, and wait until all serve.

        A broker whose former session with ZooKeeper is not over may find its registration taken, and exit: it is
        started again then.
        """
        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as threads:
            for serving in [threads.submit(_await_serving, node) for node in nodes]:
                serving.result()

    def require_whole(self) -> None:
        """Raise unless the file names this cluster's brokers, and all nodes that may be broken run."""
        if set(self.file.brokers) != set(self.addresses):
            raise UsageFailure(
                f"the cluster's brokers are {_listed(self.addresses)}, and the file of nodes names "
                f"{_listed(self.file.brokers)}: name each by its id"
            )
        for node in self.nodes:
            if node.name not in self.allowed:
                continue
            state = node.state()
            if state["state"] != RUNNING:
                raise EnvironmentFailure(f"{node.name} is {state['state']} before anything was broken: start it first")
            if state["answers"] is False:
                # Its silence is to prove a fault.
                raise EnvironmentFailure(f"{node.name} is running, and does not answer clients: check its address")

    def _node(self, kind: str, number: int, address: str | None = None) -> AttachedNode:
        name, entry = self.file.name_of(kind, number), self.file.entry(kind, number)
        return AttachedNode(name, number, entry, self._journal, address, self.client_configs)

    @cached_property
    def _journal(self) -> BreakJournal:
        return BreakJournal(self.journal_id)


def _await_serving(node: AttachedNode) -> None:
    wait_until(lambda: _serves(node), f"{node.name} to serve", timeout=START_TIMEOUT, interval=_START_INTERVAL)


def _serves(node: AttachedNode) -> bool:
    """Whether it serves; one that is down is started."""
    state = node.state()
    # Where it runs already, this notes that it is healed.
    node.start()
    return state["state"] == RUNNING and state["answers"] is not False


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))
