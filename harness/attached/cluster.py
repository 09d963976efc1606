"""An attached cluster as faults see it: a file names its nodes, and its brokers tell which node is the controller.

The brokers' configuration is read too, as far as predictions depend on it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ConfigurationUnread
from kafka_chaos.contract.lane.lanes import TRANSACTION_STATE
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.attached.journal import BreakJournal
from kafka_chaos.harness.attached.node import RUNNING, AttachedNode
from kafka_chaos.harness.attached.nodes_file import NodesFile
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import active_controller
from kafka_chaos.harness.cluster.configuration.keys import keys_of_all_versions, known_keys
from kafka_chaos.harness.experiment.known_configs import LEADER_REBALANCE, refused_keys
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError

START_TIMEOUT = 180.0
"""Seconds within which a node has to serve after it was started."""
_STATE_LOG = "transaction.state.log"
_WEAKEST_VALUE: Mapping[str, Callable[[Iterable[str]], str]] = {
    f"{_STATE_LOG}.min.isr": lambda values: min(values, key=int),
    f"{_STATE_LOG}.replication.factor": lambda values: min(values, key=int),
    "transaction.partition.verification.enable": min,
    LEADER_REBALANCE: max,
}
"""The brokers' keys that predictions for existing topics depend on. If the brokers' values differ, the function chooses
the value that promises least. Values are texts: `min` prefers `false` to `true`."""


@dataclass
class AttachedCluster:
    """A cluster that somebody else runs. Implements `BreakableCluster` of `harness/cluster/fault_control.py`.

    `journal_id`: the name of this run's `BreakJournal`. `addresses`: the address of each broker for clients, by id.
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
        return {number: self._node("controllers", node_id) for number, node_id in enumerate(ids, start=1)}

    @cached_property
    def zookeepers(self) -> dict[int, AttachedNode]:
        """ZooKeeper's servers by number."""
        return {number: self._node("zookeepers", number) for number in sorted(self.file.zookeepers)}

    @property
    def nodes(self) -> list[AttachedNode]:
        """All nodes that the file names."""
        return [*self.zookeepers.values(), *self.controllers.values(), *self.brokers.values()]

    def controller(self, admin: ClusterAdmin) -> int | None:
        """The node id of the (active) controller, as the first broker that answers names it; None if none does."""
        if self.metadata_mode != KRAFT:
            return admin.controller()
        return active_controller(self.addresses.values(), self.client_configs)

    def start_again(self, nodes: Sequence[AttachedNode]) -> None:
        """Start the nodes that are down, and wait until all of them serve.

        A broker that starts while ZooKeeper still has the registration of its former session exits. So a node is
        started again until it serves.
        """

        def start_and_wait(node: AttachedNode) -> None:
            served = partial(_served_before_start, node)
            wait_until(served, f"{node.name} to serve", timeout=START_TIMEOUT, interval=0.5)

        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as threads:
            list(threads.map(start_and_wait, nodes))

    def require_all_nodes(self) -> None:
        """Raise unless the file of nodes names exactly this cluster's brokers, and all nodes that may be broken run."""
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
                # A fault is proven by a broker that stops answering, so the broker has to answer before.
                raise EnvironmentFailure(f"{node.name} is running, and does not answer clients: check its address")

    def _node(self, kind: str, number: int, address: str | None = None) -> AttachedNode:
        name, entry = self.file.name_of(kind, number), self.file.entry(kind, number)
        return AttachedNode(name, number, entry, self._journal, address, self.client_configs)

    @cached_property
    def _journal(self) -> BreakJournal:
        return BreakJournal(self.journal_id)


def _served_before_start(node: AttachedNode) -> bool:
    """Start a node if it is down, and return whether it served before."""
    state = node.state()
    # If the node runs, this only notes in the journal that it is healed.
    node.start()
    return state["state"] == RUNNING and state["answers"] is not False


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))


def without_defaults(entries: Mapping[str, Any]) -> dict[str, str]:
    """The values of a configuration by key, without Kafka's defaults and without keys that Kafka does not define.

    `entries`: a broker's answer to DescribeConfigs. It also has keys that Kafka does not define, such as keys that an
    image derives from environment variables; their values are hidden like passwords (`KafkaConfig.maybeSensitive`).
    """
    defined = keys_of_all_versions("broker").keys() | keys_of_all_versions("topic").keys()
    return {
        key: entry.value or ""
        for key, entry in entries.items()
        if not entry.is_default and (not entry.is_sensitive or key in defined)
    }


def with_brokers_configuration(
    experiment: Experiment, client_configs: Mapping[str, str], admin: ClusterAdmin
) -> tuple[Experiment, ConfigurationUnread]:
    """The experiment, with the brokers' actual values for the keys that predictions depend on; and an event, which
    lists the configurations that could not be read and the keys whose values no broker reported. Topics' own
    configurations are compared in `run/attach.py`.

    Raises `UsageFailure` for a key of brokers or clients that the model does not know, unless a lane's `assume` has it.
    """
    broker_ids = wait_until(admin.live_brokers, "the brokers to be named", timeout=30)
    answers = {broker: admin.configuration(ResourceType.BROKER, str(broker)) for broker in sorted(broker_ids)}
    unread = [f"of broker {broker}" for broker, entries in answers.items() if entries is None]
    brokers = {broker: entries for broker, entries in answers.items() if entries is not None}
    for _, _, lane in experiment.lanes:
        for broker, entries in brokers.items():
            for _, message in refused_keys("broker", without_defaults(entries), lane):
                raise ExperimentError(("cluster", "assume"), f"broker {broker}: {message}")
        for kind in ("producer", "consumer"):
            for _, message in refused_keys(kind, client_configs, lane):
                raise UsageFailure(f"--client-config: {message}")
    version_keys = known_keys("broker", experiment.cluster.kafka_version)
    reported = {
        key: weakest(entries[key].value for entries in brokers.values() if key in entries)
        for key, weakest in _WEAKEST_VALUE.items()
        if key in version_keys and any(key in entries for entries in brokers.values())
    }
    transactional = any(lane.transactional for lane in experiment.lane_specs)
    if transactional and (partitions := admin.partitions(TRANSACTION_STATE)):
        # The topic exists: it keeps the configuration of its creation, whatever the brokers have now.
        reported[f"{_STATE_LOG}.replication.factor"] = str(min(len(state.replicas) for state in partitions.values()))
        if topic_config := admin.configuration(ResourceType.TOPIC, TRANSACTION_STATE):
            reported[f"{_STATE_LOG}.min.isr"] = topic_config["min.insync.replicas"].value
        else:
            unread.append(f"of topic {TRANSACTION_STATE}")
    needed = [key for key in _WEAKEST_VALUE if key in version_keys and (transactional or key == LEADER_REBALANCE)]
    untold = [key for key in needed if key not in reported and brokers]
    # For keys that were not reported, the experiment's values are assumed. If it has none, leaders are assumed to move
    # back to the preferred replicas, as they do by default.
    assumed = {LEADER_REBALANCE: "true", **experiment.cluster.broker_configs} if unread or untold else {}
    cluster_spec = experiment.cluster.model_copy(update={"broker_configs": {**assumed, **reported}, "configs_of": {}})
    configured = experiment.model_copy(update={"cluster": cluster_spec})
    # Without faults, none of these keys matters: they decide about elections and about replicas of internal topics.
    has_faults = any(lane.faults for _, _, lane in configured.lanes)
    return configured, ConfigurationUnread(configurations=tuple(unread), untold=tuple(untold if has_faults else ()))
