"""The state of one lane in the prediction's machine: immutable, hashable, equal up to the brokers' names.

Every fact about a broker lives in that broker's own `LaneReplica`, so that sorting the replicas makes two states
that differ only in broker names the same state (`canonical`). Fields hold small integers and tuples of them:
states are hashed by the hundred thousand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.protocol import isr
from kafka_chaos.reference_model.protocol.entries import appended, content_of, leader_epoch_of
from kafka_chaos.reference_model.protocol.leaders import may_be_addressed
from kafka_chaos.reference_model.protocol.rules import rules_of
from kafka_chaos.reference_model.protocol.truncation import Truncation
from kafka_chaos.reference_model.tuples import bits, exchanged

# Roles of a replica. "Frozen": the process answers nobody, requests pile up in its socket. "Zombie": the
# controller has given the partition to another broker, this one has not heard of it (it may be frozen still).
DOWN, FOLLOWER, LEADER, ZOMBIE, FROZEN_LEADER = range(5)

# What makes a replica outside the ISR electable, as bits: it is an eligible leader replica, or the last known leader.
ELIGIBLE, LAST_KNOWN = 1, 2

# What a deposed leader still believes of its ISR: fewer than min.insync.replicas, enough of them, itself alone.
SHORT, ENOUGH, SOLE = range(3)

# What the producer knows of a record. RETRY: an attempt failed or is in doubt, and another may follow.
NEW, WAITING, RETRY, INFO, OK = range(5)

NOWHERE = -1
"""The offset of what has none."""
RECORD_BITS = 4
MOST_RECORDS = 1 << RECORD_BITS
MOST_ATTEMPTS = 8

CAN_STRIKE_AS: Mapping[str, Set[str]] = {
    "kill": {"kill"},
    "pause": {"pause"},
    "power-loss": {"power-loss", "kill"},
    "session-expiry": {"session-expiry"},
    "partition": {"partition", "pause", "session-expiry"},
    "stop": {"stop"},
}
"""The kinds of faults, each after those of which it can do everything (`faults.py`): a power loss may take nothing of
the log, and a broker that is cut off may be within reach of its clients or not."""
WAYS = (*({kind} for kind in CAN_STRIKE_AS), {"pause", "session-expiry"})
"""Faults of which as many can strike in each of these ways as of others can do all that those can. The last one is for
two faults: one partition is either of the two, but not both."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How far a search goes beside what the lane says: the records that the producer sends, and how often one record
    may reach a broker's log or socket.

    Leader epochs and producer epochs have no bound of their own: faults bound the ones, records the others.
    `kept_isr`: brokers leave the ISR because of faults alone, not because they are slow.
    """

    records: int = 2
    attempts: int = 2
    kept_isr: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.records <= MOST_RECORDS and 1 <= self.attempts <= MOST_ATTEMPTS):
            raise ValueError(f"{self}: at most {MOST_RECORDS} records and {MOST_ATTEMPTS} attempts")

    def attempts_of(self, lane: Lane) -> tuple[int, ...]:
        """The attempts of each record.

        The last one has fewer, unless an idempotent producer may have to renew its producer epoch, that is, where an
        acknowledged record may be gone.
        """
        if lane.acks == "0":
            return (1,) * self.records
        may_lose = lane.unclean_leader_election or "power-loss" in lane.faults
        last = self.attempts if lane.idempotence and may_lose else max(self.attempts - 1, 1)
        return (*(self.attempts,) * (self.records - 1), last)


class LaneReplica(NamedTuple):
    """One broker's share of the state.

    `log` holds entries (`protocol/entries.py`) of requests. `pending` has (record, offset) of each append whose answer
    the producer still awaits; `socket` and `abandoned` the requests that lie unread in the socket, still awaited or
    given up by the producer: numbers of `request()` in order, since the state has no order of arrival. `leader_epoch`
    counts only in a leader or zombie. `standing` has the bits `ELIGIBLE` and `LAST_KNOWN`, where leaders are elected
    from the eligible replicas.
    """

    role: int
    in_isr: bool
    log: tuple[int, ...] = ()
    pending: tuple[tuple[int, int], ...] = ()
    socket: tuple[int, ...] = ()
    abandoned: tuple[int, ...] = ()
    leader_epoch: int = 0
    believed_isr: int = SHORT
    standing: int = 0


class Record(NamedTuple):
    """The producer's knowledge of one record; `offset` is where it was acknowledged, or `NOWHERE`."""

    status: int
    attempts: int
    offset: int


