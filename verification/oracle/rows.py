"""A lane's rows as the second opinion sees them: plain tuples, indexed by identity and by place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar


class Produced(NamedTuple):
    """A produced record and its outcome: ok, fail or info."""

    producer_id: int
    seq: int
    partition: int | None
    offset: int | None
    outcome: str
    transaction: int | None = None
    invoke_ns: int = 1
    complete_ns: int | None = 2
    source_producer_id: int | None = None
    source_seq: int | None = None


class Read(NamedTuple):
    """A record that a consumer was given."""

    consumer: str
    partition: int
    offset: int
    producer_id: int
    seq: int
    poll_ns: int


class Stored(NamedTuple):
    """A record of the final log."""

    partition: int
    offset: int
    producer_id: int
    seq: int


class Replicated(NamedTuple):
    """A record in one broker's own segments."""

    partition: int
    broker: int
    offset: int
    leader_epoch: int
    producer_id: int
    seq: int
    kind: str | None = None


class Transaction(NamedTuple):
    """A transaction and its outcome: committed, aborted or info."""

    producer_id: int
    transaction: int
    transactional_id: str
    begin_ns: int
    end_ns: int | None
    outcome: str
    initialised_ns: int | None = None


class Assigned(NamedTuple):
    """A partition that a consumer read, and its isolation level; of a group, who had it in which generation."""

    consumer: str
    partition: int
    isolation: str
    group: str | None = None
    member: str = "m"
    generation: int | None = None
    start_ns: int = 1


class Commit(NamedTuple):
    """An offset that a member of a group committed, and its outcome: ok, fail or info."""

    group: str
    consumer: str
    partition: int
    offset: int
    invoke_ns: int
    complete_ns: int | None
    outcome: str
    producer_id: int | None = None
    transaction: int | None = None


@dataclass
class LaneHistory:
    """All rows of one lane. `log` None: there is no final log; `high_watermarks`: per partition, the lowest.

    `timeout_ms`: the time-out of transactions; None: the lane is not transactional. `healed_ns`: when the last of its
    faults was healed.
    """

    produced: list[Produced] = field(default_factory=list)
    consumed: list[Read] = field(default_factory=list)
    log: list[Stored] | None = None
    replicas: list[Replicated] = field(default_factory=list)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    assignments: list[Assigned] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    timeout_ms: int | None = None
    healed_ns: int = 0

    @property
    def shows_markers(self) -> bool:
        """Whether the replicas tell records and markers apart."""
        return any(row.kind is not None for row in self.replicas)


Identity = tuple[int, int]
Place = tuple[int, int]
_Row = TypeVar("_Row", Read, Stored)


