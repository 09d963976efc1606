"""Draws random walks of the model: from a seed, steps that are possible and whose outcome the model decides.

A group of walks shares a cluster and its faults. Each walk has a topic with settings, records and elections of its
own. A group depends on its seed and on the model alone, so it can be drawn again: nothing observed goes into it.

Left out is what the model leaves open, since it has no clocks:

- A producer that waits while a broker is frozen. A client that happens to ask the frozen broker waits for its own
  time-outs. So nothing is frozen while a record is unanswered, and no record is sent then that would stay unanswered.
- A cut before any other step. Whether a follower's first fetch has reached the leader by then is chance, and a leader
  that has not seen it drops the follower although it lacks nothing.
- A second frozen broker, and commands to a container that is frozen.
- Ever more records with acks=0 of which nobody knows whether a former leader dropped them.
- An idempotent producer on a topic with unclean election: what librdkafka does once an acknowledged record is gone.
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kafka_chaos.conformance.scenario.in_model import Cut
from kafka_chaos.conformance.walks import BESIDE, STEPS
from kafka_chaos.conformance.walks.group import (
    BROKERS,
    CLIENTS,
    ClientStep,
    Group,
    Settings,
    WalkStep,
    actions_of,
    config_of,
    cuts_after,
)
from kafka_chaos.reference_model.lockstep.brokers import end_parked_fetch
from kafka_chaos.reference_model.lockstep.clients import send_astray, send_to_unnamed
from kafka_chaos.reference_model.lockstep.cluster_model import URGENT, ClusterModel
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.lockstep.state import REPLICATION, ClusterState

_MOST_CUTS = 3
_MOST_STATES = 100
"""States of one topic after a step: a walk that leaves more open than that shows little."""
_WEIGHTS = {CLIENTS: 12, "kill": 2, "stop": 2, "start": 4, "pause": 2, "thaw": 4, "cut": 3, "heal": 3}


def draw(seed: int, *, steps: int = STEPS, walks: int = BESIDE, kraft_version: str | None = None) -> Group:
    """The group of a seed, with ZooKeeper or, in a version of Kafka, in KRaft mode."""
    chance = random.Random(seed)
    settings = tuple(_settings(chance) for _ in range(walks))
    lag_is_short = chance.random() < 0.5
    dry = _DryRun(settings, lag_is_short, kraft_version)
    taken: list[WalkStep] = []
    while len(taken) < steps:
        one = dry.propose(chance, len(taken) + 1)
        if one is not None and dry.take(one):
            taken.append(one)
    closing = tuple(dry.close(chance))
    return Group(seed, lag_is_short, settings, tuple(taken), closing, kraft_version)


def _settings(chance: random.Random) -> Settings:
    replicas = chance.sample(BROKERS, chance.choice((2, 3, 3)))
    acks = chance.choice(("0", "1", "all", "all", "all"))
    unclean = chance.random() < 0.4
    idempotent = acks == "all" and not unclean and chance.random() < 0.5
    return Settings(tuple(replicas), acks, idempotent, chance.choice((1, 1, 2)), unclean)


@dataclass
class _DryRun:
    """The group on the model alone, in every state there may be, whatever the high watermarks' delays."""

    walks: Sequence[Settings]
    lag_is_short: bool
    kraft_version: str | None
    models: list[ClusterModel] = field(default_factory=list)
    cuts: tuple[Cut, ...] = ()
    pauses: int = 0

    def __post_init__(self) -> None:
        for settings in self.walks:
            config = config_of(settings, lag_is_short=self.lag_is_short, kraft_version=self.kraft_version)
            self.models.append(
                ClusterModel(config, urgent=(*URGENT, end_parked_fetch), optional=(send_astray, send_to_unnamed))
            )

    def propose(self, chance: random.Random, number: int) -> WalkStep | None:
        """A step that the processes and cuts of the moment allow, or None if none of the chosen kind is possible."""
        (kind,) = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        if kind == CLIENTS:
            if not any(replica.runs for replica in self._now.replicas):
                return None
            return WalkStep(CLIENTS, clients=tuple(self._client(chance, at, number) for at in range(len(self.walks))))
        possible = self._possible(kind) if kind != "cut" or number > 1 else []
        return WalkStep(kind, chance.choice(possible)) if possible else None

    def take(self, one: WalkStep) -> bool:
        """Take the step in every model, if it is possible and decided in all of them."""
        try:
            reached = self._after(one)
        except ActionError:
            return False
        if not all(_are_decided(model.states) for model in reached):
            return False
        self._go_on(one, reached)
        return True

    def _after(self, one: WalkStep) -> list[ClusterModel]:
        reached = []
        for walk, model in enumerate(self.models):
            after = replace(model)
            for action in actions_of(one, walk, self.walks[walk], self.cuts):
                after.apply(action)
                after.states = frozenset(map(_without_delays, after.states))
            reached.append(after)
        return reached

    def _go_on(self, one: WalkStep, reached: list[ClusterModel]) -> None:
        self.models = reached
        self.cuts = cuts_after(one, self.cuts)
        self.pauses += one.kind == "pause"

    def close(self, chance: random.Random) -> Iterator[WalkStep]:
        """The steps that make the cluster whole, taken one after the other."""
        for kind in ("thaw", "start", "heal"):
            while possible := self._possible(kind):
                one = WalkStep(kind, chance.choice(possible))
                self._go_on(one, self._after(one))
                yield one

    @property
    def _now(self) -> ClusterState:
        """A state as good as any for what does not depend on chance: processes."""
        return next(iter(self.models[0].states))

    def _possible(self, kind: str) -> list[tuple[int, ...]]:
        replicas = self._now.replicas
        running = [replica.broker for replica in replicas if replica.runs]
        frozen = [replica.broker for replica in replicas if replica.frozen]
        if kind == "cut":
            links: list[tuple[int, ...]] = [
                (s, t) for s in BROKERS for t in running if s != t and (REPLICATION, s, t) not in self.cuts
            ]
            return links if len(self.cuts) < _MOST_CUTS else []
        if kind == "heal":
            return [(source, target) for _, source, target in self.cuts if target in running]
        if kind == "start":
            return [(replica.broker,) for replica in replicas if not replica.up]
        if kind == "thaw":
            return [(broker,) for broker in frozen]
        if kind == "pause" and frozen:
            return []
        return [(broker,) for broker in running]

    def _client(self, chance: random.Random, walk: int, number: int) -> ClientStep:
        """A walk's own step: a record, or an election, of any broker if all replicas are in sync."""
        frozen = any(replica.frozen for replica in self._now.replicas)
        elects = chance.random() < 0.35
        produce = ClientStep(f"m{number}", f"m{number}" if frozen else f"p{self.pauses}")
        if not elects and self._decides(walk, produce):
            return produce
        replicas = self.walks[walk].replicas
        if elects and chance.random() < 0.7 and all(map(_is_whole, self.models[walk].states)):
            first = chance.choice(replicas)
            return ClientStep(order=(first, *(broker for broker in replicas if broker != first)))
        return ClientStep()

    def _decides(self, walk: int, one: ClientStep) -> bool:
        model = replace(self.models[walk])
        for action in one.in_model(self.walks[walk]):
            model.apply(action)
        return _are_decided(frozenset(map(_without_delays, model.states)))


def _without_delays(state: ClusterState) -> ClusterState:
    """The state once every checkpoint is written, and without its past."""
    written = tuple(one._replace(checkpointed_high_watermark=one.high_watermark) for one in state.replicas)
    return state._replace(replicas=written, acknowledged=())


def _are_decided(states: Collection[ClusterState]) -> bool:
    """Whether what follows does not depend on a client's time-outs, or on chance alone."""
    waiting = any(state.outgoing or state.pending for state in states)
    frozen = any(replica.frozen for state in states for replica in state.replicas)
    return not (waiting and frozen) and len(states) <= _MOST_STATES


def _is_whole(state: ClusterState) -> bool:
    partition = state.partition
    return set(partition.replicas) == set(partition.isr) and not partition.target and bool(state.controller)
