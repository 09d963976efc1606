"""The keys `lanes` and `workload` of an experiment: topics with their clients, and the load on them."""

from dataclasses import fields, replace
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.configuration import dotted
from kafka_chaos.contract.lane.groups import IN_TRANSACTION, Group, Loop, group_of, loop_group_of, with_default_assignor
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import DAY_MS
from kafka_chaos.contract.lane.share import NO_LETTERS, Share, share_group_of
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.harness.clients.kinds import IN_PROCESS, USERS_OWN, parse_client
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.known_configs import cleanup_policy_of, lane_settings
from kafka_chaos.harness.experiment.lives import LifeSpec
from kafka_chaos.harness.experiment.values import LaneName, Name, Seconds, Spec, declared, read_as

MOST_CREATED_PARTITIONS = 1_000  # of a topic that the harness creates
_OWNED = package_toml(__package__, "owned_keys.toml")
OWNED_TOPIC_KEYS = frozenset[str](_OWNED["topic"])
OWNED_CLIENT_KEYS = frozenset[str](_OWNED["client"])
OWNED_CONSUMER_KEYS = frozenset[str](_OWNED["consumer"])
"""Configs (of topics, of all clients, of consumers) that no experiment may set: other keys or the harness set them."""
LINGER_MS, DELIVERY_TIMEOUT_MS = 5, 60_000
"""`linger.ms` and `message.timeout.ms` of the harness's producers, where `producer_configs` does not set them."""
MEMBER_CONFIGS = frozenset({"auto.commit.interval.ms", "heartbeat.interval.ms"})
"""Configs that only consumers in a group have: others neither commit nor send heartbeats."""


def _acks_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _checked_client(value: object) -> object:
    """A client's name as `kafka-chaos clients` lists it, and maybe a version, or the words of a user's command."""
    if isinstance(value, str):
        try:
            return str(parse_client(value) or IN_PROCESS)
        except UsageFailure as failure:
            raise ValueError(str(failure)) from None
    words = tuple(value) if isinstance(value, list | tuple) else ()
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError("expected the name of a client, or a command as a list of words")
    return words


class WorkloadSpec(Spec):
    """The key `workload`: the load on each lane of a phase."""

    rate: float = Field(default=1_000.0, ge=0.1, le=1_000_000, description="records per second and lane")
    record_size: int = Field(default=100, ge=20, le=999_000, description="bytes of each record's value")
    duration: Seconds = Field(
        default=30.0, description="seconds of load; a lock-step phase loads until its steps are done"
    )
    settle_timeout: Seconds = Field(
        default=90.0,
        description="seconds that records in flight may take to get an outcome, and replicas to be in sync",
    )


