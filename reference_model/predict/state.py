"""The state of one lane in the prediction's machine: immutable, hashable, equal up to the brokers' names.

Every fact about a broker lives in that broker's own `LaneReplica`, so that sorting the replicas makes two states
that differ only in broker names the same state (`canonical`). Fields hold small integers and tuples of them:
states are hashed by the hundred thousand.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache, lru_cache
from typing import NamedTuple

from kafka_chaos.contract.fault_kinds import FAULT_KINDS
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.protocol import PROTOCOLS
from kafka_chaos.reference_model.protocol.rules import EPOCH_SHIFT, Truncation

# Roles of a replica. "Frozen": the process answers nobody, requests pile up in its socket. "Zombie": the
# controller has given the partition to another broker, this one has not heard of it (it may be frozen still).
DOWN, FOLLOWER, LEADER, ZOMBIE, FROZEN_LEADER = range(5)

# What a deposed leader still believes of its ISR: fewer than min.insync.replicas, enough of them, itself alone.
SHORT, ENOUGH, SOLE = range(3)

# What the producer knows of a record. RETRY: an attempt failed or is in doubt, and another may follow.
NEW, WAITING, RETRY, INFO, OK = range(5)

OUTDATED = 1 << 2
MOST_ATTEMPTS = 8
RECORDS = 2
"""Records the producer sends; `seq` 0 and 1 of one producer, after others that every replica holds."""
NOWHERE = -1
"""The offset of what has none."""


class LaneReplica(NamedTuple):
    """One broker's share of the state.

    `log` holds entries of `entry()`; `pending[record]` is the offset of an append whose answer the producer
    still awaits, or `NOWHERE`; `socket` and `abandoned` are bit sets of records whose request lies unread in
    the socket, still awaited or given up by the producer (`OUTDATED` in the latter: the second record's, from
    before its producer renewed the producer epoch); `leader_epoch` counts only in a leader or zombie.
    """

    role: int
    in_isr: bool
    log: tuple[int, ...]
    pending: tuple[int, ...]
    socket: int
    abandoned: int
    leader_epoch: int
    believed_isr: int


class Record(NamedTuple):
    """What the producer knows of one record; `offset` is where it was acknowledged, or `NOWHERE`."""

    status: int
    attempts: int
    offset: int


class LaneState(NamedTuple):
    """A whole state.

    `reads` is the bit set of `read_bit(record, offset)` that some consumer has read; `faults` those that may
    still strike; `producer_epoch` 1 after an idempotent producer had to start its sequence anew; `known_epoch`
    the highest leader epoch the producer has addressed: a client refuses metadata with an older one (KIP-320);
    `position` the number of steps of the lock-step phase that are done.
    """

    replicas: tuple[LaneReplica, ...]
    leader_epoch: int
    records: tuple[Record, ...]
    reads: int
    faults: tuple[str, ...]
    producer_epoch: int
    known_epoch: int
    position: int


def entry(record: int, leader_epoch: int, producer_epoch: int) -> int:
    """A log entry as one integer; entries of different leader epochs differ."""
    return leader_epoch << EPOCH_SHIFT | producer_epoch << 1 | record


def entry_record(value: int) -> int:
    """The record that a log entry holds."""
    return value & 1


def entry_leader_epoch(value: int) -> int:
    """The leader epoch a log entry was appended in."""
    return value >> EPOCH_SHIFT


def in_leader_epoch(value: int, leader_epoch: int) -> int:
    """A log entry as if it had been appended in this leader epoch."""
    return leader_epoch << EPOCH_SHIFT | value & (1 << EPOCH_SHIFT) - 1


def read_bit(record: int, offset: int) -> int:
    """The bit of `LaneState.reads` for this record read at this offset."""
    return 1 << (offset * RECORDS + record)


NO_PENDING = (NOWHERE,) * RECORDS


def attempts(lane: Lane) -> tuple[int, ...]:
    """How often each record may reach a broker's log or socket.

    One retry of the first record is in the scope; of the second only where an idempotent producer may have
    to renew its producer epoch, that is where an acknowledged record may be gone.
    """
    if lane.acks == "0":
        return (1, 1)
    may_lose = lane.unclean_leader_election or "power-loss" in lane.faults
    return (2, 2) if lane.idempotence and may_lose else (2, 1)


def initial_state(lane: Lane) -> LaneState:
    """All brokers up and in the ISR, one of them leads, nothing sent."""
    follower = LaneReplica(FOLLOWER, True, (), NO_PENDING, 0, 0, 0, SHORT)
    replicas = (*(follower for _ in range(lane.replication_factor - 1)), follower._replace(role=LEADER))
    records = tuple(Record(NEW, count, NOWHERE) for count in attempts(lane))
    return LaneState(replicas, 0, records, 0, tuple(sorted(lane.faults)), 0, 0, 0)


def canonical(state: LaneState, lane: Lane) -> LaneState:
    """The representative of all states that behave alike.

    They may differ in the brokers' names, in how far leader epochs have risen, in when a zombie that nothing can reach
    any more learns of its successor, and in a known epoch that rules out no broker.
    """
    replicas, leader_epoch, records, reads, faults, producer_epoch, known_epoch, position = settled(state, lane)
    replicas, leader_epoch, known_epoch = _canonical(replicas, leader_epoch, known_epoch)
    return LaneState(replicas, leader_epoch, records, reads, faults, producer_epoch, known_epoch, position)


def settled(state: LaneState, lane: Lane) -> LaneState:
    """The state with followers instead of zombies that the producer no longer addresses and that owe nobody an answer.

    Sound with clean elections only: elsewhere such a log may come to lead.
    """
    if lane.unclean_leader_election or ZOMBIE not in [replica[0] for replica in state.replicas]:
        return state
    replicas = _settled(state.replicas, state.known_epoch)
    return state if replicas == state.replicas else with_replicas(state, replicas)


@lru_cache(maxsize=1 << 16)
def _settled(replicas: tuple[LaneReplica, ...], known_epoch: int) -> tuple[LaneReplica, ...]:
    return follow_leader(
        tuple(
            LaneReplica(FOLLOWER, False, replica.log, NO_PENDING, 0, 0, 0, SHORT)
            if replica.role == ZOMBIE
            and not replica.in_isr
            and replica.leader_epoch < known_epoch
            and replica.pending == NO_PENDING
            and not (replica.socket | replica.abandoned)
            else replica
            for replica in replicas
        )
    )


@lru_cache(maxsize=1 << 18)
def _canonical(
    replicas: tuple[LaneReplica, ...], leader_epoch: int, known_epoch: int
) -> tuple[tuple[LaneReplica, ...], int, int]:
    """The replicas in order, the leader epoch and the known epoch, with the epochs in use counted from 0 on.

    Epochs are compared with each other and raised by one, nothing else: an order-preserving renumbering changes no
    step. The first epoch keeps its 0, because until it ends nobody's metadata is out of date. The known epoch is the
    first above those of the zombies that the producer addresses no more.
    """
    used = {0, leader_epoch, *(replica.leader_epoch for replica in replicas)}
    used.update(entry_leader_epoch(value) for replica in replicas for value in replica.log)
    if leader_epoch >= len(used):
        numbers = {epoch: number for number, epoch in enumerate(sorted(used))}
        replicas = tuple(
            with_log(
                replica,
                tuple([in_leader_epoch(value, numbers[entry_leader_epoch(value)]) for value in replica.log]),
            )._replace(leader_epoch=numbers[replica.leader_epoch])
            for replica in replicas
        )
        known_epoch = sum(epoch < known_epoch for epoch in used)
        leader_epoch = len(used) - 1
    fenced = [r.leader_epoch for r in replicas if r.role == ZOMBIE and r.leader_epoch < known_epoch]
    return tuple(sorted(replicas)), leader_epoch, max(fenced, default=-1) + 1


def parted(state: LaneState, lane: Lane) -> tuple[Hashable, int]:
    """A state without its means, and the means as a bit set: the faults left, what consumers have read, and the
    attempts left of each record.

    What was read stays read and changes nothing that happens, and a fault need not strike. A record that may be sent
    again need not be; only where one request is in flight does the next record wait for this one to be given up.
    """
    replicas, leader_epoch, records, reads, faults, *rest = state
    means = reads << len(FAULT_KINDS) * len(lane.faults) | _fault_bits(faults)
    if lane.acks == "0" or lane.max_in_flight == 1:
        return (replicas, leader_epoch, records, *rest), means
    known = []
    for status, attempts, offset in records:
        means = means << MOST_ATTEMPTS | (1 << attempts) - 1
        known.append((RETRY if status == INFO else status, offset))
    return (replicas, leader_epoch, tuple(known), *rest), means


@cache
def _fault_bits(faults: tuple[str, ...]) -> int:
    """Faults as bits: the first, the second, … of each kind."""
    bits = 0
    for place, kind in enumerate(faults):
        bits |= 1 << FAULT_KINDS.index(kind) + len(FAULT_KINDS) * faults[:place].count(kind)
    return bits


def leader_index(replicas: tuple[LaneReplica, ...]) -> int:
    """The broker that leads by ZooKeeper's record and serves, or -1."""
    for index, replica in enumerate(replicas):
        if replica[0] == LEADER:
            return index
    return -1


