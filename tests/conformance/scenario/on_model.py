"""Scenarios on the model alone: brokers and clients do nothing, and what is observed is a state that the model allows.

Where it allows several, the followers of clusters with slow fetches know as little as may be, all others all there is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from kafka_chaos.conformance.broker_client import FETCH_FROM_ANY, FETCH_FROM_LEADER
from kafka_chaos.conformance.controllers.requests import STALE_CONTROLLER_EPOCH
from kafka_chaos.conformance.scenario import fault_steps
from kafka_chaos.conformance.scenario import observed as observed_module
from kafka_chaos.conformance.scenario import play as play_module
from kafka_chaos.conformance.scenario import stage as stage_module
from kafka_chaos.conformance.scenario.clusters import ClusterLease, ClusterProfile
from kafka_chaos.conformance.scenario.groups import stage as group_stage
from kafka_chaos.conformance.scenario.play import Play, Topic
from kafka_chaos.conformance.scenario.record import ScenarioRecord
from kafka_chaos.conformance.scenario.registry import all_scenarios
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.conformance.scenario.transactions import stage as transactions_stage
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.groups.model import GroupedModel, observe_group
from kafka_chaos.reference_model.lockstep.groups.steps import GroupState
from kafka_chaos.reference_model.lockstep.observation.cluster import Comparison, Observation, observe_state
from kafka_chaos.reference_model.lockstep.state import LEADER, ClusterConfig, ClusterState
from kafka_chaos.reference_model.lockstep.transactions.model import observe_transactions


class AnyText(str):
    """Stands for values that the model does not have, such as names of errors: equal to anything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


INVALID_RECORD = 87
NOT_LEADER = 6
INPUTS = [(0, "one"), (1, "two")]


def without_truncation(config: ClusterConfig, states: frozenset[ClusterState]) -> ClusterModel:
    """The model with a rule broken: a new follower never truncates."""
    careless = replace(config.protocol, truncation=lambda log, watermark, leader_log: len(log))
    return ClusterModel(replace(config, protocol=careless), states=states)


def observed(state: ClusterState) -> Observation:
    """A state as brokers show it: one that does not run has nothing but its files."""
    seen = observe_state(state)
    in_memory = dict.fromkeys(("role", "high_watermark", "leader", "leader_epoch", "isr"))
    replicas = {
        broker: replica if state.replica(broker).runs else replace(replica, **in_memory)
        for broker, replica in seen.replicas.items()
    }
    return replace(seen, replicas=replicas)


class ModelStage(Stage):
    """A stage on which only the model takes the steps."""

    @property
    def now(self) -> ClusterState:
        sign = -1 if "replica.fetch.wait.max.ms" in self.lease.profile.configs else 1

        def known(state: ClusterState) -> tuple[int, int]:
            replicas = state.replicas
            return sign * sum(one.high_watermark for one in replicas), sum(
                one.checkpointed_high_watermark for one in replicas
            )

        return max(sorted(self.model.states, key=repr), key=known)

    def look(self) -> Observation:
        seen = observed(self.now)
        if isinstance(self.model, GroupedModel):
            group = self.model.group
            seen = replace(seen, group=observe_group(min(group.states, key=_stays), group.setup))
        return seen

    def _agree(self) -> tuple[Observation, Comparison[Any]]:
        seen = self.look()
        return seen, self.model.compare(seen)

    def await_seen(self, sentence: str, condition: Callable[[Observation], bool], *, timeout: float = 40) -> None:
        self.model.states = self.model.settle(self.model.states)
        if isinstance(self.model, GroupedModel):
            group, seen = self.model.group, observed(self.now)
            states = [one for one in group.states if condition(replace(seen, group=observe_group(one, group.setup)))]
            group.states = frozenset(states)
        else:
            self.model.states = frozenset(one for one in self.model.states if condition(observed(one)))
        assert self.model.states, sentence
        self.take(sentence, lambda: None)

    def expect_eventually(self, text: str, observe: Callable[[], Any], expected: Any = True, **_: Any) -> None:
        possible = self.model.states
        for state in sorted(possible, key=repr):
            self.model.states = frozenset([state])
            if observe() == expected:
                return
        self.model.states = possible
        self.expect(text, observe(), expected)

    def await_line(self, broker: int, *parts: Any, timeout: float = 30.0) -> str:
        return "a line"

    def send_once(self, record: str, *, sentence: str) -> None:
        super().send_once(record, sentence=sentence)
        self.refusals[record] = AnyText()

    def send_too_large(self, record: str, *, size: int) -> None:
        super().send_too_large(record, size=size)
        self.reported = [None]

    def ask(self, broker: int) -> Any:
        replica = self.now.replica(broker)
        refuses = 0 if replica.role == LEADER else NOT_LEADER

        def fetch(topic: str, *, version: int = FETCH_FROM_ANY, leader_epoch: int = -1) -> Any:
            known = replica.leader_epoch
            fenced = 0 if leader_epoch in (-1, known) else 74 if leader_epoch < known else 75
            error = refuses if version == FETCH_FROM_LEADER else fenced
            return SimpleNamespace(error=error, high_watermark=replica.high_watermark)

        client = MagicMock()
        asked = client.__enter__.return_value
        asked.metadata.return_value = SimpleNamespace(leader=replica.leader or None, leader_epoch=replica.leader_epoch)
        asked.produce.return_value = (refuses or INVALID_RECORD, -1)
        asked.latest_offset.return_value = (refuses, replica.high_watermark)
        asked.fetch = fetch
        return client

    def one_leads(self, brokers: Sequence[int]) -> bool:
        self.answers["NOT_LEADER_OR_FOLLOWER"] += 1
        return True

    def answered(self, record: str) -> float:
        return 0.0

    def read(self) -> list[str]:
        leader = self.now.replica(self.now.partition.leader)
        return [entry.record for entry in leader.log if entry.offset < leader.high_watermark]


