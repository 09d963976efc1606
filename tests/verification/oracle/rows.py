"""A lane's rows as the oracle sees them, as plain tuples indexed by identity and by place, and the cases that it
finds.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
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
    key: str | None = None
    tombstone: int | None = None


class Read(NamedTuple):
    """A record that a consumer was given."""

    consumer: str
    partition: int
    offset: int
    producer_id: int
    seq: int
    poll_ns: int
    reading_producer_id: int | None = None
    reading_transaction: int | None = None


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
    producer_epoch: int | None = None


class Transaction(NamedTuple):
    """A transaction and its outcome: committed, aborted or info."""

    producer_id: int
    transaction: int
    transactional_id: str
    begin_ns: int
    end_ns: int | None
    outcome: str
    initialised_ns: int | None = None
    error: str | None = None
    commit_ns: int | None = None


class Assigned(NamedTuple):
    """A partition that a consumer read, and its isolation level; of a group, who had it in which generation."""

    consumer: str
    partition: int
    isolation: str
    group: str | None = None
    member: str = "m"
    generation: int | None = None
    start_ns: int = 1
    end_ns: int | None = None


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


class Delivery(NamedTuple):
    """A record that a member of a share group was given, and how it was acknowledged."""

    group: str
    member: str
    partition: int
    offset: int
    producer_id: int
    seq: int
    delivery_count: int
    asked_ns: int | None
    delivered_ns: int
    acknowledgement: str | None = None
    outcome: str | None = None
    invoke_ns: int | None = None
    complete_ns: int | None = None


class ShareStart(NamedTuple):
    """The start offset of a share group that a member was told."""

    group: str
    member: str
    partition: int
    offset: int
    invoke_ns: int
    complete_ns: int
    lag: int | None = None


class DeadLetter(NamedTuple):
    """A letter that brokers wrote of a record of a share group."""

    partition: int
    offset: int
    source_group: str | None
    source_partition: int | None
    source_offset: int | None
    producer_id: int | None
    seq: int | None
    key: str | None = None
    delivery_count: int | None = None


@dataclass
class LaneHistory:
    """All rows of one lane. `log` None: there is no final log; `high_watermarks`: per partition the lowest, and those
    of all brokers in `marks`.

    `has_replicas`: whether the run has a table of replicas, which shows how transactions ended.
    `timeout_ms`: the time-out of transactions; None: the lane is not transactional. `healed_ns`: when the last of its
    faults was healed. `retained`: with retention by size, what it left where it had to remove something.
    `is_share_committed`: whether it has a share group that is given committed records alone. `is_cleaned`: its
    records are removed; `is_compacted`: by compaction alone; `kept_ns`: it has kept each tombstone sent from then on,
    None if that is unknown. `is_lossless`: nothing that was committed can get lost. `is_idempotent`: its producers are.
    """

    produced: list[Produced] = field(default_factory=list)
    consumed: list[Read] = field(default_factory=list)
    log: list[Stored] | None = None
    replicas: list[Replicated] = field(default_factory=list)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    marks: dict[int, dict[int, int]] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    assignments: list[Assigned] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    share_starts: list[ShareStart] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    timeout_ms: int | None = None
    healed_ns: int = 0
    has_replicas: bool = True
    is_share_committed: bool = False
    retained: dict[int, int] | None = None
    is_cleaned: bool = False
    is_compacted: bool = False
    kept_ns: int | None = None
    is_lossless: bool = True
    is_idempotent: bool = False


Identity = tuple[int, int]
Place = tuple[int, int]
Ends = dict[int, int]
"""By partition the highest offset."""
UNDECODABLE = (-1, -1)
_Row = TypeVar("_Row", Read, Stored, Delivery)


class View:
    """The lane's rows, indexed by identity and by place; phantoms set apart."""

    def __init__(self, history: LaneHistory) -> None:
        self.history = history
        self.final_log = history.log is not None
        self.retained = history.retained
        self.ended: dict[tuple[int, int | None], str] = {
            (row.producer_id, row.transaction): row.outcome for row in history.transactions
        }
        self.isolation: dict[str, str] = {}
        for assigned in history.assignments:
            # A consumer with both levels promises what read_committed does.
            known = self.isolation.get(assigned.consumer, assigned.isolation)
            self.isolation[assigned.consumer] = min(assigned.isolation, known)
        self.outcome: dict[Identity, str] = {}
        self.acknowledged: dict[Identity, Place] = {}
        self.claimed: dict[Identity, Place] = {}
        self.sent_ns = {(row.producer_id, row.seq): row.invoke_ns for row in history.produced}
        for row in history.produced:
            identity, outcome = (row.producer_id, row.seq), self.outcome_of(row)
            if identity == UNDECODABLE:
                continue
            self.outcome[identity] = outcome
            if row.partition is not None and row.offset is not None:
                if outcome == "ok":
                    self.acknowledged[identity] = (row.partition, row.offset)
                elif outcome == "info" and row.outcome != "fail":
                    self.claimed[identity] = (row.partition, row.offset)
        self.read = _places(self.genuine(history.consumed))
        if history.log is not None:
            self.log = _places(self.genuine(history.log))
        else:
            self.log = {identity: set(places) for identity, places in self.read.items()}
            for identity, place in self.acknowledged.items():
                self.log.setdefault(identity, set()).add(place)
        self.fates = fates_of(history) if history.timeout_ms is not None else {}
        self.visible = self._visible()
        self.log_end = ends_of((row.partition, row.offset) for row in history.log or ())
        self.read_end = ends_of((row.partition, row.offset) for row in history.consumed)
        self.uncommitted_read_end = ends_of((row.partition, row.offset) for row in self.reads_of("read_uncommitted"))
        self.committed_read_end = ends_of((row.partition, row.offset) for row in self.reads_of("read_committed"))
        self.visible_end = ends_of(self.visible)

    def genuine(self, rows: Iterable[_Row]) -> list[_Row]:
        """The rows whose record was produced."""
        return [row for row in rows if (row.producer_id, row.seq) in self.outcome]

    def reads_of(self, isolation: str) -> Iterable[Read]:
        """The reads of consumers of this isolation level."""
        return (row for row in self.history.consumed if self.isolation.get(row.consumer) == isolation)

    def outcome_of(self, row: Produced) -> str:
        """The outcome of a record: one of an aborted transaction may or may not have been written.

        Without a log, nor that readers were to be given one whose transaction is not known to be committed.
        """
        if row.transaction is None or self.history.timeout_ms is None:
            return row.outcome
        ended = self.ended.get((row.producer_id, row.transaction))
        is_missed = not self.final_log and ended != "committed"
        in_doubt = {"fail": ended == "aborted", "ok": is_missed, "info": True}
        return "info" if in_doubt[row.outcome] else row.outcome

    def _visible(self) -> set[Place]:
        """The places of the log that every consumer must be given: in a transactional lane, those of commits.

        Without a log, the places of which producers and readers were told that they are committed.
        """
        rows = self.history.log or ()
        if self.history.timeout_ms is None:
            return {(row.partition, row.offset) for row in rows}
        if self.final_log:
            return {(row.partition, row.offset) for row in rows if self.fates[row] == "commit"}
        outside = {(row.producer_id, row.seq) for row in self.history.produced if row.transaction is None}
        told = {place for identity, place in self.acknowledged.items() if identity not in outside}
        return told | {(row.partition, row.offset) for row in self.reads_of("read_committed")}

    def due(self, place: Place) -> bool:
        """Whether some consumer must have been given this place of the log: it read the partition to the end."""
        partition, _ = place
        if place in self.visible:
            return partition in self.read_end and self.read_end[partition] >= self.visible_end[partition]
        end = self.uncommitted_read_end.get(partition)
        return end is not None and end >= self.log_end[partition]

    def due_if_committed(self, place: Place) -> bool:
        """Whether some read_committed consumer must have been given this place: one read all that is committed."""
        end = self.committed_read_end.get(place[0], -1)
        keeps_markers = self.history.timeout_ms is not None and self.history.is_lossless
        return keeps_markers and place in self.visible and end >= self.visible_end[place[0]]

    def may_be_removed(self, identity: Identity) -> bool:
        """Whether retention by size had to remove it, or other retention may have, for all that is known."""
        place = self.acknowledged.get(identity)
        if self.retained is None:
            return self.is_before_log(place)
        return place is None or place[1] < self.retained.get(place[0], 0)

    def is_before_log(self, place: Place | None) -> bool:
        """Whether a place, unless it is unknown, is before the log of a lane with retention."""
        has_retention = self.history.is_cleaned and not self.history.is_compacted
        return has_retention and (place is None or place[1] < self.log_start.get(place[0], inf))

    @cached_property
    def log_start(self) -> Ends:
        """By partition the first offset of the log, that of a record or of a marker."""
        rows = [*(self.history.log or ()), *markers_of(self.history)]
        return {partition: -end for partition, end in ends_of((row.partition, -row.offset) for row in rows).items()}

    @cached_property
    def missing(self) -> dict[Identity, bool | None]:
        """The records that the log of a compacted lane lacks: whether one is lost, None if nobody can say."""
        ended = {row: self.ended.get((row.producer_id, row.transaction)) for row in self.history.produced}
        # A record of an aborted transaction is in no account: it removes nothing, and may go.
        rows = [row for row in ended if ended[row] != "aborted" and (row.producer_id, row.seq) in self.outcome]
        fate: dict[Identity, bool | None] = {}
        for row in rows:
            identity = (row.producer_id, row.seq)
            place = self.acknowledged.get(identity) or min(self.read.get(identity, ()), default=None)
            if identity not in self.log and (row.transaction is None or ended[row] == "committed"):
                removers = {self._removed(other, row.key, place) for other in rows} if place and row.key else {None}
                fate[identity] = False if True in removers else None if None in removers else True
        return fate

    def _removed(self, row: Produced, key: str, place: Place) -> bool | None:
        """Whether compaction may have removed a record of this key and place for a row, None if nobody can say."""
        identity, kept_ns = (row.producer_id, row.seq), self.history.kept_ns
        stored = self.log.get(identity, ())
        if row.key == key and any(partition == place[0] and offset > place[1] for partition, offset in stored):
            return True
        if self.outcome[identity] == "fail" or (row.key is not None and row.tombstone != 1):
            return False
        if row.key is None or row.partition is None:
            return None
        if (
            stored
            or (row.key, row.partition) != (key, place[0])
            or self.acknowledged.get(identity, (0, inf))[1] < place[1]
            or any(offset < self.acknowledged.get(identity, (0, 0))[1] for offset in self._kept(key, place[0]))
        ):
            return False
        return None if kept_ns is None else row.invoke_ns < kept_ns

    def _kept(self, key: str, partition: int) -> Iterable[int]:
        """The offsets of a partition at which the log has records of a key, but for those of aborted transactions."""
        for row in self.history.produced:
            if row.key == key and self.ended.get((row.producer_id, row.transaction)) != "aborted":
                yield from (at for number, at in self.log.get((row.producer_id, row.seq), ()) if number == partition)

    def is_missed(self, identity: Identity) -> bool:
        """Whether a record that the log lacks must be there, for all that compaction may have removed."""
        return not self.history.is_compacted or self.missing.get(identity) is True

    def passed(self, place: Place) -> bool:
        """Whether a record at or past this place was read in its partition."""
        partition, offset = place
        return partition in self.read_end and offset <= self.read_end[partition]


