"""A group of random walks: its settings, its steps, and what each step is in each walk's model."""

from dataclasses import dataclass
from typing import Any

from kafka_chaos.conformance.scenario import in_model
from kafka_chaos.conformance.scenario.in_model import Cut
from kafka_chaos.contract.lane.metadata import KRAFT, elects_from_elr
from kafka_chaos.reference_model.lockstep.cluster_model import Step, step
from kafka_chaos.reference_model.lockstep.state import REPLICATION, ClusterConfig

BROKERS = (1, 2, 3)
CLIENTS = "clients"
_OF_NO_BROKER = 1001


@dataclass(frozen=True, slots=True)
class Settings:
    """A walk's topic and how records are sent to it; the first of `replicas` is the preferred leader."""

    replicas: tuple[int, ...]
    acks: str
    idempotent: bool
    min_insync_replicas: int
    unclean_leader_election: bool

    def __str__(self) -> str:
        parts = [f"acks={self.acks}", f"min.insync.replicas={self.min_insync_replicas}"]
        parts += ["idempotent"] if self.idempotent else []
        parts += ["unclean election"] if self.unclean_leader_election else []
        return f"replicas {', '.join(map(str, self.replicas))}, {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class ClientStep:
    """One walk's own step: a producer sends a record, or a leader is elected, after `order` changed the assignment."""

    record: str = ""
    producer: str = ""
    order: tuple[int, ...] = ()

    def sent(self, settings: Settings) -> dict[str, Any]:
        """How the record is sent."""
        return {"acks": settings.acks, "idempotent": settings.idempotent, "producer": self.producer}

    def in_model(self, settings: Settings) -> tuple[Step, ...]:
        """The step as the model takes it."""
        if self.record:
            return (step("produce", record=self.record, **self.sent(settings)),)
        moved = (step("reassign", replicas=self.order),) if self.order else ()
        return (*moved, step("elect_preferred"))

    def __str__(self) -> str:
        if self.record:
            return f"send {self.record}"
        return f"elect broker {self.order[0]}" if self.order else "elect the preferred leader"


@dataclass(frozen=True, slots=True)
class WalkStep:
    """One step of a group: a fault at these brokers (of a cut: from, to), or a step of its own for each walk."""

    kind: str
    brokers: tuple[int, ...] = ()
    clients: tuple[ClientStep, ...] = ()

    @property
    def cut(self) -> Cut:
        """The channel that a step cuts or heals."""
        source, target = self.brokers
        return (REPLICATION, source, target)

    def __str__(self) -> str:
        if self.kind == CLIENTS:
            return "; ".join(map(str, self.clients))
        return f"{self.kind} {' → '.join(map(str, self.brokers))}"


@dataclass(frozen=True, slots=True)
class Group:
    """Walks side by side: `steps`, and `closing`, which makes the cluster whole again.

    `kraft_version`: the version of Kafka in which they run in KRaft mode, or None with ZooKeeper.
    """

    seed: int
    lag_is_short: bool
    walks: tuple[Settings, ...]
    steps: tuple[WalkStep, ...]
    closing: tuple[WalkStep, ...]
    kraft_version: str | None = None

    def __str__(self) -> str:
        lag = "short" if self.lag_is_short else "long"
        topics = [f"  walk {number}: {settings}" for number, settings in enumerate(self.walks, start=1)]
        steps = [f"  {number}. {one}" for number, one in enumerate(self.steps, start=1)]
        mode = f", Kafka {self.kraft_version} in KRaft mode" if self.kraft_version else ""
        at_the_end = ", ".join(map(str, self.closing)) or "nothing to heal"
        return "\n".join([f"seed {self.seed}, {lag} lag time{mode}", *topics, *steps, f"  at the end: {at_the_end}"])


def config_of(settings: Settings, *, lag_is_short: bool, kraft_version: str | None = None) -> ClusterConfig:
    """A walk's configuration in the model, the controller whichever it is."""
    return ClusterConfig(
        brokers=BROKERS,
        assignment=settings.replicas,
        controller=_OF_NO_BROKER if kraft_version else 0,
        min_insync_replicas=settings.min_insync_replicas,
        unclean_leader_election=settings.unclean_leader_election,
        lag_is_short=lag_is_short,
        kraft=kraft_version is not None,
        elects_eligible=kraft_version is not None and elects_from_elr(kraft_version, KRAFT, None),
    )


def actions_of(one: WalkStep, walk: int, settings: Settings, cuts: tuple[Cut, ...]) -> tuple[Step, ...]:
    """The actions of a step in a walk's model, where `cuts` are in place."""
    match one.kind, one.brokers:
        case "clients", _:
            return one.clients[walk].in_model(settings)
        case "cut", _:
            return in_model.cut(one.cut)
        case "heal", _:
            return in_model.heal(one.cut)
        case "start", (broker,):
            return in_model.start(broker, in_model.lifted(cuts, broker))
        case "pause", (broker,):
            return in_model.pause(broker)
        case ("kill" | "stop" | "thaw") as kind, (broker,):
            return (step(kind, broker=broker),)
    raise ValueError(f"{one}: not a step of a walk")


def cuts_after(one: WalkStep, cuts: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """The cuts that are in place after a step."""
    if one.kind == "cut":
        return (*cuts, one.cut)
    ended: tuple[Cut, ...] = ()
    if one.kind == "heal":
        ended = (one.cut,)
    elif one.kind == "start":
        ended = in_model.lifted(cuts, one.brokers[0])
    return tuple(cut for cut in cuts if cut not in ended)