def _stays(state: GroupState) -> tuple[Any, ...]:
    """Partitions are spread, who has one keeps it, and nothing is given again that need not be."""
    owners = [part.coordinator.owner for part in state.partitions]
    return -len(set(owners)), owners, sum(len(did) - len(set(did)) for did in state.did), repr(state)


class ModelTransactions(transactions_stage.TransactionsStage):
    """The same for transactions: producers do nothing."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.coordinators = iter(range(1, 9))
        self.observer.observe = self.look  # type: ignore[method-assign]

    def look(self) -> Observation:
        (state,) = self.model.states
        return Observation(transactions=observe_transactions(state, self.model.config))

    def _agree(self) -> tuple[Observation, Comparison[Any]]:
        seen = self.look()
        return seen, self.model.compare(seen)

    @property
    def coordinator(self) -> int:
        return next(self.coordinators)

    def error(self, producer: str) -> str:
        return AnyText()

    def await_line(self, broker: int, *parts: Any, timeout: float = 30.0) -> str:
        return "a line"


class ModelPool:
    """Stands in for clusters."""

    @contextmanager
    def leased(self, profile: ClusterProfile) -> Iterator[ClusterLease]:
        cluster = MagicMock(brokers={broker: MagicMock() for broker in range(1, profile.brokers + 1)})
        cluster.controllers = {one: SimpleNamespace(number=one, name="", kill=MagicMock()) for one in profile.voters}
        cluster.spec, cluster.client_address = profile.spec, "broker-{}:9092".format
        lease = MagicMock(profile=profile, cluster=cluster, make_controller=lambda broker: broker)
        lease.admin.topic_config.return_value = "compact"
        lease.admin.known_partitions.return_value = {0: SimpleNamespace(leader=1, replicas=(1, 2, 3), isr=(1, 2, 3))}
        yield lease


class ModelPlay(Play):
    """Acts on no cluster at all."""

    @contextmanager
    def stage(self, lease: ClusterLease, name: str, topic: Topic, *, controller: int) -> Iterator[Stage]:
        lease.metadata.controller_epoch.return_value = 1  # type: ignore[attr-defined]
        if lease.profile.metadata_mode == "kraft":
            controller = (*lease.profile.voters, 101)[0]
        with super().stage(lease, name, topic, controller=controller) as stage:
            yield stage


def player(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScenarioRecord]:
    """Plays a scenario by its id; raises `ScenarioViolation` where an expectation does not hold."""

    def observer(_: Any, metadata: Any, clients: Any, topic: str, replicas: Any) -> Any:
        return SimpleNamespace(without_files=frozenset(), sees_controller=True)

    def made(*arguments: Any) -> ModelStage:
        stage = ModelStage(*arguments)
        stage.observer.observe = stage.look  # type: ignore[method-assign]
        stage.observer.files = lambda broker: SimpleNamespace(  # type: ignore[method-assign, assignment]
            high_watermark=stage.now.replica(broker).checkpointed_high_watermark, base_offsets=AnyText(), batches=()
        )
        return stage

    clients = MagicMock()
    errors = ["_TRANSPORT"]
    clients.__enter__.return_value = MagicMock(answers=list, errors=lambda: errors, acknowledged=lambda: (1, 2, 3))
    for name, value in {"Stage": made, "ReplicaObserver": observer, "Clients": lambda *_: clients}.items():
        monkeypatch.setattr(play_module, name, value)
    monkeypatch.setattr(stage_module, "Clients", lambda *_: clients)
    monkeypatch.setattr(stage_module, "wait_until", lambda condition, *_, **__: condition())
    for name in ("commit_an_offset", "send_as_controller", "leader_and_isr"):
        monkeypatch.setattr(stage_module, name, lambda *_, **__: None)
    monkeypatch.setattr(stage_module, "reassign", lambda *_: {})
    monkeypatch.setattr(stage_module, "elect_preferred", lambda *_: 0)
    monkeypatch.setattr(stage_module, "leader_and_isr_errors", lambda *_, **__: (STALE_CONTROLLER_EPOCH, {}))
    # Every look at the clock is ten seconds after the one before.
    clock = itertools.count(0, 10).__next__
    monkeypatch.setattr(stage_module, "time", SimpleNamespace(monotonic=clock, time=lambda: 0.0))
    for name in ("_partition", "_controller_cut"):
        monkeypatch.setattr(fault_steps, name, lambda *_: MagicMock())
    monkeypatch.setattr(fault_steps, "cut_last_batch", lambda *_: ())
    shutdown = b'{"brokerEpoch": 5}'
    # Nodes log one thing a second. It is an active controller that has logged something, if one had.
    moments = itertools.count(20)
    for name, value in {
        "clean_shutdown_file": lambda node: shutdown if node.stop.called else None,
        "_checkpoint_line": lambda stage, broker: AnyText(),
        "first_logged": lambda stage, *_: (next(moments), active(stage)),
        "time": SimpleNamespace(time=moments.__next__),
        "_logged": lambda *_: [],
    }.items():
        monkeypatch.setattr(observed_module, name, value)
    asked: Any = observed_module._OF_REPLICAS
    monkeypatch.setitem(asked, "moment in the metadata", lambda stage: next(moments))
    monkeypatch.setitem(asked, "epoch file", epoch_file)
    monkeypatch.setattr("kafka_chaos.conformance.scenario.script.coordinator_of_groups", lambda lease: 2)
    monkeypatch.setattr(group_stage, "Members", FakeMembers)
    for name, value in {
        "TransactionsStage": ModelTransactions,
        "Producers": FakeProducers,
        "TransactionsObserver": lambda cluster, topic, partitions, ids, producers: SimpleNamespace(ids=ids),
        "Hold": MagicMock(),
        "wait_until": lambda *_, **__: None,
        "coordinator_of": lambda *_: 1,
        "leader_of": lambda *_: 2,
        "BrokerClient": MagicMock(),
        "read_to_end": lambda *_: INPUTS,
    }.items():
        monkeypatch.setattr(transactions_stage, name, value)

    def play(scenario_id: str, model_of: Any = play_module.model_of_kafka) -> ScenarioRecord:
        scenario = all_scenarios()[scenario_id]
        record = ScenarioRecord(scenario.id, "", scenario.title)
        scenario.play(ModelPlay(ModelPool(), record, model_of=model_of))
        return record

    return play


def epoch_file(stage: ModelStage, broker: int) -> str:
    epochs = stage.replica(broker).epochs or ()
    return "\n".join(["0", str(len(epochs)), *(f"{epoch} {start}" for epoch, start in epochs), ""])


def active(stage: ModelStage) -> int:
    """The controller that is active, or will be where brokers have not heard of it."""
    state = stage.now
    return (state.quorum.rival if state.quorum is not None else 0) or state.controller


class FakeMembers:
    """Members that do nothing. The coordinator is broker 2, then another one."""

    def __init__(self, servers: str, topic: str, partitions: int, group: Any, heartbeat_ms: int) -> None:
        self.partitions, self.group, self.coordinators = partitions, group, iter((2, 2, 3))

    def __enter__(self) -> FakeMembers:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def coordinator(self) -> int:
        return next(self.coordinators)

    def errors(self, number: int) -> list[str]:
        return ["FENCED_INSTANCE_ID"]

    def observe(self) -> None:
        """The stage looks itself."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class FakeProducers:
    """Producers that send nothing."""

    def __init__(self, cluster: Any, topic: str, bumps: bool, group: str, source: str, offset_partition: int) -> None:
        self.source = source

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None
