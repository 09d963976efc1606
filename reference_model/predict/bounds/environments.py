"""The environments of the outer bound and what can happen in each of them, worked out once.

An environment is everything but the producer's records: replicas, leader epoch, known epoch and the faults left. All
selections of a lane's faults share one `Environments`: what happens after some faults have occurred is what happens
where there were fewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.interning import Numbers
from kafka_chaos.reference_model.predict.anomalies import diverged
from kafka_chaos.reference_model.predict.bounds.abstraction_steps import (
    AWAITED,
    UNREAD,
    acknowledge,
    append_anything,
    environment_steps,
    settle,
)
from kafka_chaos.reference_model.predict.state import (
    FROZEN_LEADER,
    LEADER,
    NEW,
    NO_PENDING,
    NOWHERE,
    OK,
    OUTDATED,
    RECORDS,
    ZOMBIE,
    LaneReplica,
    LaneState,
    Record,
    entry_record,
    leader_index,
)
from kafka_chaos.reference_model.protocol.rules import EPOCH_SHIFT

_IN_EPOCH = (1 << EPOCH_SHIFT) - 1
LEADING = (LEADER, ZOMBIE, FROZEN_LEADER)
"""The roles in which a replica's leader epoch counts."""

FREEZING = ("pause", "partition")
"""The fault kinds that leave requests unread in a socket."""

Environment = tuple[tuple[LaneReplica, ...], int, int, tuple[str, ...]]
"""Replicas (`_seen`: of requests no more than `UNREAD` and `AWAITED`), leader epoch, known epoch, faults left."""
Means = tuple[int, ...]
"""What lets more happen the larger each of its numbers is; to be compared number by number."""

NOTHING_SENT = (Record(NEW, 0, NOWHERE),) * RECORDS


class Move(NamedTuple):
    """What comes of a step: the environment, what consumers read by it, and whether any socket may hold requests."""

    environment: int
    reads: int
    may_hold_requests: bool


class Prospects(NamedTuple):
    """What an environment comes to, whatever the producer does.

    `stay` leads to the environment itself, `moves` are the steps of brokers, controller and faults, `settled` the idle
    ones; `answers` are the (record, offset) that may be acknowledged; `ending` is the final log's records and whether
    a replica diverges from it, None if no run can end here.
    """

    stay: Move
    moves: list[Move]
    settled: list[Move]
    answers: list[tuple[int, int]]
    ending: tuple[tuple[int, ...], bool] | None


class Append(NamedTuple):
    """What comes of an attempt for a record: the move, the producer epoch, and whether the attempt is over."""

    move: Move
    producer_epoch: int
    is_spent: bool


class Environments:
    """The environments of a lane with all its faults, by number, and what may happen in each.

    Of leader epochs only the order counts: `renumbered`.
    """

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self._freezing = _freezing(lane.faults)
        self._numbers = Numbers[Environment]()
        self._moves_to: dict[Environment, Move] = {}
        self._images: dict[Environment, tuple[Move, tuple[int, ...]]] = {}
        self._prospects: dict[int, Prospects] = {}
        self._appends: dict[tuple[int, tuple[int, ...], int], list[Append]] = {}

    def image(self, state: LaneState) -> tuple[Move, tuple[int, ...]]:
        """The environment of a lane's state, and how many requests for each record lie unread in sockets."""
        key = state.replicas, state.leader_epoch, state.known_epoch, state.faults
        found = self._images.get(key)
        if found is None:
            queued = tuple([_in_sockets(state.replicas, index) for index in range(RECORDS)])
            found = self._images[key] = self._move_to(state._replace(reads=0)), queued
        return found

    def prospects(self, environment: int) -> Prospects:
        """What may happen in an environment, but for appends."""
        found = self._prospects.get(environment)
        if found is None:
            state = self.unpack(environment)
            found = self._prospects[environment] = Prospects(
                self._move_to(state),
                self._moves(environment_steps(state, self.lane)),
                self._moves(settle(state, self.lane)),
                _answers(state, self.lane),
                _ending(state),
            )
        return found

    def appends(self, environment: int, statuses: tuple[int, ...], producer_epoch: int) -> list[Append]:
        """What may come of an attempt for the last of some records: its appends, or a producer epoch that is renewed.

        `statuses` are what the producer knows of this record and of those before it.
        """
        key = environment, statuses, producer_epoch
        found = self._appends.get(key)
        if found is None:
            last = len(statuses) - 1
            records = tuple([Record(status, int(index == last), NOWHERE) for index, status in enumerate(statuses)])
            appends = (
                Append(self._move_to(after), after.producer_epoch, after.records[last].attempts == 0)
                for after in append_anything(self.unpack(environment, records, producer_epoch), self.lane)
            )
            found = self._appends[key] = list(dict.fromkeys(appends))
        return found

    def unpack(
        self, environment: int, records: tuple[Record, ...] = NOTHING_SENT, producer_epoch: int = 0, reads: int = 0
    ) -> LaneState:
        """The environment with such a load as a state of the lane."""
        replicas, leader_epoch, known_epoch, faults = self._numbers.values[environment]
        return LaneState(replicas, leader_epoch, records, reads, faults, producer_epoch, known_epoch, 0)

    def parted(self, environment: int) -> tuple[Environment, Means]:
        """The environment as if no socket held requests and the producer knew of no leader epoch; and its means.

        Brokers that may hold requests have led in different leader epochs, so each keeps its place among the others.
        """
        replicas, leader_epoch, known_epoch, faults = self._numbers.values[environment]
        parts = sorted([(r._replace(socket=0, abandoned=0), r.socket, r.abandoned) for r in replicas])
        rest = tuple([replica for replica, _, _ in parts]), leader_epoch, 0, faults
        return rest, (-known_epoch, *[requests for _, *both in parts for requests in both])

    def _moves(self, states: Iterable[LaneState]) -> list[Move]:
        return list(dict.fromkeys(map(self._move_to, states)))

    def _move_to(self, after: LaneState) -> Move:
        key = after.replicas, after.leader_epoch, after.known_epoch, after.faults
        found = self._moves_to.get(key)
        if found is None:
            replicas = tuple(sorted([_seen(replica, self.lane) for replica in after.replicas]))
            environment = *renumbered(replicas, after.leader_epoch, after.known_epoch), after.faults
            frozen = _freezing(after.faults) < self._freezing
            may_hold_requests = frozen and any(replica.abandoned for replica in replicas)
            found = self._moves_to[key] = Move(self._numbers.of(environment), 0, may_hold_requests)
        return found if after.reads == 0 else found._replace(reads=after.reads)


