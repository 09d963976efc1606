"""An experiment as one checked value: a cluster, lanes, a workload and faults.

A run of several phases uses one cluster. Each phase has its own lanes, its own load and its own `schedule` (timed
faults) or `lockstep` (faults whose steps wait for conditions). It begins when the former phase has settled, with all
replicas in sync. Every refusal names the place in the file; `file.py` adds the line.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kafka_chaos.contract.errors import UsageFailure, quoted
from kafka_chaos.contract.groups import Group, Loop
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.contract.transactions import Transactional
from kafka_chaos.faults.fault import Fault
from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION
from kafka_chaos.harness.cluster.containers.versions import known_version
from kafka_chaos.harness.cluster.layout import ClusterLayout
from kafka_chaos.harness.experiment.fault_spec import FaultSpec, one_by_one
from kafka_chaos.harness.experiment.group_specs import GroupSpec, LoopSpec, with_loop
from kafka_chaos.harness.experiment.model_faults import all_model_faults
from kafka_chaos.harness.experiment.values import Seconds, Spec
from kafka_chaos.reference_model import LockstepStep

OWNED_TOPIC_KEYS = frozenset({"min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy"})
OWNED_CLIENT_KEYS = frozenset(
    {"bootstrap.servers", "acks", "request.required.acks", "enable.idempotence", "max.in.flight"}
    | {"max.in.flight.requests.per.connection", "metadata.broker.list"}
    | {"transactional.id", "transaction.timeout.ms"}
)
_OF_A_PHASE = ("lanes", "workload", "schedule", "lockstep", "outside_faults")
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")


class ExperimentError(UsageFailure):
    """A refusal; `place` is the path of keys and indices to the wrong value."""

    def __init__(self, place: tuple[str | int, ...], message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(f"{dotted(place)}: {message}")


def dotted(place: tuple[str | int, ...]) -> str:
    """A place as messages show it: phases[0].lanes[2].acks."""
    text = "".join(
        f".{step}" if re.fullmatch(r"[\w.-]{1,80}", str(step)) and isinstance(step, str) else f"[{quoted(step)}]"
        for step in place
    )
    return text.lstrip(".") or "experiment"


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("expected letters, digits, '.', '_' and '-' (a Kafka topic name)")
    return value


def _acks(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _known_version(version: str) -> str:
    try:
        return known_version(version).number
    except UsageFailure as failure:
        raise ValueError(str(failure)) from None


Name = Annotated[str, AfterValidator(_name)]
KafkaVersion = Annotated[str, AfterValidator(_known_version)]


class ClusterSpec(Spec):
    """The key `cluster`: see `ClusterLayout`."""

    brokers: int = Field(default=3, ge=1, le=9, description="brokers, numbered from 1")
    metadata_mode: Literal["zookeeper", "kraft"] = Field(
        default="zookeeper", description="where the cluster keeps its metadata: `zookeeper` or `kraft`"
    )
    zookeepers: int = Field(default=1, description="servers of the ZooKeeper ensemble: 1 or 3; 0 with `kraft`")
    controllers: int = Field(
        default=0,
        description="KRaft controllers that are no brokers: 1 or 3; with 0, up to three of the brokers are controllers",
    )
    kafka_version: KafkaVersion = Field(default=KAFKA_VERSION, description="version of Kafka that the cluster runs")
    broker_versions: dict[int, KafkaVersion] = Field(
        default_factory=dict,
        description="versions of single brokers, by number, in a mixed cluster; all speak the oldest one's protocol, "
        "and in KRaft mode have its feature levels",
    )
    elr: bool | None = Field(
        default=None,
        description="whether leaders are elected from the eligible leader replicas (KIP-966); a new cluster's default "
        "in this version, unless given",
    )
    controller: int | None = Field(
        default=None, description="broker that starts first and so becomes controller (ZooKeeper)"
    )
    broker_configs: dict[str, Any] = Field(default_factory=dict, description="Kafka's broker configs, for all brokers")
    configs_of: dict[int, dict[str, Any]] = Field(
        default_factory=dict, description="Kafka's broker configs for single brokers, by number"
    )
    links: bool = Field(
        default=False,
        description="every connection to a broker or controller passes a link, which records it in `trace/`; faults "
        "that act on single requests see to it themselves",
    )
    security: Literal["plaintext", "sasl_ssl", "mtls"] = Field(
        default="plaintext", description="what clients need to connect: nothing, a password, or a certificate"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_zookeeper(cls, value: Any) -> Any:
        """In KRaft mode there is no ensemble unless one is asked for, which is refused later."""
        if isinstance(value, dict) and value.get("metadata_mode") == KRAFT:
            return {"zookeepers": 0, **value}
        return value

    def spec(self) -> ClusterLayout:
        """The cluster to start."""
        return ClusterLayout(**self.model_dump())


class WorkloadSpec(Spec):
    """The key `workload`: the load on each lane of a phase."""

    rate: int = Field(default=1_000, ge=1, le=1_000_000, description="records per second and lane")
    record_size: int = Field(default=100, ge=20, le=1_000_000, description="bytes of each record's value")
    duration: Seconds = Field(
        default=30.0, description="seconds of load; a lock-step phase loads until its steps are done"
    )
    settle_timeout: Seconds = Field(
        default=90.0,
        description="seconds that records in flight may take to get an outcome, and replicas to be in sync",
    )


_USUAL = Transactional()


class TransactionalSpec(Spec):
    """The key `transactional` of a lane: how its producers use transactions."""

    size: int = Field(default=_USUAL.size, le=10_000, description="records of each transaction, over all partitions")
    abort: float = Field(default=_USUAL.abort, description="share of the transactions that are aborted, 0 to 1")
    producers: int = Field(
        default=_USUAL.producers, le=100, description="producers, each with a transactional id of its own"
    )
    timeout_ms: int = Field(
        default=_USUAL.timeout_ms,
        ge=1_000,
        le=900_000,
        description="`transaction.timeout.ms` of the producers, at most what brokers allow by default",
    )
    restarts: int = Field(
        default=_USUAL.restarts,
        le=1_000,
        description="how often, evenly over the load, one of the producers is killed in the middle of a transaction "
        "and comes back under its transactional id; the former incarnation then asks for its commit, too",
    )


class LaneSpec(Spec):
    """An entry of `lanes`: one topic and one producer configuration."""

    lane: Name = Field(description="the lane's name, in targets and in the report")
    topic: Name | None = Field(default=None, description="the topic's name; by default, the lane's name")
    partitions: int = Field(default=1, ge=1, le=1_000, description="partitions of the topic")
    replication_factor: int = Field(
        default=3, ge=1, le=9, description="replicas of each partition, at most one a broker"
    )
    min_insync_replicas: int = Field(default=1, ge=1, description="`min.insync.replicas` of the topic")
    unclean_leader_election: bool = Field(default=False, description="`unclean.leader.election.enable` of the topic")
    acks: Annotated[str, BeforeValidator(_acks)] = Field(
        default="all", description="`acks` of the producer: 0, 1 or all"
    )
    idempotence: bool = Field(default=False, description="`enable.idempotence` of the producer")
    max_in_flight: int = Field(default=5, ge=1, description="`max.in.flight.requests.per.connection` of the producer")
    cleanup_policy: str | None = Field(default=None, description="`cleanup.policy` of the topic")
    transactional: TransactionalSpec | None = Field(
        default=None,
        description="producers that write transactions; it implies `idempotence` and a consumer per isolation level",
    )
    group: GroupSpec | None = Field(
        default=None, description="a consumer group whose members read it, beside the consumers that every lane has"
    )
    loop: LoopSpec | None = Field(
        default=None,
        description="a loop that reads another lane and writes this one; it implies `idempotence`, and `transactional` "
        "unless it commits `after` or `before`",
    )
    leader: int | None = Field(
        default=None, description="preferred leader of all partitions; by default, leaders are spread over the brokers"
    )
    topic_configs: dict[str, Any] = Field(default_factory=dict, description="other configs of the topic")
    producer_configs: dict[str, Any] = Field(
        default_factory=dict, description="other configs of the producer, with librdkafka's names"
    )

    @model_validator(mode="before")
    @classmethod
    def _idempotent_with_transactions(cls, value: Any) -> Any:
        """Transactional producers are idempotent unless the file says that they are not, which is refused later."""
        if not isinstance(value, dict):
            return value
        value = with_loop(value)
        if value.get("transactional") is not None:
            return {"idempotence": True, **value}
        return value

    def as_lane(self, faults: tuple[str, ...], cluster: ClusterLayout | None = None) -> Lane:
        """The lane as the reference model and the verification know it; raises `LaneError`.

        `cluster`: what it runs on, where that is known.
        """
        excluded = {"leader", "topic", "topic_configs", "producer_configs", "transactional", "group", "loop"}
        fields = {**self.model_dump(exclude=excluded), "transactional": self.transactions}
        fields |= {"group": self.consumer_group, "loop": self.consuming_loop}
        if cluster is not None:
            fields |= {"kafka_version": cluster.oldest.number, "metadata_mode": cluster.metadata_mode}
            fields["elr"] = cluster.elects_from_elr
        return Lane(**fields, topic=self.topic_name, faults=faults)

    @property
    def transactions(self) -> Transactional | None:
        """How its producers use transactions, if they do; raises `LaneError`."""
        return None if self.transactional is None else Transactional.from_json(self.transactional.model_dump())

    @property
    def consumer_group(self) -> Group | None:
        """The group that reads it, if one does; raises `LaneError`."""
        return None if self.group is None else Group.from_json(self.group.model_dump())

    @property
    def consuming_loop(self) -> Loop | None:
        """The loop that writes it, if one does; raises `LaneError`."""
        return None if self.loop is None else Loop.from_json(self.loop.model_dump())

    @property
    def topic_name(self) -> str:
        """The topic's name: `topic`, or else the lane's name."""
        return self.topic or self.lane

    def replica_assignment(self, brokers: int) -> list[list[int]]:
        """Per partition, the brokers that hold it, preferred leader first."""
        return [
            [
                (first + step - 1) % brokers + 1
                for first in [self.leader or (partition % brokers) + 1]
                for step in range(self.replication_factor)
            ]
            for partition in range(self.partitions)
        ]


class LockstepSpec(Spec):
    """The key `lockstep`: faults at one target, in which each step waits for its own condition."""

    target: str = Field(description="`leader(LANE)`, the broker that the steps act on")
    steps: tuple[str, ...] = Field(min_length=1, strict=False, description="the steps, in order (listed below)")
    step_seconds: Seconds = Field(default=1.0, description="seconds of load between the cut and the kill")


class PhaseSpec(Spec):
    """An entry of `phases`; it has a `schedule` or a `lockstep`, or neither (load without faults)."""

    phase: Name = Field(description="the phase's name")
    lanes: tuple[LaneSpec, ...] = Field(min_length=1, strict=False, description="topics with their producers")
    workload: WorkloadSpec = Field(default=WorkloadSpec(), description="the load on each lane")
    schedule: Annotated[tuple[FaultSpec, ...], AfterValidator(one_by_one)] = Field(
        default=(), strict=False, description="timed faults, or the key `generate`"
    )
    lockstep: LockstepSpec | None = Field(default=None, description="faults whose steps wait for conditions")
    outside_faults: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="fault kinds that others may inject during the phase: the prediction allows for them",
    )

    def faults(self) -> tuple[Fault, ...]:
        """The timed faults in the order of their start."""
        return tuple(sorted((entry.build() for entry in self.schedule), key=lambda fault: fault.at))

    def lockstep_steps(self) -> tuple[LockstepStep, ...] | None:
        """The steps of a lock-step phase as the model knows them."""
        return tuple(LockstepStep(step) for step in self.lockstep.steps) if self.lockstep else None

    def lane_faults(self, cluster: ClusterLayout, replicas: int) -> tuple[str, ...]:
        """The faults of a lane in this phase, in such a cluster: `faults` in lanes.json.

        A fault may hit as many of a partition's replicas as it hits brokers.
        """
        if self.lockstep is not None:
            return ("partition", "kill", *self.outside_faults)
        hit = (Counter(kinds) for kinds in all_model_faults(self.faults(), cluster))
        kinds = (kind for counted in hit for kind, count in counted.items() for _ in range(min(count, replicas)))
        return (*kinds, *self.outside_faults)


class Experiment(Spec):
    """A whole experiment."""

    name: Name = Field(description="the experiment's name, part of the name of its run directories")
    description: str = Field(default="", description="what the experiment is for, shown in the report")
    seed: int = Field(
        default_factory=lambda: random.SystemRandom().randrange(2**31),
        description="decides every random choice; `--seed` overrides it",
    )
    cluster: ClusterSpec = Field(
        default=ClusterSpec(), description="brokers, with ZooKeeper or controllers, shared by all phases"
    )
    phases: tuple[PhaseSpec, ...] = Field(
        min_length=1, strict=False, description="the phases in order, each with lanes, load and faults"
    )
    recorded: dict[str, Any] = Field(
        default_factory=dict,
        exclude=True,
        description="written by a run (run id, versions, start); ignored when the file is run again",
    )

    @model_validator(mode="before")
    @classmethod
    def _single_phase(cls, value: Any) -> Any:
        """An experiment without `phases` has one phase, whose keys are at the top."""
        if isinstance(value, dict) and "phases" not in value:
            inner = {key: value[key] for key in _OF_A_PHASE if key in value}
            outer = {key: entry for key, entry in value.items() if key not in inner}
            return {**outer, "phases": [{"phase": "main", **inner}]}
        return value

    def lanes(self) -> Iterator[tuple[PhaseSpec, LaneSpec, Lane]]:
        """All lanes with their phase, and as the model knows them."""
        for phase in self.phases:
            for lane in phase.lanes:
                yield phase, lane, self.as_lane(phase, lane)

    def as_lane(self, phase: PhaseSpec, lane: LaneSpec) -> Lane:
        """A lane of a phase as the model knows it, with all its faults."""
        cluster = self.cluster.spec()
        return lane.as_lane(phase.lane_faults(cluster, lane.replication_factor), cluster)