class LaneState(NamedTuple):
    """A whole state.

    `reads` is the bit set of `read_bit(record, offset)` that some consumer has read; `faults` those that may
    still strike; `first_records` the first record of each of an idempotent producer's epochs, in which it has sequence
    number 0; `known_epoch` the highest leader epoch that the producer has addressed; `position` the number of steps of
    the lock-step phase that are done. `forgetful` brokers do not know that an unknown producer has to begin with
    sequence number 0 (`protocol/known_defects.py`).
    """

    replicas: tuple[LaneReplica, ...]
    leader_epoch: int
    records: tuple[Record, ...]
    reads: int
    faults: tuple[str, ...]
    first_records: tuple[int, ...] = (0,)
    known_epoch: int = 0
    position: int = 0
    forgetful: bool = False

    @property
    def producer_epoch(self) -> int:
        """The producer epoch that the producer sends in."""
        return len(self.first_records) - 1


def request(record: int, producer_epoch: int) -> int:
    """A produce request as one integer."""
    return producer_epoch << RECORD_BITS | record


def record_of(value: int) -> int:
    """The record that a log entry holds, or a request asks to append."""
    return value & MOST_RECORDS - 1


def producer_epoch_of(value: int) -> int:
    """The producer epoch that a log entry or a request was sent in."""
    return content_of(value) >> RECORD_BITS


def read_bit(record: int, offset: int) -> int:
    """The bit of `LaneState.reads` for this record read at this offset."""
    return 1 << (offset << RECORD_BITS | record)


@cache
def reads_of(log: tuple[int, ...]) -> int:
    """The set of `read_bit` of a consumer that has read a whole log."""
    reads = 0
    for offset, value in enumerate(log):
        reads |= read_bit(record_of(value), offset)
    return reads


@cache
def pairs(reads: int) -> list[tuple[int, int]]:
    """The (record, offset) pairs of a set of `read_bit`."""
    return [(record_of(position), position >> RECORD_BITS) for position in bits(reads)]


USUAL = Scope()


def initial_state(lane: Lane, scope: Scope = USUAL) -> LaneState:
    """All brokers up and in the ISR, one of them leads, nothing sent.

    A fault that can do what others do comes after those: the search meets the states first that have it left.
    """
    followers = (LaneReplica(FOLLOWER, True),) * (lane.replication_factor - 1)
    records = tuple(Record(NEW, count, NOWHERE) for count in scope.attempts_of(lane))
    faults = sorted(lane.faults, key=list(CAN_STRIKE_AS).index)
    return LaneState((*followers, LaneReplica(LEADER, True)), 0, records, 0, tuple(faults))


def canonical(state: LaneState, lane: Lane) -> LaneState:
    """The representative of all states that behave alike.

    They may differ in the brokers' names, in how far leader epochs have risen, in when a zombie that nothing can reach
    any more learns of its successor, and in a known epoch that rules out no broker.
    """
    state = settled(state, lane)
    replicas, leader_epoch, known_epoch = _canonical(state[0], state[1], state[6])
    return LaneState(replicas, leader_epoch, *state[2:6], known_epoch, *state[7:])


def settled(state: LaneState, lane: Lane) -> LaneState:
    """The state with followers instead of zombies that the producer no longer addresses and that owe nobody an answer.

    Sound only where such a log can't come to lead: of replicas that are neither in sync nor eligible, with clean
    elections, or once a leader serves that no fault is left to strike.
    """
    if lane.unclean_leader_election and (not lane.faults or state.faults or leader_index(state.replicas) < 0):
        return state
    if ZOMBIE not in [replica[0] for replica in state.replicas]:
        return state
    replicas = _settled(state.replicas, state.known_epoch, truncation_of(lane))
    return state if replicas == state.replicas else with_replicas(state, replicas)


