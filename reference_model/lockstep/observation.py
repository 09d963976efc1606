"""Observations of a cluster, its groups and its transactions between two steps, and their differences from a model.

A field that was not observed is None and matches anything. So does `NO_EPOCH`, which stands for leader epochs in a log
without them. A difference names its subject (a broker or one of `SUBJECTS`), the field, the observed value, and the
values of the allowed states. Only the allowed states that differ in the fewest fields count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

COMMIT, ABORT = "COMMIT", "ABORT"
"""The names of markers among the records of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObservation:
    """A partition at its leader: `log` as (offset, record or marker, producer epoch), its offsets, and the records that
    consumers of both isolation levels are given."""

    log: tuple[tuple[int, str, int], ...] = ()
    high_watermark: int = 0
    last_stable_offset: int = 0
    read_committed: tuple[str, ...] = ()
    read_uncommitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionObservation:
    """A transactional id at its coordinator: its state by Kafka's name, the producer's epoch, and the partitions of the
    open transaction; while it is being ended, only partitions that still lack a marker."""

    state: str
    epoch: int
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerObservation:
    """A producer: the epoch that it has, and the answer to its last request."""

    epoch: int
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsObservation:
    """A group's offset of a partition: the last `committed` offset, if there is any, and whether an open transaction
    has an offset `pending`."""

    committed: int | None = None
    pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsObservation:
    """All that is observed of transactions: partitions by number, transactional ids and producers by name. `offsets` is
    None without a group."""

    partitions: Mapping[int, PartitionObservation] = field(default_factory=dict)
    transactions: Mapping[str, TransactionObservation] = field(default_factory=dict)
    producers: Mapping[str, ProducerObservation] = field(default_factory=dict)
    offsets: OffsetsObservation | None = None

    def values(self) -> dict[str, Any]:
        """Everything that was observed, by the name that a difference gives it: "partition 0, log" and so on."""
        parts: dict[str, Any] = {
            **{f"partition {number}": partition for number, partition in sorted(self.partitions.items())},
            **{f"transactional id {name}": transaction for name, transaction in self.transactions.items()},
            **{f"producer {name}": producer for name, producer in self.producers.items()},
        }
        if self.offsets is not None:
            parts["the group's offset"] = self.offsets
        return {f"{subject}, {name}": getattr(part, name) for subject, part in parts.items() for name in part.__slots__}


GIVEN, PROCESSED, COMMITTED, REFUSED = "given", "processed", "committed", "refused"

