"""A second implementation of every anomaly of client histories, log and replicas, in plain Python.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible and without
regard to speed. It shares no code with the Spark checker, which has to agree with it row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeVar

UNDECODABLE = (-1, -1)


class Produced(NamedTuple):
    """A produced record and its outcome: ok, fail or info."""

    producer_id: int
    seq: int
    partition: int | None
    offset: int | None
    outcome: str


class Read(NamedTuple):
    """A record that a consumer read."""

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


class Case(NamedTuple):
    """One counted unit: the anomaly and the record or place that it names."""

    anomaly: str
    partition: int | None
    offset: int | None
    producer_id: int | None
    seq: int | None


@dataclass
class LaneHistory:
    """All rows of one lane. `log` None: there is no final log; `high_watermarks`: per partition, the lowest."""

    produced: list[Produced] = field(default_factory=list)
    consumed: list[Read] = field(default_factory=list)
    log: list[Stored] | None = None
    replicas: list[Replicated] = field(default_factory=list)
    high_watermarks: dict[int, int] = field(default_factory=dict)


Identity = tuple[int, int]
Place = tuple[int, int]
_Row = TypeVar("_Row", Read, Stored)


def check(history: LaneHistory) -> list[Case]:
    """All cases of one lane, sorted; without a log, anomalies that need one are left out."""
    view = _View(history)
    finders = [*ALWAYS, *(NEED_LOG if history.log is not None else ())]
    return sorted((case for finder in finders for case in finder(view)), key=case_order)


def case_order(case: Case) -> tuple[object, ...]:
    """A sort key for cases; a missing value comes first."""
    return tuple((value is not None, value) for value in case)


class _View:
    """The lane's rows, indexed by identity and by place; phantoms are separate."""

    def __init__(self, history: LaneHistory) -> None:
        self.history = history
        self.final_log = history.log is not None
        self.outcome = {(row.producer_id, row.seq): row.outcome for row in history.produced}
        self.acknowledged: dict[Identity, Place] = {}
        self.claimed: dict[Identity, Place] = {}
        for row in history.produced:
            if row.partition is not None and row.offset is not None:
                place = (row.partition, row.offset)
                if row.outcome == "ok":
                    self.acknowledged[row.producer_id, row.seq] = place
                elif row.outcome == "info":
                    self.claimed[row.producer_id, row.seq] = place
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
        for read in history.consumed:
            self.read_end[read.partition] = max(read.offset, self.read_end.get(read.partition, read.offset))

    def genuine(self, rows: Iterable[_Row]) -> list[_Row]:
        """The rows whose record was produced."""
        return [row for row in rows if (row.producer_id, row.seq) in self.outcome]

    def reached(self, partition: int) -> bool:
        """Whether some consumer read the partition to the end of the final log."""
        return partition in self.read_end and self.read_end[partition] >= self.log_end[partition]

    def passed(self, place: Place) -> bool:
        """Whether a record at or past this place was read in its partition."""
        partition, offset = place
        return partition in self.read_end and offset <= self.read_end[partition]


def _places(rows: Iterable[Read] | Iterable[Stored]) -> dict[Identity, set[Place]]:
    places: dict[Identity, set[Place]] = defaultdict(set)
    for row in rows:
        places[row.producer_id, row.seq].add((row.partition, row.offset))
    return dict(places)


def _case(anomaly: str, place: Place | None, identity: Identity | None) -> Case:
    return Case(anomaly, *(place or (None, None)), *(identity or (None, None)))


def _lost_write(view: _View) -> Iterable[Case]:
    for identity, outcome in view.outcome.items():
        if outcome != "ok":
            continue
        place = view.acknowledged.get(identity)
        if view.final_log:
            lost = identity not in view.log
        else:
            lost = place is not None and view.passed(place) and identity not in view.read
        if lost:
            yield _case("lost_write", place, identity)


def _duplicate(view: _View) -> Iterable[Case]:
    for identity, places in view.log.items():
        if len(places) > 1:
            yield _case("duplicate", max(places), identity)


def _false_failure(view: _View) -> Iterable[Case]:
    for identity, outcome in view.outcome.items():
        places = view.log.get(identity) or view.read.get(identity)
        if outcome == "fail" and places:
            yield _case("false_failure", min(places), identity)


def _phantom(view: _View) -> Iterable[Case]:
    held: dict[Place, set[Identity]] = defaultdict(set)
    for row in [*view.history.consumed, *(view.history.log or ())]:
        identity = (row.producer_id, row.seq)
        if identity == UNDECODABLE or identity not in view.outcome:
            held[row.partition, row.offset].add(identity)
    for place, identities in held.items():
        yield _case("phantom", place, max(identities))