@lru_cache(maxsize=1 << 16)
def _settled(replicas: tuple[LaneReplica, ...], known_epoch: int, truncation: Truncation) -> tuple[LaneReplica, ...]:
    return follow_leader(
        tuple(
            LaneReplica(FOLLOWER, False, replica.log)
            if replica.role == ZOMBIE
            and not (replica.in_isr or replica.standing or may_be_addressed(replica.leader_epoch, known_epoch))
            and not (replica.pending or replica.socket or replica.abandoned)
            else replica
            for replica in replicas
        ),
        truncation,
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
    used.update(leader_epoch_of(value) for replica in replicas for value in replica.log)
    if leader_epoch >= len(used):
        numbers = {epoch: number for number, epoch in enumerate(sorted(used))}
        replicas = tuple(
            with_log(
                replica, tuple([appended(value, numbers[leader_epoch_of(value)]) for value in replica.log])
            )._replace(leader_epoch=numbers[replica.leader_epoch])
            for replica in replicas
        )
        known_epoch = sum(epoch < known_epoch for epoch in used)
        leader_epoch = len(used) - 1
    fenced = [
        r.leader_epoch for r in replicas if r.role == ZOMBIE and not may_be_addressed(r.leader_epoch, known_epoch)
    ]
    return tuple(sorted(replicas)), leader_epoch, max(fenced, default=-1) + 1


def parted(state: LaneState, lane: Lane, most_attempts: int = MOST_ATTEMPTS) -> tuple[Hashable, int]:
    """A state without its means, and the means as a bit set: the faults left, what consumers have read, and the
    attempts left of each record, of which there are at most so many.

    What was read stays read and changes nothing that happens, and a fault need not strike. A record that may be sent
    again need not be; only where one request is in flight does the next record wait for this one to be given up.
    """
    replicas, leader_epoch, records, reads, faults, *rest = state
    means = reads << len(lane.faults) * len(WAYS) | _fault_bits(faults, len(lane.faults))
    if lane.acks == "0" or lane.max_in_flight == 1:
        return (replicas, leader_epoch, records, *rest), means
    known = []
    for status, attempts, offset in records:
        means = means << most_attempts | (1 << attempts) - 1
        known.append((RETRY if status == INFO else status, offset))
    return (replicas, leader_epoch, tuple(known), *rest), means


@cache
def _fault_bits(faults: tuple[str, ...], most: int) -> int:
    """At most so many faults as bits: the first, the second, … that can strike in each way."""
    counts = [sum([not CAN_STRIKE_AS[kind].isdisjoint(ways) for kind in faults]) for ways in WAYS]
    return sum((1 << count) - 1 << most * place for place, count in enumerate(counts))


def different(replicas: tuple[LaneReplica, ...]) -> Iterator[tuple[int, LaneReplica]]:
    """Each broker with its replica, but for brokers whose replica equals the one before.

    Brokers in equal states take equal steps, up to their names, and `canonical` puts equal replicas side by side. With
    five replicas this leaves out three of four steps.
    """
    before = None
    for broker, replica in enumerate(replicas):
        if replica != before:
            yield broker, replica
        before = replica


def leader_index(replicas: tuple[LaneReplica, ...]) -> int:
    """The broker that leads by the controller's record and serves, or -1."""
    for index, replica in enumerate(replicas):
        if replica[0] == LEADER:
            return index
    return -1


def high_watermark(replicas: tuple[LaneReplica, ...]) -> int:
    """The offset below which every member of the ISR holds the leader's records.

    It is what the leader's high watermark becomes once the members' fetches have reached it; a leader that
    learns later only acknowledges and shows less in the meantime.
    """
    return isr.high_watermark(0, [len(replica[2]) for replica in replicas if replica[1]])


def isr_size(replicas: tuple[LaneReplica, ...]) -> int:
    """The number of replicas in the controller's ISR."""
    return sum([replica[1] for replica in replicas])


def with_replicas(state: LaneState, replicas: tuple[LaneReplica, ...]) -> LaneState:
    """The state with other replicas (as `_replace`, in a third of its time)."""
    return LaneState(replicas, *state[1:])


def with_replica(state: LaneState, broker: int, replica: LaneReplica) -> LaneState:
    """The state with one replica exchanged."""
    return with_replicas(state, exchanged(state.replicas, broker, replica))


def with_record(state: LaneState, index: int, record: Record) -> LaneState:
    """The state with one record exchanged."""
    return LaneState(state[0], state[1], exchanged(state.records, index, record), *state[3:])


def with_log(replica: LaneReplica, log: tuple[int, ...]) -> LaneReplica:
    """The replica with another log."""
    return LaneReplica(replica[0], replica[1], log, *replica[3:])


def truncation_of(lane: Lane) -> Truncation:
    """How a new follower truncates its log in a lane's cluster."""
    return rules_of(lane).protocol.truncation


@cache
def truncated(log: tuple[int, ...], leader_log: tuple[int, ...], rule: Truncation) -> tuple[int, ...]:
    """The part of its log that a new follower keeps by a rule; one that goes by its high watermark gets 0, since the
    follower may not have learned of any yet."""
    return log[: rule(log, 0, leader_log)]


def follow_leader(replicas: tuple[LaneReplica, ...], rule: Truncation) -> tuple[LaneReplica, ...]:
    """Let every live follower truncate to the serving leader's log by a rule, if there is a leader."""
    leader = leader_index(replicas)
    if leader < 0:
        return replicas
    leader_log = replicas[leader].log
    return tuple(
        [
            with_log(replica, truncated(replica[2], leader_log, rule)) if replica[0] == FOLLOWER else replica
            for replica in replicas
        ]
    )
