"""Observations of a consumer group or a share group between two steps, and of transactions: partitions, transactional
ids at their coordinator, producers, a group's offset; and how it differs from what the model allows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    open transaction, or of one that is being ended those that still lack a marker."""

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
    """A group's offset of a partition: the one that is `committed` (None: none is), and whether an open transaction
    has one that is `pending`."""

    committed: int | None = None
    pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsObservation:
    """All of it: partitions by number, transactional ids and producers by name. `offsets` is None without a group."""

    partitions: Mapping[int, PartitionObservation] = field(default_factory=dict)
    transactions: Mapping[str, TransactionObservation] = field(default_factory=dict)
    producers: Mapping[str, ProducerObservation] = field(default_factory=dict)
    offsets: OffsetsObservation | None = None

    def values(self) -> dict[str, Any]:
        """Everything that was observed, by the name that a difference gives it: "partition 0, log" and so on."""
        named: dict[str, Any] = {
            **{f"partition {number}": one for number, one in sorted(self.partitions.items())},
            **{f"transactional id {name}": one for name, one in self.transactions.items()},
            **{f"producer {name}": one for name, one in self.producers.items()},
        }
        if self.offsets is not None:
            named["the group's offset"] = self.offsets
        return {f"{place}, {name}": getattr(one, name) for place, one in named.items() for name in one.__slots__}


NOBODY = 0

GIVEN, PROCESSED, COMMITTED, REFUSED = "given", "processed", "committed", "refused"

Deed = tuple[str, int, int]
"""A member's step, its partition, and the offset of the record or of the commit."""
ShareDeed = tuple[str, int, int | str]
"""The step of a share group's member, the offset of the record, and its delivery count or the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberObservation:
    """One member, as it sees itself. `did`: in order.

    `generation`: 0 where it is in none; with the protocol `consumer`, its epoch. It and `has`, the partitions, are None
    where they were not observed.
    """

    generation: int | None = None
    has: tuple[int, ...] | None = None
    did: tuple[Deed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObservation:
    """A group: who is in it and who has which partition, by its coordinator; what is committed; and its members.

    None was not observed, and matches anything.
    """

    members: tuple[int, ...] | None = None
    owners: tuple[int, ...] | None = None
    committed: tuple[int, ...] | None = None
    each: Mapping[int, MemberObservation] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Everything that was observed, by the name that a difference gives it."""
        found: dict[str, Any] = {"members": self.members, "owners": self.owners, "committed": self.committed}
        for number, member in self.each.items():
            found[f"member {number}, generation"] = member.generation
            found[f"member {number}, has"] = member.has
            found[f"member {number}, did"] = member.did
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareObservation:
    """A share group: the `start` offset that its coordinators tell (−1: none yet), and by member what it `did`."""

    start: int
    did: Mapping[int, tuple[ShareDeed, ...]] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Everything that was observed, by the name that a difference gives it."""
        return {"start offset": self.start, **{f"member {number}, did": did for number, did in self.did.items()}}