class LaneSpec(Spec):
    """An entry of `lanes`: one topic and one producer configuration."""

    lane: LaneName = declared(Lane, "lane")
    topic: Name | None = declared(Lane, "topic", default=None)
    partitions: int = declared(Lane, "partitions", ge=1, le=MOST_CREATED_PARTITIONS)
    replication_factor: int = declared(Lane, "replication_factor")
    min_insync_replicas: int = declared(Lane, "min_insync_replicas")
    unclean_leader_election: bool = declared(Lane, "unclean_leader_election")
    acks: Annotated[str, BeforeValidator(_acks_as_text)] = declared(Lane, "acks")
    idempotence: bool = declared(Lane, "idempotence")
    max_in_flight: int = declared(Lane, "max_in_flight")
    cleanup_policy: str | None = declared(Lane, "cleanup_policy")
    tiered: bool = declared(Lane, "tiered")
    keys: int = Field(
        default=100,
        ge=1,
        description="if the topic is compacted: how many keys are in use at a time in a partition; once each has five "
        "records, as many new keys take their place",
    )
    tombstones: float = Field(default=0.0, ge=0, le=1, description="share of the records with keys that are tombstones")
    lives: tuple[LifeSpec, ...] = Field(
        default=(),
        strict=False,
        description="further producers and consumers, which come and go amid the load, or the key `generate`; all of "
        "the lane's producers share its `rate`. A producer's `client.id` is LANE-NUMBER, 0 for the first producer; the "
        "`client.id` of a consumer that is a process is LANE, of a further consumer LANE-consumer-NUMBER",
    )
    transactional: Annotated[Transactional, read_as(Transactional)] | None = declared(Lane, "transactional")
    group: Annotated[Group, read_as(Group)] | None = declared(Lane, "group")
    loop: Annotated[Loop, read_as(Loop)] | None = declared(Lane, "loop")
    share: Annotated[Share, read_as(Share)] | None = declared(Lane, "share")
    client: Annotated[str | tuple[str, ...], BeforeValidator(_checked_client)] = Field(
        default=IN_PROCESS,
        description="the library of the lane's producers and consumers: a name, or a name and a version such as "
        "`java 3.9.1` (`kafka-chaos clients` lists them); librdkafka without a version runs in process. Or the command "
        "of your own client, as a list of words",
    )
    leader: int | None = Field(
        default=None, description="preferred leader of all partitions; by default, leaders are spread over the brokers"
    )
    created_at: Seconds | None = Field(
        default=None,
        gt=0,
        description="seconds of load, like `at` of a fault, after which the topic is created and the clients start; by "
        "default, both happen before the load",
    )
    recover_within: Seconds | None = Field(
        default=None,
        gt=0,
        le=DAY_MS / 1000,
        description="seconds within which the clients have to be served again: the bound of their anomalies of "
        "recovery, instead of the bound that follows from their time-outs, which is shown beside it. An application, "
        "or your own command, is judged for these anomalies only with this key",
    )
    topic_configs: dict[str, Any] = Field(default_factory=dict, description="other configs of the topic")
    assume: tuple[str, ...] = declared(Lane, "assume", strict=False)
    producer_configs: dict[str, Any] = Field(
        default_factory=dict, description="other configs of the producer, with the names of the lane's `client`"
    )
    consumer_configs: dict[str, Any] = Field(
        default_factory=dict,
        description="other configs of the consumers, also in group and loop, with the names of the lane's `client`",
    )

    _initial_partitions: int | None = PrivateAttr(default=None)
    _cluster: ClusterLayout | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _implied_keys(cls, value: Any) -> Any:
        return _with_implied(value) if isinstance(value, dict) else value

    @property
    def all_topic_configs(self) -> dict[str, Any]:
        """All configs of the lane's topic: `topic_configs`, and the configs that the lane's own keys stand for."""
        return {
            "min.insync.replicas": self.min_insync_replicas,
            "unclean.leader.election.enable": self.unclean_leader_election,
            **({"remote.storage.enable": True} if self.tiered else {}),
            **self.topic_configs,
            **({} if self.cleanup_policy is None else {"cleanup.policy": self.cleanup_policy}),
        }

    @property
    def reader_configs(self) -> dict[str, Any]:
        """The `consumer_configs` of a consumer without a group, so without `MEMBER_CONFIGS`."""
        return {key: value for key, value in self.consumer_configs.items() if dotted(key) not in MEMBER_CONFIGS}

    @property
    def group_id(self) -> str:
        """The id of the group that reads the lane, of its share group, or of the group that feeds its loop."""
        if self.share is not None:
            return share_group_of(self.lane)
        return loop_group_of(self.lane) if self.loop is not None and self.group is None else group_of(self.lane)

    def as_lane(self, faults: tuple[str, ...], cluster: ClusterLayout | None = None, *, crashes: int = 0) -> Lane:
        """The lane as the reference model and the verification know it; raises `LaneError`.

        `cluster`: by default the cluster that `set_cluster` has set; without a cluster, the lane has no version.
        `crashes`: how many members faults end, besides the `crashes` of the lane's group, loop or share group.
        """
        cluster = cluster or self._cluster
        common = LaneSpec.model_fields.keys() & {field.name for field in fields(Lane)}
        keys = {name: getattr(self, name) for name in common}
        client = USERS_OWN if isinstance(self.client, tuple) else self.client
        keys |= {"client": None if client == IN_PROCESS else client, "created_late": self.created_at is not None}
        if crashes and self.group is not None:
            keys["group"] = replace(self.group, crashes=self.group.crashes + crashes)
        elif crashes and self.share is not None:
            keys["share"] = replace(self.share, crashes=self.share.crashes + crashes)
        elif crashes and self.loop is not None:
            group = replace(self.loop.group, crashes=self.loop.group.crashes + crashes)
            keys["loop"] = replace(self.loop, group=group)
        if cluster is not None:
            keys |= {"kafka_version": cluster.oldest.number, "metadata_mode": cluster.metadata_mode}
            keys["elr"] = cluster.elects_from_elr
            has_group = self.group is not None or self.loop is not None
            transactional = self.transactional is not None
            topic, replicas = self.all_topic_configs, self.replication_factor
            keys |= lane_settings(topic, cluster, replicas, has_group=has_group, transactional=transactional)
            keys["assume"] = tuple(dict.fromkeys((*self.assume, *cluster.assume)))
        return Lane(**{**keys, "topic": self.topic_name, "faults": faults})

    def set_cluster(self, cluster: ClusterLayout) -> None:
        """Set the cluster of the lane and of its later copies: the brokers' version decides what is valid."""
        self._cluster = cluster

    @property
    def initial_partitions(self) -> int:
        """The number of partitions with which the lane's topic is created: all `partitions`, unless faults add some."""
        return self.partitions if self._initial_partitions is None else self._initial_partitions

    @property
    def grows(self) -> bool:
        """Whether the lane's topic gets more partitions under load."""
        return self.initial_partitions < self.partitions

    def with_added_partitions(self, added: int) -> Self:
        """A copy of the lane whose topic gets `added` partitions after its creation."""
        if self.partitions == self.initial_partitions + added:
            return self
        grown = self.model_copy(update={"partitions": self.initial_partitions + added})
        grown._initial_partitions = self.initial_partitions
        return grown

    @property
    def topic_name(self) -> str:
        """The topic's name: `topic`, or else the lane's name."""
        return self.topic or self.lane

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic for the dead letters of the lane's share group, if it has some. Brokers ask for the prefix."""
        has_letters = self.share is not None and self.share.dead_letters != NO_LETTERS
        return f"dlq.{self.topic_name}" if has_letters else None

    @property
    def topics(self) -> list[str]:
        """The topics that are made for the lane."""
        return [self.topic_name, *([] if self.dead_letter_topic is None else [self.dead_letter_topic])]

    def replica_assignment(self, brokers: int) -> list[list[int]]:
        """For each partition, the ids (1 to `brokers`) of the brokers with its replicas, the preferred leader first."""
        firsts = [self.leader or partition % brokers + 1 for partition in range(self.initial_partitions)]
        return [[(first + step - 1) % brokers + 1 for step in range(self.replication_factor)] for first in firsts]


