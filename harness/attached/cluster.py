"""An attached cluster as faults see it: nodes from a file, roles from what its brokers tell clients, and their
configuration, as far as predictions depend on it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.lanes import TRANSACTION_STATE
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.attached.journal import BreakJournal
from kafka_chaos.harness.attached.node import RUNNING, AttachedNode
from kafka_chaos.harness.attached.nodes_file import NodesFile
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import BrokerClient, answers
from kafka_chaos.harness.cluster.configuration.keys import known_keys
from kafka_chaos.harness.experiment.known_configs import REBALANCE, refused_of
from kafka_chaos.harness.experiment.specs import Experiment, ExperimentError

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

    def controller(self, admin: ClusterAdmin) -> int | None:
        """The node id of the (active) controller, as the first broker that answers tells it."""
        if self.metadata_mode != KRAFT:
            return admin.controller()
        quorums = answers(self.addresses.values(), BrokerClient.quorum, timeout=1.0, configs=self.client_configs)
        return next((found.leader for found in quorums if found is not None and found.leader >= 0), None)

    def start_again(self, nodes: Sequence[AttachedNode]) -> None:
        """Start what is down, and wait until all serve.

        A broker whose former session with ZooKeeper is not over may find its registration taken, and exit: it is
        started again then.
        """
        with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as threads:
            wait = partial(wait_until, timeout=START_TIMEOUT, interval=_START_INTERVAL)
            for serving in [threads.submit(wait, partial(_serves, node), f"{node.name} to serve") for node in nodes]:
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


def _serves(node: AttachedNode) -> bool:
    """Whether it serves; one that is down is started."""
    state = node.state()
    # Where it runs already, this notes that it is healed.
    node.start()
    return state["state"] == RUNNING and state["answers"] is not False


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers))


_STATE_LOG = "transaction.state.log"
_LEAST: Mapping[str, Callable[[Iterable[str]], str]] = {
    f"{_STATE_LOG}.min.isr": lambda values: min(values, key=int),
    f"{_STATE_LOG}.replication.factor": lambda values: min(values, key=int),
    "transaction.partition.verification.enable": min,
    REBALANCE: max,
}
"""The keys that predictions for existing topics depend on, and where brokers differ, which value promises least:
of texts, `false` is less than `true`."""


def given_by(entries: Mapping[str, Any]) -> dict[str, str]:
    """Of what brokers say of a configuration, that which is not Kafka's own default."""
    return {key: entry.value or "" for key, entry in entries.items() if not entry.is_default}


def configured(
    experiment: Experiment, client_configs: Mapping[str, str], admin: ClusterAdmin
) -> tuple[Experiment, tuple[str, ...]]:
    """The experiment with what its brokers have, as far as predictions depend on it, and what could not be read. Its
    topics have their own.

    Raises `UsageFailure` for what the model does not know, of brokers or of clients, unless it is assumed.
    """
    brokers_known = wait_until(admin.live_brokers, "the brokers to be named", timeout=30)
    found = {broker: admin.described(ResourceType.BROKER, str(broker)) for broker in sorted(brokers_known)}
    unread = [f"of broker {broker}" for broker, entries in found.items() if entries is None]
    brokers = {broker: entries for broker, entries in found.items() if entries is not None}
    _refuse_unknown(experiment, client_configs, brokers)
    known = known_keys("broker", experiment.cluster.kafka_version)
    read = {
        key: least(entries[key].value for entries in brokers.values() if key in entries)
        for key, least in _LEAST.items()
        if key in known and any(key in entries for entries in brokers.values())
    }
    if any(lane.transactional for _, lane, _ in experiment.lanes()) and (state := admin.partitions(TRANSACTION_STATE)):
        # It is there: it is as it was made, whatever brokers would make it now.
        read[f"{_STATE_LOG}.replication.factor"] = str(min(len(partition.replicas) for partition in state.values()))
        if kept := admin.described(ResourceType.TOPIC, TRANSACTION_STATE):
            read[f"{_STATE_LOG}.min.isr"] = kept["min.insync.replicas"].value
        else:
            unread.append(f"of topic {TRANSACTION_STATE}")
    # What nobody may read is as the experiment has it, but for leaders that move back, as they do by default.
    given = {REBALANCE: "true", **experiment.cluster.broker_configs} if unread else {}
    cluster_spec = experiment.cluster.model_copy(update={"broker_configs": {**given, **read}, "configs_of": {}})
    return experiment.model_copy(update={"cluster": cluster_spec}), tuple(unread)


def _refuse_unknown(
    experiment: Experiment, client_configs: Mapping[str, str], brokers: Mapping[int, Mapping[str, Any]]
) -> None:
    for _, _, lane in experiment.lanes():
        for broker, entries in brokers.items():
            for _, message in refused_of("broker", given_by(entries), lane):
                raise ExperimentError(("cluster", "assume"), f"broker {broker}: {message}")
        for kind in ("producer", "consumer"):
            for _, message in refused_of(kind, client_configs, lane):
                raise UsageFailure(f"--client-config: {message}")
