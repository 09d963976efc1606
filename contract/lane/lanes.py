"""A lane as the model and the verification see it: one entry of `lanes.json`, checked.

A lane that no valid configuration of Kafka allows is refused here, before the model is asked or a cluster starts. The
error names the key at fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane import configuration
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lane.groups import (
    CONSUMER,
    GROUP_ANOMALIES,
    IN_TRANSACTION,
    Group,
    GroupAnomaly,
    Loop,
    group_of,
    loop_group_of,
)
from kafka_chaos.contract.lane.metadata import (
    KRAFT,
    METADATA_MODES,
    USUAL_VERSION,
    ZOOKEEPER,
    has_mode,
    may_elect_from_elr,
    release,
    usual_mode,
)
from kafka_chaos.contract.lane.recovery import DAY_MS, RecoveryAnomaly
from kafka_chaos.contract.lane.settings import Settings, check, checked_object, key, setting
from kafka_chaos.contract.lane.share import (
    DEAD_LETTERS_SINCE,
    LIMIT_PER_GROUP_SINCE,
    NO_LETTERS,
    SHARE_GROUPS_SINCE,
    Share,
)
from kafka_chaos.contract.lane.transactions import Transactional, TransactionAnomaly

ACKS = ("0", "1", "all")
CONSUMER_OFFSETS, TRANSACTION_STATE = "__consumer_offsets", "__transaction_state"
SHARE_STATE = "__share_group_state"
"""The topics in which coordinators keep the state of groups, of transactions, and of share groups."""
INTERNAL_REPLICAS = 3  # the default replication factor of the three topics above, if there are as many brokers
MOST_PARTITIONS = 100_000  # of a topic that another tool created; the harness creates fewer (experiment/lane_specs.py)
MOST_REPLICAS = 9  # of a partition: with each replica, the model has many more states
COMPACT = "compact"
DELETE = "delete"
CLEANUP_POLICIES = (None, DELETE, COMPACT, "compact,delete")


def has_compaction(cleanup_policy: str | None) -> bool:
    """Whether compaction is part of a topic's policy: brokers then refuse records without a key."""
    return COMPACT in (cleanup_policy or "")