def _answers(state: LaneState, lane: Lane) -> list[tuple[int, int]]:
    known = [after.records for after in acknowledge(state, lane)]
    return [(index, record.offset) for records in known for index, record in enumerate(records) if record.status == OK]


def _ending(state: LaneState) -> tuple[tuple[int, ...], bool] | None:
    leader = leader_index(state.replicas)
    if leader < 0:
        return None
    log = state.replicas[leader].log
    return tuple([entry_record(value) for value in log]), diverged(state, log)


def renumbered(
    replicas: tuple[LaneReplica, ...], leader_epoch: int, known_epoch: int
) -> tuple[tuple[LaneReplica, ...], int, int]:
    """The replicas, the leader epoch and the known epoch with the epochs that are in use counted from 0 on.

    Epochs are compared with each other and raised by one, nothing else: an order-preserving renumbering changes
    no step. One that no log and no leader knows of is as good as none; the next is larger in either case. The known
    epoch is the first above those of the zombies that the producer addresses no more.
    """
    used = {value >> EPOCH_SHIFT for replica in replicas for value in replica.log}
    used.update(replica.leader_epoch for replica in replicas if replica.role in LEADING)
    if leader_epoch >= len(used) > 0:
        numbers = {epoch: number for number, epoch in enumerate(sorted(used))}
        exchanged = [
            replica._replace(
                log=tuple([numbers[value >> EPOCH_SHIFT] << EPOCH_SHIFT | value & _IN_EPOCH for value in replica.log]),
                leader_epoch=numbers[replica.leader_epoch] if replica.role in LEADING else 0,
            )
            for replica in replicas
        ]
        known_epoch = sum(epoch < known_epoch for epoch in used)
        replicas, leader_epoch = tuple(sorted(exchanged)), len(used) - 1
    fenced = [r.leader_epoch for r in replicas if r.role == ZOMBIE and r.leader_epoch < known_epoch]
    return replicas, leader_epoch if used else 0, max(fenced, default=-1) + 1


def _seen(replica: LaneReplica, lane: Lane) -> LaneReplica:
    """The replica as the bound sees it, with `UNREAD` and `AWAITED`.

    Anything may lie in the socket of a broker that is frozen, and, where nobody checks sequence numbers, of any broker
    that leads: there it would make no difference worth the states.
    """
    role, in_isr, log, _, socket, abandoned, leader_epoch, believed_isr = replica
    if role == FROZEN_LEADER or (role in LEADING and not lane.idempotence):
        socket, abandoned = AWAITED, UNREAD
    else:
        socket, abandoned = socket & AWAITED, UNREAD if socket | abandoned else 0
    return LaneReplica(role, in_isr, log, NO_PENDING, socket, abandoned, leader_epoch, believed_isr)


def _freezing(faults: tuple[str, ...]) -> int:
    return sum(kind in FREEZING for kind in faults)


def _in_sockets(replicas: tuple[LaneReplica, ...], index: int) -> int:
    """The number of requests for a record that lie unread in sockets."""
    bits = 1 << index | (OUTDATED if index == 1 else 0)
    return sum((r.socket >> index & 1) + (r.abandoned & bits).bit_count() for r in replicas)
