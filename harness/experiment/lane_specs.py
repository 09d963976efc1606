"""What an experiment says of a lane: its topic, its producers, and the load on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from kafka_chaos.contract.groups import Group, Loop
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import Transactional
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.group_specs import GroupSpec, LoopSpec, with_loop
from kafka_chaos.harness.experiment.values import Name, Seconds, Spec

MOST_PARTITIONS = 1_000
OWNED_TOPIC_KEYS = frozenset({"min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy"})
OWNED_CLIENT_KEYS = frozenset(
    {"bootstrap.servers", "acks", "request.required.acks", "enable.idempotence", "max.in.flight"}
    | {"max.in.flight.requests.per.connection", "metadata.broker.list"}
    | {"transactional.id", "transaction.timeout.ms"}
)


def _acks(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


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


class FreshProducersSpec(Spec):
    """The key `fresh_producers` of a lane: producers that brokers know nothing of when they start, amid the load."""

    count: int = Field(default=1, ge=1, le=100, description="how many start; each writes to one partition, in turn")
    at: Seconds = Field(description="when they start, in seconds of load as for faults")


class LaneSpec(Spec):
    """An entry of `lanes`: one topic and one producer configuration."""

    lane: Name = Field(description="the lane's name, in targets and in the report")
    topic: Name | None = Field(default=None, description="the topic's name; by default, the lane's name")
    partitions: int = Field(default=1, ge=1, le=MOST_PARTITIONS, description="partitions of the topic")
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
    fresh_producers: FreshProducersSpec | None = Field(
        default=None,
        description="further producers, which start amid the load; all of the lane's producers share its `rate`. The "
        "`client.id` of each is LANE-NUMBER, 0 for the first",
    )
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

    _first_partitions: int | None = PrivateAttr(default=None)

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

    def as_lane(self, faults: tuple[str, ...], cluster: ClusterLayout | None = None, *, crashes: int = 0) -> Lane:
        """The lane as the reference model and the verification know it; raises `LaneError`.

        `cluster`: what it runs on, where that is known. `crashes`: of members, by faults, beside those of its own.
        """
        excluded = {"leader", "topic", "topic_configs", "producer_configs", "fresh_producers"}
        excluded |= {"transactional", "group", "loop"}
        fields = {**self.model_dump(exclude=excluded), "transactional": self.transactions}
        group, loop = self.consumer_group, self.consuming_loop
        if crashes and group is not None:
            group = replace(group, crashes=group.crashes + crashes)
        elif crashes and loop is not None:
            loop = replace(loop, group=replace(loop.group, crashes=loop.group.crashes + crashes))
        fields |= {"group": group, "loop": loop}
        if cluster is not None:
            fields |= {"kafka_version": cluster.oldest.number, "metadata_mode": cluster.metadata_mode}
            fields["elr"] = cluster.elects_from_elr
        return Lane(**fields, topic=self.topic_name, faults=faults)

    @property
    def first_partitions(self) -> int:
        """The partitions of its topic when it is made: all, unless faults add some."""
        return self.partitions if self._first_partitions is None else self._first_partitions

    @property
    def grows(self) -> bool:
        """Whether its topic gets more partitions under load."""
        return self.first_partitions < self.partitions

    def grown_by(self, partitions: int) -> LaneSpec:
        """The lane with all partitions that it has in the end, if so many are added to its first ones."""
        if self.partitions == self.first_partitions + partitions:
            return self
        grown = self.model_copy(update={"partitions": self.first_partitions + partitions})
        grown._first_partitions = self.first_partitions
        return grown

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
        """Per partition that it begins with, the brokers that hold it, preferred leader first."""
        return [
            [
                (first + step - 1) % brokers + 1
                for first in [self.leader or (partition % brokers) + 1]
                for step in range(self.replication_factor)
            ]
            for partition in range(self.first_partitions)
        ]
