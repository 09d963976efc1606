"""Observes every replica of a partition from outside, without asking the leader about other replicas.

The table in `docs/scenarios.md.jinja` says where each field comes from, and how exact it is.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kafka_chaos.conformance.broker_client import ScenarioClient
from kafka_chaos.conformance.replica import NoReplica, ReplicaFiles, read_replica
from kafka_chaos.conformance.scenario.clients import NAME_HEADER, Producers
from kafka_chaos.harness.cluster.broker.client import NONE as NO_ERROR
from kafka_chaos.harness.cluster.broker.client import NOT_LEADER_OR_FOLLOWER, BrokerUnreachable
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA, SECOND_BROKER_DATA
from kafka_chaos.harness.cluster.metadata.protocol import Metadata
from kafka_chaos.harness.cluster.storage.segments import Record
from kafka_chaos.reference_model.lockstep.observation import Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.state import FOLLOWER, LEADER, NOBODY, NONE, OFFLINE

UNKNOWN_TOPIC_OR_PARTITION = 3
KAFKA_STORAGE_ERROR = 56
OFFSET_NOT_AVAILABLE = 78
"""The error of a leader whose high watermark has not yet reached the start of its epoch (KIP-207)."""
_ROLES = {
    NO_ERROR: LEADER,
    OFFSET_NOT_AVAILABLE: LEADER,
    NOT_LEADER_OR_FOLLOWER: FOLLOWER,
    UNKNOWN_TOPIC_OR_PARTITION: NONE,
    KAFKA_STORAGE_ERROR: OFFLINE,
}
UNREACHABLE = "unreachable"
"""A role that no state of the model has: the process runs, but does not answer."""


def _name_of(record: Record) -> str:
    """The name of a record in the scenario: its value, or a tombstone's header."""
    name = record.value if record.value is not None else dict(record.headers).get(NAME_HEADER)
    return (name or b"").decode(errors="replace")


@dataclass
class ReplicaObserver:
    """Observes partition 0 of a topic on `replicas`. `brokers_without_files`: brokers that lost the replica's files."""

    cluster: Cluster
    metadata: Metadata
    clients: Producers
    topic: str
    replicas: tuple[int, ...]
    brokers_without_files: frozenset[int] = frozenset()
    sees_controller: bool = True
    """Whether the controller and its epoch are observed; False if they change without a step of the model."""
    observe_group: Callable[[], Mapping[str, Any]] = dict
    """Observes the act's group, if it has one; returns keyword arguments for `Observation`."""

    def observe(self) -> Observation:
        """Observe all that is observable now. It is not one moment: rely only on two equal observations in a row."""
        with ThreadPoolExecutor(max_workers=len(self.replicas)) as threads:
            seen = dict(zip(self.replicas, threads.map(self._replica, self.replicas), strict=True))
        partition = self.metadata.partition(self.topic)
        brokers = self.metadata.brokers()
        # With several voters, only the controller's id is observed (NOBODY if brokers answer, but name none), since the
        # controller's epoch also rises in elections that nobody wins.
        several_voters = self.cluster.spec.voters > 1
        epoch = self.metadata.controller_epoch() if self.sees_controller and not several_voters else 0
        shows_controller = bool(epoch) or (self.sees_controller and several_voters and brokers is not None)
        return Observation(
            replicas=seen,
            leader=None if partition is None else max(partition.leader, NOBODY),
            leader_epoch=None if partition is None else partition.leader_epoch,
            isr=None if partition is None else partition.isr,
            controller_epoch=epoch or None,
            controller=(self.metadata.controller() or NOBODY) if shows_controller else None,
            registered=None if brokers is None else tuple(sorted(brokers & set(self.replicas))),
            acknowledged=self.clients.acknowledged(),
            **self.observe_group(),
        )

    def files(self, broker: int) -> ReplicaFiles:
        """The replica in the broker's files.

        Raises `NoReplica` if the broker has none, and `ClusterFailure` if its container is between two states.
        """
        node = self.cluster.brokers[broker]
        for folder in (BROKER_DATA, SECOND_BROKER_DATA)[: self.cluster.spec.log_directories]:
            with suppress(NoReplica):
                return read_replica(node, self.topic, 0, log_directory=folder)
        raise NoReplica(f"{node.name} has no replica of {self.topic}")

    def _replica(self, broker: int) -> ReplicaObservation:
        state = self.cluster.brokers[broker].state()
        serves = state["Running"] and not state["Paused"]
        if broker in self.brokers_without_files:
            return self._in_memory(broker, ReplicaObservation()) if serves else ReplicaObservation()
        try:
            files = self.files(broker)
        except NoReplica:
            # A broker without a replica may answer NOT_LEADER_OR_FOLLOWER, as followers do: report no role.
            return ReplicaObservation(log=(), log_end=0, epochs=())
        on_disk = ReplicaObservation(
            log=tuple((record.offset, _name_of(record), record.leader_epoch) for record in files.records),
            log_end=files.log_end,
            # Before 2.0.1, leaders wrote a new epoch to their checkpoint only with its first record (KAFKA-7415).
            epochs=tuple(files.leader_epochs) if self.cluster.spec.at_least("2.0.1") else None,
            checkpointed_high_watermark=files.high_watermark or 0,
        )
        return self._in_memory(broker, on_disk) if serves else on_disk

    def _in_memory(self, broker: int, on_disk: ReplicaObservation) -> ReplicaObservation:
        try:
            with ScenarioClient(self.cluster.addresses[broker]) as client:
                error, _ = client.latest_offset(self.topic)
                role = _ROLES.get(error, f"error {error}")
                fetched = client.fetch(self.topic, offset=on_disk.log_end or 0)
                metadata = client.metadata(self.topic)
                epoch = client.leader_epoch(self.topic, guess=metadata.leader_epoch)
        except BrokerUnreachable:
            return replace(on_disk, role=UNREACHABLE)
        was_served = fetched.error == NO_ERROR
        return replace(
            on_disk,
            role=role,
            high_watermark=fetched.high_watermark if was_served else None,
            log_start=fetched.log_start if was_served and fetched.log_start >= 0 else None,
            leader=None if role == NONE else metadata.leader or NOBODY,
            leader_epoch=epoch,
        )