def ends_of(places: Iterable[Place]) -> Ends:
    """By partition the highest of these offsets."""
    ends: Ends = {}
    for partition, offset in places:
        if partition not in ends or offset > ends[partition]:
            ends[partition] = offset
    return ends


def _places(rows: Iterable[Read] | Iterable[Stored]) -> dict[Identity, set[Place]]:
    places: dict[Identity, set[Place]] = defaultdict(set)
    for row in rows:
        places[row.producer_id, row.seq].add((row.partition, row.offset))
    return dict(places)


def writers_of(history: LaneHistory) -> dict[int, int]:
    """By producer the lowest producer of its transactional id."""
    lowest: dict[str, int] = {}
    for row in history.transactions:
        lowest[row.transactional_id] = min(row.producer_id, lowest.get(row.transactional_id, row.producer_id))
    writers: dict[int, int] = {}
    for row in history.transactions:
        writer = lowest[row.transactional_id]
        writers[row.producer_id] = min(writer, writers.get(row.producer_id, writer))
    return writers


def markers_of(history: LaneHistory) -> list[Replicated]:
    """The markers in the log: those below what a broker that has them knows to be committed, and those all have."""
    ends: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    logged: dict[int, int] = defaultdict(int)
    held: dict[tuple[Place, int], set[int]] = defaultdict(set)
    for row in history.replicas:
        ends[row.partition][row.broker] = max(ends[row.partition][row.broker], row.offset + 1)
        held[(row.partition, row.offset), row.producer_id].add(row.broker)
    for stored in history.log or ():
        logged[stored.partition] = max(logged[stored.partition], stored.offset + 1)
    bounds = {of: max(min(by.values()), logged[of]) for of, by in ends.items()}
    bounds |= {of: max(by.values()) for of, by in history.marks.items()}
    return [
        row
        for row in history.replicas
        if row.kind in ("commit", "abort")
        and (
            (brokers := held[(row.partition, row.offset), row.producer_id]) == {*ends[row.partition]}
            or row.offset < max(history.marks.get(row.partition, {}).get(by, bounds[row.partition]) for by in brokers)
        )
    ]


