"""A share group in lock step: which member has acquired which record, and what the share coordinator knows of it.

The partition's leader delivers records one by one, the lowest available offset below the high watermark first. It
counts the deliveries of a record. A member that was given a record has acquired it, until the member acknowledges the
record or the acquisition lock ends. The leader writes to the share coordinator how each delivery ended: by an
acknowledgement (before it is answered), or because the lock or the session ended. It does not write acquisitions. So a
new leader knows which deliveries have ended, and delivers acquired records again, as if for the first time.

A session lasts as long as its connection. When it ends, the records that the member had acquired are released; these
deliveries count for the delivery limit, unless the member left cleanly.

Sources: KIP-932; KAFKA-17541; `SharePartition`, `InFlightState` and `ShareSessionCache` of Kafka 4.2.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.observation import GIVEN, Observation, ShareDeed, ShareObservation
from kafka_chaos.reference_model.lockstep.state import NOBODY
from kafka_chaos.reference_model.lockstep.stepping import SteppedModel
from kafka_chaos.reference_model.tuples import with_item

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = "available", "acquired", "acknowledged", "archived"
ACCEPT, RELEASE, REJECT = "accept", "release", "reject"
STATE_AFTER: Mapping[str, str] = {ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}
"""The state of a record after each kind of acknowledgement."""
NOT_ACQUIRED, NO_SESSION, TAKEN = "INVALID_RECORD_STATE", "SHARE_SESSION_NOT_FOUND", "NONE"
"""Kafka's errors in the answer to an acknowledgement, of which NONE says that the leader took it."""
NEVER_WRITTEN = -1
"""The start offset of a group that the share coordinator has no state of yet."""


class Record(NamedTuple):
    """A record in flight: its state, how often it was delivered, and the member that has acquired it."""

    state: str = AVAILABLE
    deliveries: int = 0
    member: int = NOBODY


class InFlight(NamedTuple):
    """The records from the offset `start` on with a known state; later ones are available and were never delivered."""

    start: int
    records: tuple[Record, ...] = ()

    def record_at(self, offset: int) -> Record:
        """The record at an offset that is not before the start."""
        index = offset - self.start
        return self.records[index] if index < len(self.records) else Record()

    def with_record(self, offset: int, record: Record) -> "InFlight":
        """The records in flight, with this record at an offset."""
        padded = self.records + (Record(),) * (offset - self.start + 1 - len(self.records))
        return self._replace(records=with_item(padded, offset - self.start, record))

    def advanced(self) -> "InFlight":
        """The records in flight, without acknowledged and archived ones at the start."""
        unfinished = (index for index, record in enumerate(self.records) if record.state in (AVAILABLE, ACQUIRED))
        return self.starting_at(self.start + next(unfinished, len(self.records)))

    def starting_at(self, start: int) -> "InFlight":
        """The records in flight from offset `start` on; all of them if they begin later."""
        return self if start <= self.start else InFlight(start, self.records[start - self.start :])