def high_watermark(replicas: tuple[LaneReplica, ...]) -> int:
    """The offset below which every member of the ISR holds the leader's records.

    It is what the leader's high watermark becomes once the members' fetches have reached it; a leader that
    learns later only acknowledges and shows less in the meantime.
    """
    return min([len(replica[2]) for replica in replicas if replica[1]])


def isr_size(replicas: tuple[LaneReplica, ...]) -> int:
    """The number of replicas in ZooKeeper's ISR."""
    return sum([replica[1] for replica in replicas])


def with_replicas(state: LaneState, replicas: tuple[LaneReplica, ...]) -> LaneState:
    """The state with other replicas (as `_replace`, in a third of its time)."""
    return LaneState(replicas, *state[1:])


def with_replica(state: LaneState, broker: int, replica: LaneReplica) -> LaneState:
    """The state with one replica exchanged."""
    return with_replicas(state, replace_at(state.replicas, broker, replica))


def with_record(state: LaneState, index: int, record: Record) -> LaneState:
    """The state with one record exchanged."""
    return state._replace(records=(*state.records[:index], record, *state.records[index + 1 :]))


def with_log(replica: LaneReplica, log: tuple[int, ...]) -> LaneReplica:
    """The replica with another log."""
    return LaneReplica(replica[0], replica[1], log, *replica[3:])