def fates_of(history: LaneHistory) -> dict[Stored, str | None]:
    """By row of the log the next marker after it of its producer's transactional id; None: there is none."""
    writers = writers_of(history)
    markers: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    for row in markers_of(history):
        assert row.kind is not None
        of_writer = markers[row.partition, writers.get(row.producer_id, row.producer_id)]
        of_writer[row.offset] = max(row.kind, of_writer.get(row.offset, row.kind))
    offsets = {key: sorted(of_writer) for key, of_writer in markers.items()}
    fates: dict[Stored, str | None] = {}
    for stored in history.log or ():
        key = (stored.partition, writers.get(stored.producer_id, stored.producer_id))
        later = offsets.get(key, [])
        at = bisect_right(later, stored.offset)
        fates[stored] = markers[key][later[at]] if at < len(later) else None
    return fates


class Case(NamedTuple):
    """A row of findings/ without its cause: the anomaly, and the record or place that it names."""

    anomaly: str
    partition: int | None
    offset: int | None
    producer_id: int | None
    seq: int | None


class Finding(NamedTuple):
    """A case, its cause, and how many counted units it stands for."""

    case: Case
    cause: str | None = None
    units: int = 1


def named(
    anomaly: str, place: Place | None, identity: Identity | None, cause: str | None = None, units: int = 1
) -> Finding:
    """A finding at this place, of this record."""
    return Finding(Case(anomaly, *(place or (None, None)), *(identity or (None, None))), cause, units)


def case_order(case: Case) -> tuple[object, ...]:
    """A sort key for cases; a missing value comes first."""
    return tuple((value is not None, value) for value in case)
