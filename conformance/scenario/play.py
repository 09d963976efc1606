"""One run of a scenario: acts on new topics of shared clusters, each with a model that starts in the topic's state."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.conformance.scenario.clients import Producers
from kafka_chaos.conformance.scenario.clusters import STEADY, ClusterLease, ClusterPool, ClusterProfile
from kafka_chaos.conformance.scenario.lockstep import Listener
from kafka_chaos.conformance.scenario.observe import ReplicaObserver
from kafka_chaos.conformance.scenario.record import ActRecord, ScenarioRecord
from kafka_chaos.conformance.scenario.steps.stage import Stage
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState

ModelFactory = Callable[[ClusterConfig, frozenset[ClusterState]], ClusterModel]  # makes an act's model


def make_kafka_model(config: ClusterConfig, states: frozenset[ClusterState]) -> ClusterModel:
    """Make the model as it is; tests make a model with a broken rule instead."""
    return ClusterModel(config, states=states)


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of an act; the first of `replicas` is the preferred leader.

    `others` are observed brokers that have no replica at first. `names` are the document's names for the brokers. All
    `partitions` have the same replicas; only the first partition is observed, and in the model.
    """

    replicas: Sequence[int] = (1, 2, 3)
    others: Sequence[int] = ()
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    configs: Mapping[str, object] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)
    partitions: int = 1


@dataclass
class Play:
    """One run of a scenario, which starts its acts, each on a cluster of the act's profile."""

    pool: ClusterPool
    record: ScenarioRecord
    notify: Listener = lambda kind, event: None
    make_model: ModelFactory = make_kafka_model

    @contextmanager
    def act(
        self,
        name: str,
        *,
        profile: ClusterProfile = STEADY,
        controller: int | None = None,
        load: Sequence[str] = (),
        **topic: Any,
    ) -> Iterator[Stage]:
        """An act on a new topic; `topic` are the fields of `Topic`.

        `controller`: the broker that must be controller, by default the last broker of the topic. `load`: the faults
        that may hit the load beside the act; if empty, there is no load.
        """
        from kafka_chaos.conformance.scenario.load import load_beside

        topic_spec = Topic(**topic)
        with self.pool.leased(profile) as lease, ExitStack() as loads:
            controller = lease.make_controller(controller or (*topic_spec.replicas, *topic_spec.others)[-1])
            loaded = loads.enter_context(load_beside(lease, load)) if load else None
            with self.stage(lease, name, topic_spec, controller=controller) as stage:
                stage.load = loaded
                yield stage

    @contextmanager
    def stage(self, lease: ClusterLease, name: str, topic: Topic, *, controller: int) -> Iterator[Stage]:
        """The stage of an act: a new topic on a running cluster with this controller, and its model."""
        topic_name, brokers = self.topic_name(name), (*topic.replicas, *topic.others)
        configs = {
            "min.insync.replicas": topic.min_insync_replicas,
            "unclean.leader.election.enable": topic.unclean_leader_election,
            **topic.configs,
        }
        assignment = [list(topic.replicas)] * topic.partitions
        lease.admin.create_topic(topic_name, replica_assignment=assignment, configs=configs)
        lease.admin.await_full_isr([topic_name])
        config = lease.profile.model_config(
            brokers=brokers,
            assignment=tuple(topic.replicas),
            controller=controller,
            min_insync_replicas=topic.min_insync_replicas,
            unclean_leader_election=topic.unclean_leader_election,
        )
        state = config.initial(lease.metadata.controller_epoch())
        model = self.make_model(config, frozenset([state]))
        act = ActRecord(name, lease.profile.name, lease.profile.protocol, brokers, dict(topic.names))
        self.begin(act)
        with Producers(lease.cluster.bootstrap_servers, topic_name) as clients:
            observer = ReplicaObserver(lease.cluster, lease.metadata, clients, topic_name, brokers)
            stage = Stage(lease, topic_name, model, act, clients, observer, self.notify)
            with stage.watches:
                stage.settle("The topic is created; all replicas are in sync.")
                yield stage

    def begin(self, act: ActRecord) -> None:
        """Add an act to the record, and notify that it begins."""
        self.record.acts.append(act)
        self.notify("act", act)

    def topic_name(self, act: str) -> str:
        """A name that no other topic has, with the scenario and the act in it."""
        words = "".join(letter if letter.isalnum() else "-" for letter in f"{self.record.scenario}-{act}".lower())
        return f"{words}-{time.time_ns() % 10**9:09d}"
