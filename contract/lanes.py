"""A lane as the model and the verification see it: one entry of `lanes.json`, checked.

A lane that no valid configuration of Kafka allows is refused here, before anything is explored or started. The error
names the key at fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.errors import LaneError
from kafka_chaos.contract.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.groups import CONSUMER, IN_TRANSACTION, OF_GROUPS, Group, GroupAnomaly, Loop
from kafka_chaos.contract.metadata import (
    KRAFT,
    METADATA_MODES,
    USUAL_VERSION,
    ZOOKEEPER,
    has_mode,
    may_elect_from_elr,
    release,
    usual_mode,
)
from kafka_chaos.contract.transactions import AnyAnomaly, Transactional, TransactionAnomaly

ACKS = ("0", "1", "all")
MOST_PARTITIONS = 100_000
CLEANUP_POLICIES = (None, "delete", "compact", "compact,delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One topic and one producer configuration, with the faults that it may go through.

    Each entry of `faults` means that one fault of this kind may hit any broker at any moment, and is healed later. A
    repeated entry means one more such fault. `cleanup_policy` None means that nothing is deleted or compacted during
    the run (topic configuration `cleanup.policy`, with retention limits that the run does not reach).
    `kafka_version`, `metadata_mode` and `elr` (whether leaders are elected from the eligible leader replicas, KIP-966)
    name what the lane ran on; None if that is not known. The prediction is then that for 3.9.1, for ZooKeeper in
    versions that have it, and for what a new cluster does. `transactional`: how its producers use transactions, if they
    do. `group`: the consumer group that reads it; `loop`: the loop that writes it, instead of producers of its own.
    """

    lane: str
    topic: str = ""
    partitions: int = 1
    replication_factor: int = 3
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False
    acks: str = "all"
    idempotence: bool = False
    max_in_flight: int = 5
    cleanup_policy: str | None = None
    kafka_version: str | None = None
    metadata_mode: str | None = None
    elr: bool | None = None
    transactional: Transactional | None = None
    group: Group | None = None
    loop: Loop | None = None
    faults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name: object = self.lane
        _require(isinstance(name, str) and name != "", "lane", name, "a non-empty name")
        topic: object = self.topic
        _require(isinstance(topic, str), "topic", topic, "a name")
        for key in ("partitions", "replication_factor", "min_insync_replicas", "max_in_flight"):
            value = getattr(self, key)
            is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            _require(is_count, key, value, "a whole number of at least 1")
        _require(self.partitions <= MOST_PARTITIONS, "partitions", self.partitions, f"at most {MOST_PARTITIONS:,}")
        for key in ("unclean_leader_election", "idempotence"):
            value = getattr(self, key)
            _require(isinstance(value, bool), key, value, "true or false")
        _require(self.acks in ACKS, "acks", self.acks, 'one of "0", "1", "all"')
        _require(
            self.cleanup_policy in CLEANUP_POLICIES,
            "cleanup_policy",
            self.cleanup_policy,
            "null, delete, compact or compact,delete",
        )
        _check_cluster(self)
        for kind in self.faults:
            _require(kind in FAULT_KINDS, "faults", kind, f"fault kinds out of {', '.join(FAULT_KINDS)}")
        _require(
            self.min_insync_replicas <= self.replication_factor,
            "min_insync_replicas",
            self.min_insync_replicas,
            f"at most the replication factor, {self.replication_factor}",
        )
        if self.transactional is not None:
            _require(self.acks == "all", "acks", self.acks, "all with transactions (KIP-98)")
            _require(self.idempotence, "idempotence", self.idempotence, "true with transactions (KIP-98)")
        _check_groups(self)
        if self.idempotence:
            _require(self.acks == "all", "idempotence", self.idempotence, "acks=all with it (KIP-98)")
            _require(self.max_in_flight <= 5, "max_in_flight", self.max_in_flight, "at most 5 with idempotence")

    @property
    def anomalies(self) -> tuple[AnyAnomaly, ...]:
        """The anomalies that are looked for in this lane."""
        return (*Anomaly, *(TransactionAnomaly if self.transactional is not None else ()), *self.group_anomalies)

    @property
    def group_anomalies(self) -> tuple[GroupAnomaly, ...]:
        """Those of them that its group and its loop bring along."""
        if self.loop is not None:
            return tuple(GroupAnomaly)
        return OF_GROUPS if self.group is not None else ()

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Lane:
        """Build a lane from an entry of `lanes.json`; unknown keys and wrong values raise `LaneError`."""
        known = {field.name for field in fields(cls)}
        for key in entry:
            _require(key in known, key, entry[key], f"no such key; the keys are {', '.join(sorted(known))}")
        _require("lane" in entry, "lane", None, "a non-empty name")
        values = dict(entry)
        faults = values.get("faults") or []
        _require(isinstance(faults, list | tuple), "faults", faults, f"a list out of {', '.join(FAULT_KINDS)}")
        values["faults"] = tuple(faults)
        if values.get("transactional") is not None:
            values["transactional"] = Transactional.from_json(values["transactional"])
        if values.get("group") is not None:
            values["group"] = Group.from_json(values["group"])
        if values.get("loop") is not None:
            values["loop"] = Loop.from_json(values["loop"])
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The entry of `lanes.json` for this lane."""
        unknown = [key for key in _LEFT_OUT if getattr(self, key) is None]
        return {key: value for key, value in asdict(self).items() if key not in unknown} | {"faults": list(self.faults)}


_LEFT_OUT = ("kafka_version", "metadata_mode", "elr", "transactional", "group", "loop")
"""Keys that are left out where they have no value."""


def clients_described(entry: Mapping[str, Any]) -> list[str]:
    """What is special about the clients of an entry of lanes.json, in words: transactions, its group, its loop."""
    kinds: Mapping[str, type[Transactional] | type[Group] | type[Loop]]
    kinds = {"transactional": Transactional, "group": Group, "loop": Loop}
    found = [(key, kind.from_json(entry[key]).described) for key, kind in kinds.items() if entry.get(key)]
    return [f"group of {words}" if key == "group" else words for key, words in found]


def _check_cluster(lane: Lane) -> None:
    version: object = lane.kafka_version
    _require(version is None or _is_version(version), "kafka_version", version, "a version such as 4.3.1")
    modes = " or ".join(METADATA_MODES)
    _require(lane.metadata_mode in (None, *METADATA_MODES), "metadata_mode", lane.metadata_mode, modes)
    elr: object = lane.elr
    _require(elr is None or isinstance(elr, bool), "elr", elr, "true or false")
    number = lane.kafka_version or USUAL_VERSION
    mode = lane.metadata_mode or usual_mode(number)
    other = KRAFT if mode == ZOOKEEPER else ZOOKEEPER
    _require(has_mode(number, mode), "metadata_mode", mode, f"{other}: Kafka {number} has no {_SPELLED[mode]}")
    expected = f"false: eligible leader replicas are there since 4.0, in KRaft mode, not in Kafka {number} ({mode})"
    _require(not lane.elr or may_elect_from_elr(number, mode), "elr", elr, expected)
    if lane.idempotence:
        expected = "0.11 or later with idempotence (KIP-98)"
        _require(release(number) >= (0, 11), "kafka_version", number, expected)


def _check_groups(lane: Lane) -> None:
    number = lane.kafka_version or USUAL_VERSION
    mode = lane.metadata_mode or usual_mode(number)
    for key, group in (("group", lane.group), ("loop.group", lane.loop.group if lane.loop else None)):
        if group is not None and group.protocol == CONSUMER:
            expected = f"classic: the protocol consumer is there since 4.0, in KRaft mode, not in {number} ({mode})"
            _require(release(number) >= (4, 0) and mode == KRAFT, f"{key}.protocol", group.protocol, expected)
    if lane.loop is None:
        return
    _require(lane.loop.source != lane.lane, "loop.source", lane.loop.source, "another lane than the loop's own")
    if lane.loop.offsets != IN_TRANSACTION:
        expected = "none: a loop uses transactions only with the offsets transaction"
        _require(lane.transactional is None, "transactional", "given", expected)
        return
    transactions = lane.transactional
    _require(transactions is not None, "transactional", None, "transactions, for a loop with the offsets transaction")
    assert transactions is not None
    members = lane.loop.group.members
    expected = f"{members}: each member of the loop is a producer"
    _require(transactions.producers == members, "transactional.producers", transactions.producers, expected)
    expected = "0: loop.group.crashes end the members of a loop"
    _require(transactions.restarts == 0, "transactional.restarts", transactions.restarts, expected)


_SPELLED = {ZOOKEEPER: "ZooKeeper", KRAFT: "KRaft mode"}


def _is_version(version: object) -> bool:
    try:
        return isinstance(version, str) and bool(release(version))
    except ValueError:
        return False


def _require(holds: bool, key: str, value: object, expected: str) -> None:
    if not holds:
        raise LaneError(key, value, expected)