def replace_at(replicas: tuple[LaneReplica, ...], index: int, replica: LaneReplica) -> tuple[LaneReplica, ...]:
    """The replicas with one of them exchanged."""
    return (*replicas[:index], replica, *replicas[index + 1 :])


PROTOCOL = PROTOCOLS["kip320"]
"""The variant of the replication protocol that lanes are predicted for."""


def truncated(log: tuple[int, ...], leader_log: tuple[int, ...]) -> tuple[int, ...]:
    """What a new follower keeps of its log, by the protocol's rule."""
    return _truncated(PROTOCOL.truncation, log, leader_log)


@cache
def _truncated(rule: Truncation, log: tuple[int, ...], leader_log: tuple[int, ...]) -> tuple[int, ...]:
    """For a rule that goes by the follower's high watermark: it may not have learned of any yet."""
    return log[: rule(log, 0, leader_log)]


def follow_leader(replicas: tuple[LaneReplica, ...]) -> tuple[LaneReplica, ...]:
    """Let every live follower truncate to the serving leader's log, if there is one."""
    leader = leader_index(replicas)
    if leader < 0:
        return replicas
    leader_log = replicas[leader].log
    return tuple(
        [
            with_log(replica, truncated(replica[2], leader_log)) if replica[0] == FOLLOWER else replica
            for replica in replicas
        ]
    )
