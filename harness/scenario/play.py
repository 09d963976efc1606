"""One run of a scenario: acts on fresh topics of shared clusters, each with a model that begins where they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kafka_chaos.harness.scenario.clients import Clients
from kafka_chaos.harness.scenario.house import STEADY, House, Houses, Tenancy
from kafka_chaos.harness.scenario.lockstep import Listener
from kafka_chaos.harness.scenario.looking import Eyes
from kafka_chaos.harness.scenario.record import ActRecord, ScenarioRecord
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.reference_model.cluster_model import ClusterModel
from kafka_chaos.reference_model.cluster_state import ClusterConfig, ClusterState
from kafka_chaos.reference_model.protocols import PROTOCOLS

ModelOf = Callable[[ClusterConfig, frozenset[ClusterState]], ClusterModel]


def model_of_kafka(config: ClusterConfig, states: frozenset[ClusterState]) -> ClusterModel:
    """The model as it is; tests put one with a broken rule in its place."""
    return ClusterModel(config, states=states)


@dataclass
class Play:
    """One run of a scenario: it makes acts, each on a cluster of its own kind."""

    houses: Houses
    record: ScenarioRecord
    tell: Listener = lambda kind, what: None
    model_of: ModelOf = model_of_kafka

    @contextmanager
    def act(
        self,
        name: str,
        *,
        house: House = STEADY,
        replicas: Sequence[int] = (1, 2, 3),
        others: Sequence[int] = (),
        controller: int | None = None,
        names: Mapping[int, str] | None = None,
        min_insync_replicas: int = 1,
        unclean_leader_election: bool = False,
        configs: Mapping[str, object] | None = None,
    ) -> Iterator[Stage]:
        """An act on a fresh topic with one partition, whose preferred leader is the first of `replicas`.

        `others` are brokers that have no replica at first and are looked at as well. `controller` names the broker that
        has to be controller, by default the last of all; `names` are what the document calls the brokers.
        """
        tenancy = self.houses.enter(house)
        try:
            everyone = (*replicas, *others)
            controller = controller or everyone[-1]
            tenancy.make_controller(controller)
            topic = self._make_topic(
                tenancy, name, replicas, min_insync_replicas, unclean_leader_election, configs or {}
            )
            config = ClusterConfig(
                brokers=everyone,
                assignment=tuple(replicas),
                controller=controller,
                protocol=PROTOCOLS[house.protocol],
                min_insync_replicas=min_insync_replicas,
                unclean_leader_election=unclean_leader_election,
                lag_is_short=house.lag_is_short,
                watermark_waits_for_min_isr=house.watermark_waits_for_min_isr,
            )
            epoch = tenancy.zookeeper.controller_epoch()
            model = self.model_of(config, frozenset([_beginning(config, epoch)]))
            act = ActRecord(name, house.name, house.protocol, everyone, dict(names or {}))
            self.record.acts.append(act)
            self.tell("act", act)
            with Clients(tenancy.cluster.bootstrap_servers, topic) as clients:
                eyes = Eyes(tenancy.cluster, tenancy.zookeeper, clients, topic, everyone)
                stage = Stage(tenancy, topic, model, act, clients, eyes, self.tell)
                stage.settle("The topic is made; all replicas are in sync.")
                yield stage
        except BaseException as error:
            try:
                self.houses.discard(house)
            except Exception as trouble:  # noqa: BLE001  what went wrong first is what counts
                error.add_note(f"its cluster could not be removed either: {trouble}")
            raise

    def _make_topic(
        self,
        tenancy: Tenancy,
        name: str,
        replicas: Sequence[int],
        min_insync_replicas: int,
        unclean: bool,
        configs: Mapping[str, object],
    ) -> str:
        words = "".join(letter if letter.isalnum() else "-" for letter in f"{self.record.scenario}-{name}".lower())
        topic = f"{words}-{time.time_ns() % 10**9:09d}"
        given = {"min.insync.replicas": min_insync_replicas, "unclean.leader.election.enable": unclean, **configs}
        tenancy.admin.create_topic(topic, replica_assignment=[list(replicas)], configs=given)
        tenancy.admin.await_full_isr([topic])
        return topic


def _beginning(config: ClusterConfig, controller_epoch: int) -> ClusterState:
    """The model's first state in the controller epoch that the cluster is in."""
    state = config.initial()
    replicas = tuple(replica._replace(controller_epoch=controller_epoch) for replica in state.replicas)
    partition = state.partition._replace(controller_epoch=controller_epoch)
    return state._replace(replicas=replicas, partition=partition, controller_epoch=controller_epoch)