def _inconsistent_offset(view: _View) -> Iterable[Case]:
    held: dict[Place, set[Identity]] = defaultdict(set)
    for identities in (view.log, view.read):
        for identity, places in identities.items():
            for place in places:
                held[place].add(identity)
    for identity, place in view.acknowledged.items():
        held[place].add(identity)
    for identity, place in view.claimed.items():
        if identity in view.log or identity in view.read:
            held[place].add(identity)
    for place, found in held.items():
        if len(found) > 1:
            yield _case("inconsistent_offset", place, max(found))


def _offset_mismatch(view: _View) -> Iterable[Case]:
    for identity, place in view.acknowledged.items():
        if identity in view.log and place not in view.log[identity]:
            yield _case("offset_mismatch", place, identity)


def _truncated_read(view: _View) -> Iterable[Case]:
    for identity, places in view.read.items():
        if identity not in view.log:
            yield _case("truncated_read", min(places), identity)


def _unseen(view: _View) -> Iterable[Case]:
    if view.final_log:
        for identity, places in view.log.items():
            due = [place for place in places if view.reached(place[0])]
            if due and identity not in view.read:
                yield _case("unseen", min(due), identity)
    else:
        for identity, place in view.acknowledged.items():
            if not view.passed(place) and identity not in view.read:
                yield _case("unseen", place, identity)


def _reordered(view: _View) -> Iterable[Case]:
    first: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for (producer_id, seq), places in view.log.items():
        for partition, offset in places:
            offsets = first[partition, producer_id]
            offsets[seq] = min(offset, offsets.get(seq, offset))
    for (partition, producer_id), offsets in first.items():
        ordered = sorted((offset, seq) for seq, offset in offsets.items())
        for (_, before), (offset, seq) in pairwise(ordered):
            if seq < before:
                yield _case("reordered", (partition, offset), (producer_id, seq))


def _poll_order(row: Read) -> tuple[int, ...]:
    return row.poll_ns, row.offset, row.producer_id, row.seq


def _deliveries(view: _View) -> dict[tuple[str, int], list[Read]]:
    """Per consumer and partition, the reads of produced records in poll order; at one offset, by identity."""
    deliveries: dict[tuple[str, int], list[Read]] = defaultdict(list)
    for row in sorted(view.genuine(view.history.consumed), key=_poll_order):
        deliveries[row.consumer, row.partition].append(row)
    return deliveries


def _nonmonotonic_poll(view: _View) -> Iterable[Case]:
    for (_, partition), reads in _deliveries(view).items():
        for before, after in pairwise(reads):
            if after.offset <= before.offset:
                yield _case("nonmonotonic_poll", (partition, after.offset), (after.producer_id, after.seq))


def _skipped_poll(view: _View) -> Iterable[Case]:
    held: dict[Place, set[Identity]] = defaultdict(set)
    for identity, places in view.log.items():
        for place in places:
            held[place].add(identity)
    skipped: set[Place] = set()
    for (consumer, partition), reads in _deliveries(view).items():
        delivered = {
            row.offset for row in view.history.consumed if row.consumer == consumer and row.partition == partition
        }
        for before, after in pairwise(reads):
            for offset in range(before.offset + 1, after.offset):
                if (partition, offset) in held and offset not in delivered:
                    skipped.add((partition, offset))
    for place in skipped:
        yield _case("skipped_poll", place, max(held[place]))


def _offset_gap(view: _View) -> Iterable[Case]:
    offsets: dict[int, set[int]] = defaultdict(set)
    for row in view.history.log or ():
        offsets[row.partition].add(row.offset)
    for partition, held in offsets.items():
        for offset in range(min(held), max(held)):
            if offset not in held:
                yield _case("offset_gap", (partition, offset), None)


def _replica_divergence(view: _View) -> Iterable[Case]:
    ends: dict[int, dict[int, int]] = defaultdict(dict)
    contents: dict[Place, set[tuple[int, int, int]]] = defaultdict(set)
    for row in view.history.replicas:
        broker_ends = ends[row.partition]
        broker_ends[row.broker] = max(row.offset + 1, broker_ends.get(row.broker, 0))
        contents[row.partition, row.offset].add((row.leader_epoch, row.producer_id, row.seq))
    for (partition, offset), found in contents.items():
        limit = view.history.high_watermarks.get(partition, min(ends[partition].values()))
        if offset < limit and len(found) > 1:
            _, producer_id, seq = max(found)
            yield _case("replica_divergence", (partition, offset), (producer_id, seq))


Finder = Callable[[_View], Iterable[Case]]
ALWAYS: tuple[Finder, ...] = (
    _lost_write,
    _duplicate,
    _false_failure,
    _phantom,
    _inconsistent_offset,
    _unseen,
    _reordered,
    _nonmonotonic_poll,
    _skipped_poll,
    _replica_divergence,
)
NEED_LOG: tuple[Finder, ...] = (_offset_mismatch, _truncated_read, _offset_gap)