def _with_implied(lane: dict[str, Any]) -> dict[str, Any]:
    """A lane's keys and the keys that they imply. Given keys stay, to be refused later if they contradict implied keys.

    A topic whose retention may remove records has a cleanup policy. With protocol `consumer`, there is no assignor.
    Transactions and loops have idempotent producers. A loop that commits in transactions has a producer per member.
    """
    loop, group = lane.get("loop"), lane.get("group")
    lane = dict(lane)
    configs = lane.get("topic_configs")
    if lane.get("cleanup_policy") is None and isinstance(configs, dict):
        try:
            lane["cleanup_policy"] = cleanup_policy_of(configs)
        except UsageFailure as failure:
            raise ValueError(str(failure)) from None
    if isinstance(group, dict):
        lane["group"] = with_default_assignor(group)
    if isinstance(loop, dict):
        loop_group = loop.get("group")
        if isinstance(loop_group, dict):
            lane["loop"] = {**loop, "group": with_default_assignor(loop_group)}
        transactional = lane.get("transactional") or {}
        if loop.get("offsets", IN_TRANSACTION) == IN_TRANSACTION and isinstance(transactional, dict):
            settings = loop_group if isinstance(loop_group, dict) else {}
            lane["transactional"] = {"producers": settings.get("members", Group().members), **transactional}
    if isinstance(loop, dict) or lane.get("transactional") is not None:
        lane = {"idempotence": True, **lane}
    return lane