class View:
    """The lane's rows, indexed by identity and by place; phantoms set apart."""

    def __init__(self, history: LaneHistory) -> None:
        self.history = history
        self.final_log = history.log is not None
        self.ended: dict[tuple[int, int | None], str] = {
            (row.producer_id, row.transaction): row.outcome for row in history.transactions
        }
        self.outcome = {(row.producer_id, row.seq): self._outcome(row) for row in history.produced}
        self.acknowledged: dict[Identity, Place] = {}
        self.claimed: dict[Identity, Place] = {}
        for row in history.produced:
            if row.partition is not None and row.offset is not None:
                place, identity = (row.partition, row.offset), (row.producer_id, row.seq)
                if self.outcome[identity] == "ok":
                    self.acknowledged[identity] = place
                elif self.outcome[identity] == "info" and row.outcome != "fail":
                    self.claimed[identity] = place
        self.read = _places(self.genuine(history.consumed))
        if history.log is not None:
            self.log = _places(self.genuine(history.log))
        else:
            self.log = {identity: set(places) for identity, places in self.read.items()}
            for identity, place in self.acknowledged.items():
                self.log.setdefault(identity, set()).add(place)
        self.log_end: dict[int, int] = {}
        for stored in history.log or ():
            self.log_end[stored.partition] = max(stored.offset, self.log_end.get(stored.partition, stored.offset))
        self.read_end: dict[int, int] = {}
        self.uncommitted_read_end: dict[int, int] = {}
        for read in history.consumed:
            self.read_end[read.partition] = max(read.offset, self.read_end.get(read.partition, read.offset))
            if self.isolation(read.consumer) == "read_uncommitted":
                end = self.uncommitted_read_end.get(read.partition, read.offset)
                self.uncommitted_read_end[read.partition] = max(read.offset, end)
        self.visible = self._visible()
        self.visible_end: dict[int, int] = {}
        for partition, offset in self.visible:
            self.visible_end[partition] = max(offset, self.visible_end.get(partition, offset))

    def genuine(self, rows: Iterable[_Row]) -> list[_Row]:
        """The rows whose record was produced."""
        return [row for row in rows if (row.producer_id, row.seq) in self.outcome]

    def _outcome(self, row: Produced) -> str:
        """What became of a record: nobody can be certain that one of an aborted transaction was not written.

        Without a log, nor that readers were to be given one whose transaction is not known to be committed.
        """
        ended = self.ended.get((row.producer_id, row.transaction))
        missed = not self.final_log and row.transaction is not None and self.history.timeout_ms is not None
        in_doubt = {"fail": ended == "aborted", "ok": missed and ended != "committed", "info": True}
        return "info" if in_doubt[row.outcome] else row.outcome

    def isolation(self, consumer: str) -> str | None:
        """The consumer's isolation level, as far as the assignments say."""
        return min((row.isolation for row in self.history.assignments if row.consumer == consumer), default=None)

    def _visible(self) -> set[Place]:
        """The places of the log that every consumer must be given: in a transactional lane, those of commits.

        Without a log, the places of which producers and readers were told that they are committed.
        """
        rows = self.history.log or ()
        if self.history.timeout_ms is None:
            return {(row.partition, row.offset) for row in rows}
        if not self.final_log:
            given = (row for row in self.history.consumed if self.isolation(row.consumer) == "read_committed")
            return {*self.acknowledged.values(), *((row.partition, row.offset) for row in given)}
        fates = fates_of(self.history)
        return {(row.partition, row.offset) for row in rows if fates[row] == "commit"}

    def due(self, place: Place) -> bool:
        """Whether some consumer must have been given this place of the log: it read the partition to the end."""
        partition, _ = place
        if place in self.visible:
            return partition in self.read_end and self.read_end[partition] >= self.visible_end[partition]
        end = self.uncommitted_read_end.get(partition)
        return end is not None and end >= self.log_end[partition]

    def passed(self, place: Place) -> bool:
        """Whether a record at or past this place was read in its partition."""
        partition, offset = place
        return partition in self.read_end and offset <= self.read_end[partition]


def _places(rows: Iterable[Read] | Iterable[Stored]) -> dict[Identity, set[Place]]:
    places: dict[Identity, set[Place]] = defaultdict(set)
    for row in rows:
        places[row.producer_id, row.seq].add((row.partition, row.offset))
    return dict(places)


def fates_of(history: LaneHistory) -> dict[Stored, str | None]:
    """By row of the log the next marker after it of its producer's transactional id; None: there is none."""
    ids = {row.producer_id: row.transactional_id for row in history.transactions}

    def writer(producer_id: int) -> object:
        return ids.get(producer_id, producer_id)

    markers: dict[tuple[int, object], dict[int, str]] = defaultdict(dict)
    for row in history.replicas:
        if row.kind in ("commit", "abort"):
            of_writer = markers[row.partition, writer(row.producer_id)]
            of_writer[row.offset] = max(row.kind, of_writer.get(row.offset, row.kind))
    fates: dict[Stored, str | None] = {}
    for stored in history.log or ():
        of_writer = markers[stored.partition, writer(stored.producer_id)]
        after = [offset for offset in of_writer if offset > stored.offset]
        fates[stored] = of_writer[min(after)] if after else None
    return fates