Deed = tuple[str, int, int]
"""A member's step, its partition, and the offset of the record or of the commit."""
ShareDeed = tuple[str, int, int | str]
"""A share group member's step, the record's offset, and its delivery count (if `given`) or the answer to the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberObservation:
    """One member, as it sees itself: its generation, the partitions that it `has`, and its deeds in order (`did`).

    `generation`: 0 if the member is in none; with the protocol `consumer`, its epoch.
    """

    generation: int | None = None
    has: tuple[int, ...] | None = None
    did: tuple[Deed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservation:
    """A group: by its coordinator, its `members`, each partition's owner and committed offset; and each member's view.

    A field that is None was not observed, and matches anything.
    """

    members: tuple[int, ...] | None = None
    owners: tuple[int, ...] | None = None
    committed: tuple[int, ...] | None = None
    by_member: Mapping[int, MemberObservation] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Everything that was observed, by the name that a difference gives it."""
        values: dict[str, Any] = {"members": self.members, "owners": self.owners, "committed": self.committed}
        for number, member in self.by_member.items():
            values |= {f"member {number}, {name}": getattr(member, name) for name in member.__slots__}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareObservation:
    """A share group: the `start` offset that its coordinators tell (−1: none yet), and by member what it `did`."""

    start: int
    did: Mapping[int, tuple[ShareDeed, ...]] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Everything that was observed, by the name that a difference gives it."""
        return {"start offset": self.start, **{f"member {number}, did": did for number, did in self.did.items()}}


NO_EPOCH = -1
"""The leader epoch of a record in a message format without leader epochs (before Kafka 0.11)."""
METADATA = 0
"""The subject of a difference in the metadata."""
GROUP = -1
"""The subject of a difference in what was observed of a consumer group."""
TRANSACTIONS = -2
"""The subject of a difference in what was observed of transactions."""
SHARES = -3
"""The subject of a difference in what was observed of a share group."""

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaObservation:
    """An observation of one broker's replica: `log` as (offset, record, leader epoch), `epochs` as the lines of
    its leader-epoch-checkpoint, `role` as in `state.py` ("leader", "offline", …), `isr` as the leader itself has it."""

    log: tuple[tuple[int, str, int], ...] | None = None
    log_start: int | None = None
    log_end: int | None = None
    high_watermark: int | None = None
    checkpointed_high_watermark: int | None = None
    epochs: tuple[tuple[int, int], ...] | None = None
    role: str | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None


ObservedField = tuple[int, str]
"""A field of an observation: its subject, which is a broker's id or one of `SUBJECTS`, and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An observation of a cluster: replicas by broker, the partition's metadata, the `controller` (0: none), the
    brokers that are `registered`, the producers' acknowledgements, as (record, offset), a consumer group and a share
    group. In scenarios on transactions, it has `transactions` instead of replicas."""

    replicas: Mapping[int, ReplicaObservation] = field(default_factory=dict)
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    controller_epoch: int | None = None
    controller: int | None = None
    registered: tuple[int, ...] | None = None
    acknowledged: tuple[tuple[str, int | None], ...] | None = None
    group: GroupObservation | None = None
    shares: ShareObservation | None = None
    transactions: TransactionsObservation | None = None

    def values(self) -> dict[ObservedField, Any]:
        """All values that were observed."""
        values: dict[ObservedField, Any] = {(METADATA, name): getattr(self, name) for name in _CLUSTER_FIELDS}
        for broker, replica in self.replicas.items():
            values |= {(broker, name): getattr(replica, name) for name in replica.__slots__}
        values = {where: value for where, value in values.items() if value is not None}
        for subject, observed in ((GROUP, self.group), (SHARES, self.shares), (TRANSACTIONS, self.transactions)):
            if observed is not None:
                values |= {(subject, name): value for name, value in observed.values().items()}
        return values


_CLUSTER_FIELDS = ("leader", "leader_epoch", "isr", "controller_epoch", "controller", "registered", "acknowledged")
SUBJECTS = {
    METADATA: "the partition in the metadata",
    GROUP: "the group",
    SHARES: "the share group",
    TRANSACTIONS: "transactions",
}
"""The subjects of differences that are not brokers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which an observation differs from the nearest allowed states.

    `place`: its subject, a broker's id or one of `SUBJECTS`; named as in the JSON of results.
    """

    place: int
    field: str
    observed: Any
    allowed: tuple[Any, ...]

    def __str__(self) -> str:
        subject = SUBJECTS.get(self.place, f"broker {self.place}")
        allowed = " or ".join(str(value) for value in self.allowed)
        return f"{subject}, {self.field}: observed {self.observed}, the model allows {allowed}"


@dataclass(frozen=True, slots=True)
class Comparison(Generic[S]):
    """The allowed states that match an observation, or, if none does, what differs."""

    matching: frozenset[S]
    differences: tuple[Difference, ...]

    @property
    def conforms(self) -> bool:
        """Whether the observation is one of the allowed states."""
        return bool(self.matching)


def compare(allowed_states: Mapping[S, Observation], observation: Observation) -> Comparison[S]:
    """Compare an observation with the allowed states, each with the complete observation that it would show."""
    observed = observation.values()
    mismatches = {state: _mismatches(expected.values(), observed) for state, expected in allowed_states.items()}
    matching = frozenset(state for state, different in mismatches.items() if not different)
    if matching:
        return Comparison(matching, ())
    fewest = min((len(different) for different in mismatches.values()), default=0)
    closest = [different for different in mismatches.values() if len(different) == fewest]
    allowed: dict[ObservedField, dict[Any, None]] = {}
    for different in closest:
        for where, expected in different.items():
            allowed.setdefault(where, {})[expected] = None
    # Of several nearest states, name the fields that differ in all of them, if there are any.
    common = [where for where in allowed if all(where in different for different in closest)] or list(allowed)
    differences = tuple(
        Difference(subject, name, observed.get((subject, name)), tuple(sorted(allowed[subject, name], key=repr)))
        for subject, name in sorted(common)
    )
    return Comparison(frozenset(), differences)


def _mismatches(expected: Mapping[ObservedField, Any], seen: Mapping[ObservedField, Any]) -> dict[ObservedField, Any]:
    """The expected values of the fields that differ.

    Fields of groups match anything if the model lacks them. Transactions are observed in full: no field that the
    model expects may be missing.
    """
    different = {
        where: expected.get(where)
        for where, value in seen.items()
        if (where in expected or where[0] not in (GROUP, SHARES))
        and value != _comparable(where, expected.get(where), value)
    }
    missing = {where: value for where, value in expected.items() if where[0] == TRANSACTIONS and where not in seen}
    return different | missing


def _comparable(where: ObservedField, expected: Any, observed: Any) -> Any:
    """The expected value in the form of the observed one: a log without leader epochs is compared without them."""
    _, name = where
    if expected is not None and name == "log" and any(entry[2] == NO_EPOCH for entry in observed):
        return tuple((offset, record, NO_EPOCH) for offset, record, _ in expected)
    return expected
