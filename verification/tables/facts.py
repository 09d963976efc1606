"""The facts of a run, counted by lane and partition. Pure Python, no Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_chaos.contract.ledger import GroupLedger, ShareLedger


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition: how many rows each table has of it, and its highest offsets (None without such a row).

    `doubled`: rows of log/ that repeat another one. `unplaced`: acknowledgements that name no partition and offset.
    `committed_end`: in a transactional lane, the last offset of a committed record.
    """

    produced: int = 0
    acknowledged: int = 0
    consumed: int = 0
    stored: int = 0
    doubled: int = 0
    unplaced: int = 0
    first_acknowledged_ns: int | None = None
    acknowledged_end: int | None = None
    read_end: int | None = None
    log_end: int | None = None
    is_transactional: bool = False
    committed_end: int | None = None

    def end(self, *, final_log: bool) -> int | None:
        """The last offset of the final log; without one, the highest offset read or acknowledged.

        In a transactional lane the last committed one: no consumer of committed records is given more.
        """
        if final_log:
            return self.committed_end if self.is_transactional else self.log_end
        ends = [end for end in (self.read_end, self.acknowledged_end) if end is not None]
        return max(ends, default=None)

    def end_reached(self, *, final_log: bool) -> bool:
        """Whether some consumer read the partition to its end. A partition without records has no end to reach."""
        end = self.end(final_log=final_log)
        return end is None or (self.read_end is not None and self.read_end >= end)


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One broker's replica of a partition: its rows, its first and last offset."""

    rows: int
    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        """Whether it holds every offset from its first to its last exactly once."""
        return self.rows == self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """Where a partition's log ends within a transaction, from `offset` on; `hangs`: for longer than it may last."""

    partition: int
    offset: int
    hangs: bool


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """The transactions of a lane. `committed`, `aborted`, `in_doubt`: by what their producers learned.

    `unnamed`: transactions of produced/ that transactions/ lacks; `outside`: acknowledged records without a
    transaction. `read_within`: records that were read within transactions. `markers`: those in replicas/, None if it
    does not tell them from records. `ended_ns`: when the last one ended, None unless all did. `ids`: transactional ids.
    `unknown_readers`: consumers without an assignment. `read_to`: by partition the highest offset that a read_committed
    consumer read; `stayed_to`: until when one was assigned it that ended in order. `entangled`: dependencies that may
    be part of a cycle, where they are too many to search, and the first have none.
    """

    transactions: int = 0
    committed: int = 0
    aborted: int = 0
    in_doubt: int = 0
    assignments: int = 0
    unnamed: int = 0
    outside: int = 0
    read_within: int = 0
    markers: int | None = None
    ended_ns: int | None = None
    ids: int = 0
    unknown_readers: tuple[str, ...] = ()
    read_to: Mapping[int, int] = field(default_factory=dict)
    stayed_to: Mapping[int, int] = field(default_factory=dict)
    open_ends: tuple[OpenEnd, ...] = ()
    entangled: int = 0


class Pulse(NamedTuple):
    """The first and the last moment of one second at which something happened in a partition; None: in no known one.

    `what`: a record was `sent`, `acknowledged`, `given up`, `read`, or sent and never answered (`unanswered`, at the
    moment of sending); `reader`: the group that read it, empty for none. `asked_ns`: when the earliest of those records
    was sent, where that is known. The offsets are those of the first and the last moment, and the `highest`; None where
    nobody knows them.
    """

    what: str
    reader: str
    partition: int | None
    first_ns: int
    last_ns: int
    asked_ns: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    highest: int | None = None


class Awaited(NamedTuple):
    """A transaction whose end its client awaited for a second or more; `end_ns` None: until it gave up, in vain."""

    transactional_id: str
    begin_ns: int
    end_ns: int | None


class Owned(NamedTuple):
    """From when to when a member of a group had a partition; `end_ns` None: nobody knows."""

    group: str
    partition: int
    start_ns: int
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """The facts of a lane. `partitions`: by number; produced rows without a partition are under None.

    `unjudged`: acknowledged records whose fate neither the log nor a read shows. `replicas`: by partition and broker.
    `transactions`: None if the lane is not transactional. `groups`: those of the lane's group and its loop;
    `without_input`: records of a loop that name none. `pulses`, `owned`: only where bounds of recovery are known.
    """

    partitions: Mapping[int | None, PartitionFacts] = field(default_factory=dict)
    unjudged: int = 0
    replicas: Mapping[int, Mapping[int, ReplicaFacts]] = field(default_factory=dict)
    transactions: TransactionFacts | None = None
    groups: tuple[GroupLedger, ...] = ()
    without_input: int = 0
    pulses: tuple[Pulse, ...] = ()
    owned: tuple[Owned, ...] = ()
    awaited: tuple[Awaited, ...] = ()
    share: ShareLedger | None = None

    @property
    def numbered(self) -> list[tuple[int, PartitionFacts]]:
        """The partitions that are known, in order."""
        return sorted((number, facts) for number, facts in self.partitions.items() if number is not None)

    def total(self, name: str) -> int:
        """The sum of a count over all partitions."""
        return sum(getattr(facts, name) for facts in self.partitions.values())

    @property
    def replica_rows(self) -> int:
        """How many rows the lane's replicas have together."""
        return sum(replica.rows for brokers in self.replicas.values() for replica in brokers.values())