class ShareState(NamedTuple):
    """The state of a share group. `cached`: what the leader of `epoch` has in memory. `persisted`: what the share
    coordinator has. `start_offset`: the group's, as the coordinator reports it. `sessions`: the leader epoch of each
    member's session (`NOBODY` without one). `deeds`: what each member did and learned, in order."""

    epoch: int
    cached: InFlight
    persisted: InFlight
    start_offset: int
    sessions: tuple[int, ...]
    deeds: tuple[tuple[ShareDeed, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSetup:
    """A group that starts at the earliest offset. `locks_end`: acquisition locks may end between two steps."""

    members: int
    delivery_limit: int = 5
    locks_end: bool = False


class Leader(NamedTuple):
    """The partition's leader: its epoch, and the offset below which records may be delivered."""

    epoch: int
    high_watermark: int


def _polls(state: ShareState, setup: ShareSetup, leader: Leader, member: int) -> Iterator[ShareState]:
    offsets = range(state.cached.start, leader.high_watermark)
    offset = next((offset for offset in offsets if state.cached.record_at(offset).state == AVAILABLE), None)
    if offset is not None:
        count = state.cached.record_at(offset).deliveries + 1
        cached = state.cached.with_record(offset, Record(ACQUIRED, count, member))
        sessions = with_item(state.sessions, member - 1, state.epoch)
        yield _with_deed(state._replace(cached=cached, sessions=sessions), member, (GIVEN, offset, count))


def _acknowledges(
    state: ShareState, setup: ShareSetup, leader: Leader, member: int, kind: str, offset: int
) -> Iterator[ShareState]:
    if state.sessions[member - 1] != state.epoch:
        yield _with_deed(state, member, (kind, offset, NO_SESSION))
    elif offset not in _acquired_offsets(state, member):
        yield _with_deed(state, member, (kind, offset, NOT_ACQUIRED))
    else:
        yield _with_deed(_delivery_ended(state, setup, offset, STATE_AFTER[kind]), member, (kind, offset, TAKEN))


def _acknowledges_unheard(
    state: ShareState, setup: ShareSetup, leader: Leader, member: int, kind: str, offset: int
) -> Iterator[ShareState]:
    """An acknowledgement whose answer the member does not get; the leader may have taken it or not."""
    yield state
    for after in _acknowledges(state, setup, leader, member, kind, offset):
        yield after._replace(deeds=state.deeds)


def _session_ends(state: ShareState, setup: ShareSetup, leader: Leader, member: int) -> Iterator[ShareState]:
    """The member's connection is closed: the leader releases the records that the member had acquired."""
    if state.sessions[member - 1] == state.epoch:
        for offset in _acquired_offsets(state, member):
            state = _delivery_ended(state, setup, offset, AVAILABLE)
    yield state._replace(sessions=with_item(state.sessions, member - 1, NOBODY))


ACTIONS: Mapping[str, Callable[..., Iterator[ShareState]]] = {
    "sharer_polls": _polls,
    "sharer_acknowledges": _acknowledges,
    "sharer_acknowledges_unheard": _acknowledges_unheard,
    "sharer_dies": _session_ends,
}
"""The steps of a member ("sharer") of the group, by their names in lock step."""


def _acquired_offsets(state: ShareState, member: int | None = None) -> list[int]:
    """The offsets of the records that a member has acquired, or that any member has."""
    return [
        state.cached.start + index
        for index, record in enumerate(state.cached.records)
        if record.state == ACQUIRED and member in (None, record.member)
    ]


def _delivery_ended(state: ShareState, setup: ShareSetup, offset: int, new_state: str) -> ShareState:
    """The state after a delivery ended and the share coordinator wrote it. At the delivery limit, a record is archived.

    After this write the leader advances its start offset, so the coordinator's may be lower. `new_state`: the record's.
    """
    delivered = state.cached.record_at(offset).deliveries
    if new_state == AVAILABLE and delivered >= setup.delivery_limit:
        new_state = ARCHIVED
    record = Record(new_state, delivered)
    persisted = state.persisted.starting_at(state.cached.start).with_record(offset, record)
    return state._replace(
        cached=state.cached.with_record(offset, record).advanced(), persisted=persisted, start_offset=persisted.start
    )


def _with_deed(state: ShareState, member: int, deed: ShareDeed) -> ShareState:
    return state._replace(deeds=with_item(state.deeds, member - 1, (*state.deeds[member - 1], deed)))


@dataclass
class ShareModel(SteppedModel[ShareState]):
    """A share group that reads the partition of `cluster`, and the states that it may be in now."""

    actions = ACTIONS
    setup: ShareSetup
    cluster: ClusterModel
    states: frozenset[ShareState] = frozenset()

    def __post_init__(self) -> None:
        empty, no_sessions = InFlight(0), (NOBODY,) * self.setup.members
        no_deeds = ((),) * self.setup.members
        self.states = frozenset([ShareState(NOBODY, empty, empty, NEVER_WRITTEN, no_sessions, no_deeds)])

    def after(self, act: Callable[..., Any], state: ShareState, **arguments: Any) -> Iterator[ShareState]:
        """The states right after a member's step, under each leader that the model of the cluster allows."""
        leaders = {
            Leader(cluster.partition.leader_epoch, cluster.replica(cluster.partition.leader).high_watermark)
            for cluster in self.cluster.states
            if cluster.partition.leader != NOBODY
        }
        for leader in leaders:
            yield from act(_at_leader(state, leader), self.setup, leader, **arguments)

    def observe(self, state: ShareState) -> Observation:
        """What a complete observation of a share group in this state shows."""
        return Observation(shares=ShareObservation(start=state.start_offset, did=dict(enumerate(state.deeds, 1))))

    def following(self, state: ShareState) -> Iterator[tuple[ShareState, bool]]:
        """The states after each end of a lock; none is urgent: it may come between two steps, or later."""
        for offset in _acquired_offsets(state) if self.setup.locks_end else ():
            yield _delivery_ended(state, self.setup, offset, AVAILABLE), False


def _at_leader(state: ShareState, leader: Leader) -> ShareState:
    """The state under this leader: a new leader begins with what the share coordinator has."""
    if state.epoch == leader.epoch:
        return state
    return state._replace(epoch=leader.epoch, cached=state.persisted.advanced())