_MODES_IN_WORDS = {ZOOKEEPER: "ZooKeeper", KRAFT: "KRaft mode"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic(Settings):
    """The settings of `__consumer_offsets` or `__transaction_state`; raises `LaneError` for invalid values."""

    KEY = "internal topic"  # what messages say in place of the key, since a lane has two keys with such settings

    replication_factor: int | None = setting(
        None, "replicas of each partition; by default, as many as the lane's topic has", most=MOST_REPLICAS
    )
    min_insync_replicas: int = setting(1, "`min.insync.replicas`")
    unclean_leader_election: bool = setting(False, "`unclean.leader.election.enable`")
    flushes: bool = setting(False, "whether `flush.messages` is 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One topic and one producer configuration, with the faults that it may go through: an entry of `lanes.json`.

    Experiments and `predict` take their keys of a lane from here. `kafka_version`, `metadata_mode` and `elr` are None
    where nobody knows what the lane ran on. Then the prediction assumes Kafka 3.9.1, ZooKeeper if the version has it,
    and election from eligible leader replicas if a newly created cluster of that version has it.
    """

    lane: str = field(metadata=key("the lane's name, in targets and in the report", expected="a non-empty name"))
    topic: str = setting("", "the topic's name; by default, the lane's name", least=0, expected="a name")
    partitions: int = setting(1, "partitions of the topic")
    replication_factor: int = setting(
        3, "replicas of each partition, at most one a broker", most=MOST_REPLICAS, ge=1, le=MOST_REPLICAS
    )
    min_insync_replicas: int = setting(1, "`min.insync.replicas` of the topic", ge=1)
    unclean_leader_election: bool = setting(False, "`unclean.leader.election.enable` of the topic")
    acks: str = setting("all", "`acks` of the producer: 0, 1 or all", choices=ACKS, expected='one of "0", "1", "all"')
    idempotence: bool = setting(False, "`enable.idempotence` of the producer; needs `acks: all`")
    max_in_flight: int = setting(5, "`max.in.flight.requests.per.connection` of the producer", ge=1)
    cleanup_policy: str | None = setting(
        None,
        "`cleanup.policy` of the topic; without it, nothing is deleted or compacted during the run",
        choices=CLEANUP_POLICIES,
        expected="null, delete, compact or compact,delete",
    )
    kafka_version: str | None = setting(
        None,
        f"version of Kafka that the lane ran on, where it is known; {USUAL_VERSION} unless given",
        expected="a version such as 4.3.1",
    )
    metadata_mode: str | None = setting(
        None,
        "where its cluster kept its metadata: `zookeeper` or `kraft`; by default zookeeper, and kraft from 4.0 on",
        choices=METADATA_MODES,
        expected=" or ".join(METADATA_MODES),
    )
    elr: bool | None = setting(
        None,
        "whether leaders were elected from the eligible leader replicas (KIP-966), in KRaft mode only; by default, "
        "if a newly created cluster of that version has this election",
    )
    transactional: Transactional | None = setting(
        None, "producers that write transactions; it implies `idempotence` and a consumer per isolation level"
    )
    group: Group | None = setting(
        None, "a consumer group whose members read the lane, beside the consumers that every lane has"
    )
    loop: Loop | None = setting(
        None,
        "a loop that reads another lane and writes this one; it implies `idempotence`, and `transactional` unless "
        "it commits `after` or `before`",
    )
    share: Share | None = setting(
        None, "a share group (KIP-932, Kafka 4.2 and later) whose members read the lane, beside its other consumers"
    )
    client: str | None = setting(
        None,
        "client library of its producers, with a version or without, such as `java 3.9.1`, where it is known; "
        "librdkafka unless given. Kafka's promises hold with any client; known defects depend on it",
        expected="the name of a client",
    )
    flushes: bool = setting(False, "whether `flush.messages` is 1: since 3.0, that protects every record (KAFKA-3968)")
    verifies_transactions: bool | None = setting(
        None, "`transaction.partition.verification.enable`; by default true; brokers have it since 3.6"
    )
    retention_bytes: int | None = setting(
        None, "`retention.bytes` of the topic, if size is the only reason to remove its records", ge=0
    )
    delete_retention_ms: int = setting(
        DAY_MS, "`delete.retention.ms` of the topic: for how long compaction keeps a tombstone", least=0
    )
    tiered: bool = setting(
        False, "whether brokers copy closed segments to remote storage (`remote.storage.enable`, KIP-405)"
    )
    consumer_offsets: InternalTopic | None = setting(None, "settings of `__consumer_offsets`, if not the defaults")
    transaction_state: InternalTopic | None = setting(None, "settings of `__transaction_state`, if not the defaults")
    created_late: bool = setting(False, "whether its topic was created amid the load, perhaps amid faults")
    assume: tuple[str, ...] = setting(
        (),
        "configuration keys that the model does not know and that may have any value: the anomalies that they "
        "touch are not judged",
    )
    faults: tuple[str, ...] = setting(
        (),
        "faults that may hit the lane; each entry is at most one occurrence, on any broker at any moment, healed "
        "later, so repeat an entry for more occurrences",
    )

    def __post_init__(self) -> None:
        check(self)
        _require(self.partitions <= MOST_PARTITIONS, "partitions", self.partitions, f"at most {MOST_PARTITIONS:,}")
        _check_cluster(self)
        for kind in self.faults:
            _require(kind in FAULT_KINDS, "faults", kind, f"fault kinds out of {', '.join(FAULT_KINDS)}")
        min_isr, expected = self.min_insync_replicas, f"at most the replication factor, {self.replication_factor}"
        _require(min_isr <= self.replication_factor, "min_insync_replicas", min_isr, expected)
        for name in self.assume:
            entry: object = name  # lanes.json may hold something other than a text
            is_unmodelled = isinstance(entry, str) and bool(configuration.unjudged_by(entry))
            _require(is_unmodelled, "assume", entry, "configuration keys that the model does not know")
        if self.transactional is not None:
            _require(self.acks == "all", "acks", self.acks, "all with transactions (KIP-98)")
            _require(self.idempotence, "idempotence", self.idempotence, "true with transactions (KIP-98)")
        _check_groups(self)
        _check_share(self)
        if self.idempotence:
            _require(self.acks == "all", "idempotence", self.idempotence, "acks=all with it (KIP-98)")
            _require(self.max_in_flight <= 5, "max_in_flight", self.max_in_flight, "at most 5 with idempotence")

    @property
    def version(self) -> str:
        """The version of Kafka that a prediction is for: `kafka_version`, or where that is not known, the usual one."""
        return self.kafka_version or USUAL_VERSION

    @property
    def mode(self) -> str:
        """The metadata mode that a prediction is for: `metadata_mode`, or where that is not known, the usual one."""
        return self.metadata_mode or usual_mode(self.version)

    @property
    def anomalies(self) -> tuple[AnyAnomaly, ...]:
        """The anomalies that are predicted for this lane and looked for in it, without anomalies of recovery."""
        transaction_anomalies = TransactionAnomaly if self.transactional is not None else ()
        share_anomalies = self.share.anomalies if self.share is not None else ()
        return (*Anomaly, *transaction_anomalies, *self.group_anomalies, *share_anomalies)

    @property
    def groups(self) -> dict[str, str]:
        """The lane's consumer groups by id, each with the lane that it reads; the group of a loop reads the source."""
        own = {} if self.group is None else {group_of(self.lane): self.lane}
        return own if self.loop is None else {**own, loop_group_of(self.lane): self.loop.source}

    @property
    def group_anomalies(self) -> tuple[GroupAnomaly, ...]:
        """The anomalies of groups that are looked for in this lane, because of its group or its loop."""
        if self.loop is not None:
            return tuple(GroupAnomaly)
        return GROUP_ANOMALIES if self.group is not None else ()

    @property
    def recovery_anomalies(self) -> tuple[RecoveryAnomaly, ...]:
        """The anomalies of recovery that this lane can have: those whose condition holds, and those without one."""
        conditions = {
            RecoveryAnomaly.GROUP_NOT_STABLE: bool(self.group_anomalies),
            RecoveryAnomaly.SHARE_STALLED: self.share is not None,
            RecoveryAnomaly.TRANSACTION_NOT_ENDED: self.transactional is not None,
            RecoveryAnomaly.ISR_NOT_RESTORED: self.replication_factor > 1,
        }
        return tuple(anomaly for anomaly in RecoveryAnomaly if conditions.get(anomaly, True))

    @property
    def unjudged(self) -> dict[AnyAnomaly, str]:
        """The anomalies that are not judged because of the keys in `assume`, each with the reason."""
        reasons = {anomaly: why for name in self.assume for anomaly, why in configuration.unjudged_by(name).items()}
        lane_anomalies = (*self.anomalies, *self.recovery_anomalies)
        return {anomaly: reasons[anomaly] for anomaly in lane_anomalies if anomaly in reasons}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Lane:
        """The lane of an entry of `lanes.json`; unknown keys and wrong values raise `LaneError`."""
        values = checked_object(cls, entry)
        if isinstance(client := values.get("client"), Mapping):
            values["client"] = client_text(client)
        for name, items in (("faults", f"of {', '.join(FAULT_KINDS)}"), ("assume", "of configuration keys")):
            listed = values.get(name) or []
            _require(isinstance(listed, list | tuple), name, listed, f"a list {items}")
            values[name] = tuple(listed)
        for name, kind in {**_CLASSES_OF_SETTINGS, **dict.fromkeys(_INTERNAL_TOPIC_KEYS, InternalTopic)}.items():
            if values.get(name) is not None:
                values[name] = kind.from_json(values[name])
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The entry of `lanes.json` for this lane."""
        default = {setting.name: setting.default for setting in fields(self)}
        entry = {key: value for key, value in asdict(self).items() if key not in _OPTIONAL or value != default[key]}
        if self.client is not None:
            name, _, version = self.client.partition(" ")
            entry["client"] = {"name": name, "version": version or None}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in entry.items()}


_CLASSES_OF_SETTINGS: Mapping[str, type[Transactional | Group | Loop | Share]] = {
    kind.KEY: kind for kind in (Transactional, Group, Loop, Share)
}
"""The lane's keys with settings of transactions, groups, loops and share groups, with the class of the settings."""
_INTERNAL_TOPIC_KEYS = ("consumer_offsets", "transaction_state")
_OPTIONAL = (
    *("kafka_version", "metadata_mode", "elr", "client", "flushes", "verifies_transactions", "assume", "created_late"),
    *("retention_bytes", "delete_retention_ms", "tiered"),
    *_INTERNAL_TOPIC_KEYS,
    *_CLASSES_OF_SETTINGS,
)
"""Keys that lanes.json has only where they differ from their defaults."""


def client_text(client: Mapping[str, Any]) -> str:
    """The value of `client` in lanes.json as one text: its `name`, with its `version` if it has one."""
    _require(client.keys() <= {"name", "version"} and bool(client.get("name")), "client", client, "name and version")
    return " ".join(str(client[key]) for key in ("name", "version") if client.get(key) is not None)


def settings_described(entry: Mapping[str, Any]) -> list[str]:
    """The transactions, group, loop and share group of an entry of lanes.json, each in words."""
    prefixes = {"group": "group of ", "share": "share group of "}
    parts = [(name, kind.from_json(entry[name])) for name, kind in _CLASSES_OF_SETTINGS.items() if entry.get(name)]
    return [prefixes.get(name, "") + settings.described for name, settings in parts]


def _check_cluster(lane: Lane) -> None:
    declared: object = lane.kafka_version
    _require(declared is None or _is_version(declared), "kafka_version", declared, "a version such as 4.3.1")
    version, mode = lane.version, lane.mode
    other_mode = KRAFT if mode == ZOOKEEPER else ZOOKEEPER
    expected = f"{other_mode}: Kafka {version} has no {_MODES_IN_WORDS[mode]}"
    _require(has_mode(version, mode), "metadata_mode", mode, expected)
    expected = f"false: eligible leader replicas exist since 4.0, in KRaft mode, not in Kafka {version} ({mode})"
    _require(not lane.elr or may_elect_from_elr(version, mode), "elr", lane.elr, expected)
    if lane.idempotence:
        expected = "0.11 or later with idempotence (KIP-98)"
        _require(release(version) >= (0, 11), "kafka_version", version, expected)


def _check_groups(lane: Lane) -> None:
    version, mode = lane.version, lane.mode
    for group_key, group in (("group", lane.group), ("loop.group", lane.loop.group if lane.loop else None)):
        if group is not None and group.protocol == CONSUMER:
            expected = f"classic: the protocol consumer exists since 4.0, in KRaft mode, not in {version} ({mode})"
            _require(release(version) >= (4, 0) and mode == KRAFT, f"{group_key}.protocol", group.protocol, expected)
    if lane.loop is None:
        return
    _require(lane.loop.source != lane.lane, "loop.source", lane.loop.source, "another lane than the loop's own")
    if lane.loop.offsets != IN_TRANSACTION:
        expected = "none: a loop uses transactions only with offsets: transaction"
        _require(lane.transactional is None, "transactional", "given", expected)
        return
    transactions = lane.transactional
    _require(transactions is not None, "transactional", None, "transactions, for a loop with offsets: transaction")
    assert transactions is not None
    members = lane.loop.group.members
    expected = f"{members}: each member of the loop is a producer"
    _require(transactions.producers == members, "transactional.producers", transactions.producers, expected)
    expected = "0: a loop's members are its producers, and loop.group.crashes ends them"
    _require(transactions.restarts == 0, "transactional.restarts", transactions.restarts, expected)
    expected = "false: a loop reads its source within its transactions"
    _require(not transactions.reads, "transactional.reads", transactions.reads, expected)


def _check_share(lane: Lane) -> None:
    if lane.share is None:
        return
    version, mode, first_release = lane.version, lane.mode, release(SHARE_GROUPS_SINCE)
    expected = f"none: share groups exist since {SHARE_GROUPS_SINCE}, in KRaft mode, not in {version} ({mode})"
    _require(release(version) >= first_release and mode == KRAFT, "share", "given", expected)
    _require(lane.group is None and lane.loop is None, "share", "given", "none beside a group or a loop of the lane")
    has_letters = lane.share.dead_letters != NO_LETTERS
    expected = f"{NO_LETTERS}: dead letters (KIP-1191) exist since {DEAD_LETTERS_SINCE}, not in {version}"
    is_valid = not has_letters or release(version) >= release(DEAD_LETTERS_SINCE)
    _require(is_valid, "share.dead_letters", lane.share.dead_letters, expected)
    name, _, client_version = (lane.client or "librdkafka").partition(" ")
    has_share_groups = name == "java" and _is_version(client_version) and release(client_version) >= first_release
    _require(has_share_groups, "client", lane.client, f"java {SHARE_GROUPS_SINCE} or later, for a share group")


def has_delivery_limit_per_group(lane: Lane) -> bool:
    """Whether each share group has a delivery limit of its own in the lane's version of Kafka."""
    return release(lane.version) >= release(LIMIT_PER_GROUP_SINCE)


def _is_version(version: object) -> bool:
    try:
        return isinstance(version, str) and bool(release(version))
    except ValueError:
        return False


def _require(holds: bool, key: str, value: object, expected: str) -> None:
    if not holds:
        raise LaneError(key, value, expected)
