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


class View:
    """The lane's rows, indexed by identity and by place; phantoms set apart."""

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
