"""The state of one lane, as a prediction searches it: immutable, hashable, and without names of brokers.

Every fact about a broker lives in that broker's own `LaneReplica`, so that sorting the replicas makes two states that
differ only in broker names the same state (`canonical`). Fields hold small integers and tuples of them: states are
hashed by the hundred thousand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from kafka_chaos.contract.lane.fault_kinds import REPEAT
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.protocol import isr
from kafka_chaos.reference_model.protocol.entries import content_of, entry_of, leader_epoch_of
from kafka_chaos.reference_model.protocol.leaders import may_be_addressed
from kafka_chaos.reference_model.protocol.rules import rules_of
from kafka_chaos.reference_model.protocol.truncation import Truncation
from kafka_chaos.reference_model.tuples import bits, with_item

# Roles of a replica. A frozen leader's process answers nobody, and requests pile up in its socket. A zombie has lost
# the partition to another broker and does not know it yet; its process may still be frozen.
DOWN, FOLLOWER, LEADER, ZOMBIE, FROZEN_LEADER = range(5)

# What makes a replica outside the ISR electable, as bits: it is an eligible leader replica, or the last known leader.
ELIGIBLE, LAST_KNOWN = 1, 2

# The size of the ISR that a deposed leader still believes in. SOLE: the leader alone, whatever min.insync.replicas is.
# Of larger ISRs, SHORT: fewer than min.insync.replicas; ENOUGH: at least as many.
SHORT, ENOUGH, SOLE = range(3)

# What the producer knows about a record. RETRY: an attempt failed or is in doubt, and another may follow.
NEW, WAITING, RETRY, INFO, OK = range(5)

NOWHERE = -1
"""The offset of a record that was not acknowledged."""
RECORD_BITS = 4
"""The width of a record's number in the integers that stand for log entries, requests and reads."""
MOST_RECORDS = 1 << RECORD_BITS
MOST_ATTEMPTS = 8
"""The most attempts of a record: `split_abilities` has a bit for each."""

CAN_STRIKE_AS: Mapping[str, Set[str]] = {
    "kill": {"kill"},
    "pause": {"pause"},
    "power-loss": {"power-loss", "kill"},
    "session-expiry": {"session-expiry"},
    "partition": {"partition", "pause", "session-expiry"},
    "stop": {"stop"},
    REPEAT: {REPEAT},
}
"""The kinds of faults whose effects each kind can have (`faults.py`). A power loss may leave a log whole, like a kill.
A partition may cut the broker off from its clients, like a pause, or not, like a session expiry. In the order of this
mapping, a kind comes after the kinds whose effects it can have."""
COMPARED_KINDS = (*({kind} for kind in CAN_STRIKE_AS), {"pause", "session-expiry"})
"""Sets of kinds by which `split_abilities` compares two lists of faults. The first list can do all that the second can
if, for each set, it has at least as many faults that can strike as one of its kinds. The last set is there because
a partition strikes either as a pause or as a session expiry, and would otherwise count as both."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds of a search besides the lane's own: how many records the producer sends, and how often each may reach
    a broker's log or socket.

    Leader epochs and producer epochs have no bound of their own: faults bound the former, records the latter.
    `kept_isr`: brokers leave the ISR because of faults alone, not because they are slow.
    """

    records: int = 2
    attempts: int = 2
    kept_isr: bool = False

    def __post_init__(self) -> None:
        if not (1 <= self.records <= MOST_RECORDS and 1 <= self.attempts <= MOST_ATTEMPTS):
            raise ValueError(f"{self}: expected 1 to {MOST_RECORDS} records and 1 to {MOST_ATTEMPTS} attempts")

    def attempts_of(self, lane: Lane, *, may_lose: bool | None = None) -> tuple[int, ...]:
        """The number of attempts of each record, in order.

        The last record has one attempt less. That suffices (docs/decisions/0012), unless an acknowledged record may get
        lost: then an idempotent producer may renew its producer epoch. `may_lose`: whether it may (None: unknown).
        """
        if lane.acks == "0":
            return (1,) * self.records
        if may_lose is None:
            may_lose = lane.unclean_leader_election or "power-loss" in lane.faults
        last = self.attempts if lane.idempotence and may_lose else max(self.attempts - 1, 1)
        return (*(self.attempts,) * (self.records - 1), last)


class LaneReplica(NamedTuple):
    """One broker's share of the state.

    `log` holds entries (`protocol/entries.py`) of requests. `pending` has (record, offset) of each append whose answer
    the producer still awaits. `awaited` and `unawaited` have the requests (`produce_request`) that lie unread in the
    broker's socket, by whether the producer still awaits an answer. Both are sorted, since the order of arrival is no
    part of the state. `leader_epoch` counts only in a leader or zombie, `believed_isr` only in a zombie. `standing` has
    the bits `ELIGIBLE` and `LAST_KNOWN`, where leaders are elected from the eligible replicas.
    """

    role: int
    in_isr: bool
    log: tuple[int, ...] = ()
    pending: tuple[tuple[int, int], ...] = ()
    awaited: tuple[int, ...] = ()
    unawaited: tuple[int, ...] = ()
    leader_epoch: int = 0
    believed_isr: int = SHORT
    standing: int = 0

    def with_log(self, log: tuple[int, ...]) -> LaneReplica:
        """The replica with another log (like `_replace`, in a third of the time)."""
        return LaneReplica(self[0], self[1], log, *self[3:])


class Record(NamedTuple):
    """What the producer knows of a record: `attempts` left, and the `offset` in its acknowledgement, or `NOWHERE`."""

    status: int
    attempts: int
    offset: int


class LaneState(NamedTuple):
    """The state of a lane: brokers, producer, consumers and the faults left.

    `reads`: the bit set of all reads by consumers, a `read_bit(record, offset)` each. `faults`: the faults that may
    still strike. `first_records`: by producer epoch, the record with sequence number 0 (of an idempotent producer).
    `addressed_epoch`: the highest leader epoch that the producer has addressed. `lockstep_steps_done`: how many steps
    of the lock-step phase are done. `takes_any_first_batch`: brokers let an unknown producer begin with any sequence
    number, instead of 0 alone (KAFKA-15591, a known defect).
    """

    replicas: tuple[LaneReplica, ...]
    leader_epoch: int
    records: tuple[Record, ...]
    reads: int
    faults: tuple[str, ...]
    first_records: tuple[int, ...] = (0,)
    addressed_epoch: int = 0
    lockstep_steps_done: int = 0
    takes_any_first_batch: bool = False

    @property
    def producer_epoch(self) -> int:
        """The producer's present epoch, counted from 0."""
        return len(self.first_records) - 1

    @property
    def leader(self) -> int:
        """The index of the broker that the controller has elected and that serves clients, or -1."""
        for index, replica in enumerate(self.replicas):
            if replica.role == LEADER:
                return index
        return -1

    @property
    def isr_size(self) -> int:
        """The number of replicas in the controller's ISR."""
        return sum([replica.in_isr for replica in self.replicas])

    @property
    def high_watermark(self) -> int:
        """The offset below which every member of the ISR holds the leader's records.

        The leader's own high watermark rises to this offset once the members' fetches have reached the leader. Until
        then a real leader acknowledges fewer records and shows consumers fewer; nothing else differs.
        """
        return isr.high_watermark(0, [len(replica.log) for replica in self.replicas if replica.in_isr])

    def representative_replicas(self) -> Iterator[tuple[int, LaneReplica]]:
        """For each set of equal replicas, the index of one broker that has such a replica, and that replica.

        Brokers in equal states take equal steps, up to their names, and `canonical` puts equal replicas side by side.
        With five replicas this leaves out three of four steps.
        """
        before = None
        for broker, replica in enumerate(self.replicas):
            if replica != before:
                yield broker, replica
            before = replica

    def with_replicas(self, replicas: tuple[LaneReplica, ...]) -> LaneState:
        """The state with other replicas (like `_replace`, in a third of the time)."""
        return LaneState(replicas, *self[1:])

    def with_replica(self, broker: int, replica: LaneReplica) -> LaneState:
        """The state with one replica replaced."""
        return self.with_replicas(with_item(self.replicas, broker, replica))

    def with_record(self, index: int, record: Record) -> LaneState:
        """The state with one record replaced."""
        return LaneState(self[0], self[1], with_item(self.records, index, record), *self[3:])


def produce_request(record: int, producer_epoch: int) -> int:
    """The integer that stands for a produce request."""
    return producer_epoch << RECORD_BITS | record


def record_of(value: int) -> int:
    """The record's number in the integer of a log entry or a request, or in the position of a `read_bit`."""
    return value & MOST_RECORDS - 1


def producer_epoch_of(value: int) -> int:
    """The producer epoch in which a log entry or a request was sent, by its integer."""
    return content_of(value) >> RECORD_BITS


def read_bit(record: int, offset: int) -> int:
    """The bit of `LaneState.reads` for this record read at this offset."""
    return 1 << (offset << RECORD_BITS | record)


@cache
def reads_of(log: tuple[int, ...]) -> int:
    """The bits (`read_bit`) of a consumer that has read a whole log."""
    reads = 0
    for offset, value in enumerate(log):
        reads |= read_bit(record_of(value), offset)
    return reads


@cache
def pairs(reads: int) -> list[tuple[int, int]]:
    """The (record, offset) pairs that the bits of `LaneState.reads` stand for."""
    return [(record_of(position), position >> RECORD_BITS) for position in bits(reads)]


DEFAULT_SCOPE = Scope()


def initial_state(lane: Lane, scope: Scope = DEFAULT_SCOPE) -> LaneState:
    """The state in which all brokers are up and in the ISR, one of them leads, and nothing was sent.

    Faults that can do more come last, so that the search first reaches the states that have them left. One `REPEAT`
    stands for any number: a repeated request comes right behind its original, so that further ones show nothing else.
    """
    followers = (LaneReplica(FOLLOWER, True),) * (lane.replication_factor - 1)
    records = tuple(Record(NEW, count, NOWHERE) for count in scope.attempts_of(lane))
    repeats = [REPEAT] if REPEAT in lane.faults else []
    faults = sorted([*(kind for kind in lane.faults if kind != REPEAT), *repeats], key=list(CAN_STRIKE_AS).index)
    return LaneState((*followers, LaneReplica(LEADER, True)), 0, records, 0, tuple(faults))


def canonical(state: LaneState, lane: Lane) -> LaneState:
    """The representative of all states that behave like this one.

    These states may differ in the brokers' names, in how far leader epochs have risen, in whether a zombie that nothing
    reaches knows its successor, and in the addressed epoch, as long as it excludes the same zombies.
    """
    state = idle_zombies_as_followers(state, lane)
    replicas, leader_epoch, addressed_epoch = _canonical(state.replicas, state.leader_epoch, state.addressed_epoch)
    return LaneState(replicas, leader_epoch, *state[2:6], addressed_epoch, *state[7:])


def idle_zombies_as_followers(state: LaneState, lane: Lane) -> LaneState:
    """The state in which zombies count as followers if no producer addresses them and they owe nobody an answer.

    That is sound only if the zombie can't be elected with its present log. So it must be neither in sync nor eligible.
    In addition, elections must be clean, or a leader must serve with no fault left to strike it. A lane that lists no
    faults may go through a lock-step phase, whose steps strike: there, elections must be clean.
    """
    if lane.unclean_leader_election and (not lane.faults or state.faults or state.leader < 0):
        return state
    if ZOMBIE not in [replica.role for replica in state.replicas]:
        return state
    replicas = _idle_zombies_as_followers(state.replicas, state.addressed_epoch, truncation_of(lane))
    return state if replicas == state.replicas else state.with_replicas(replicas)


@lru_cache(maxsize=1 << 16)
def _idle_zombies_as_followers(
    replicas: tuple[LaneReplica, ...], addressed_epoch: int, truncation: Truncation
) -> tuple[LaneReplica, ...]:
    return follow_leader(
        tuple(
            LaneReplica(FOLLOWER, False, replica.log)
            if replica.role == ZOMBIE
            and not (replica.in_isr or replica.standing or may_be_addressed(replica.leader_epoch, addressed_epoch))
            and not (replica.pending or replica.awaited or replica.unawaited)
            else replica
            for replica in replicas
        ),
        truncation,
    )


@lru_cache(maxsize=1 << 18)
def _canonical(
    replicas: tuple[LaneReplica, ...], leader_epoch: int, addressed_epoch: int
) -> tuple[tuple[LaneReplica, ...], int, int]:
    """The replicas in order, the leader epoch and the addressed epoch, with the epochs in use counted from 0 on.

    Steps do no more with epochs than compare them and raise them by one, so an order-preserving renumbering changes no
    step. The first epoch keeps its 0, because until it ends nobody's metadata is out of date. The addressed epoch
    becomes the lowest epoch above all zombies that the producer no longer addresses.
    """
    used = {0, leader_epoch, *(replica.leader_epoch for replica in replicas)}
    used.update(leader_epoch_of(value) for replica in replicas for value in replica.log)
    if leader_epoch >= len(used):
        numbers = {epoch: number for number, epoch in enumerate(sorted(used))}
        replicas = tuple(
            replica.with_log(
                tuple([entry_of(value, numbers[leader_epoch_of(value)]) for value in replica.log])
            )._replace(leader_epoch=numbers[replica.leader_epoch])
            for replica in replicas
        )
        addressed_epoch = sum(epoch < addressed_epoch for epoch in used)
        leader_epoch = len(used) - 1
    zombies = [replica.leader_epoch for replica in replicas if replica.role == ZOMBIE]
    no_longer_addressed = [epoch for epoch in zombies if not may_be_addressed(epoch, addressed_epoch)]
    return tuple(sorted(replicas)), leader_epoch, max(no_longer_addressed, default=-1) + 1


def split_abilities(state: LaneState, lane: Lane, most_attempts: int = MOST_ATTEMPTS) -> tuple[Hashable, int]:
    """Split a state for `search.fewest_faults_first` into (rest, abilities): an ability only adds what can happen.

    The abilities, as one bit set, are the faults left, the attempts left of each record (at most `most_attempts`), and
    the reads of consumers. Of two states with the same rest, the one with more abilities can do and show all that the
    other can: what was read stays read, and neither a fault nor another attempt has to happen. With one request in
    flight attempts are no abilities, because the next record waits until this one is given up.
    """
    replicas, leader_epoch, records, reads, faults, *rest = state
    abilities = reads << len(lane.faults) * len(COMPARED_KINDS) | _fault_bits(faults, len(lane.faults))
    if lane.acks == "0" or lane.max_in_flight == 1:
        return (replicas, leader_epoch, records, *rest), abilities
    without_attempts = []
    for status, attempts, offset in records:
        abilities = abilities << most_attempts | (1 << attempts) - 1
        without_attempts.append((RETRY if status == INFO else status, offset))
    return (replicas, leader_epoch, tuple(without_attempts), *rest), abilities


@cache
def _fault_bits(faults: tuple[str, ...], width: int) -> int:
    """For each set of `COMPARED_KINDS`, in `width` bits, the number of faults that can strike as a kind of the set.

    The numbers are unary: a number is at least as large as another if its bits include the other's.
    """
    counts = [sum([not CAN_STRIKE_AS[kind].isdisjoint(kinds) for kind in faults]) for kinds in COMPARED_KINDS]
    return sum((1 << count) - 1 << width * index for index, count in enumerate(counts))


def truncation_of(lane: Lane) -> Truncation:
    """How a new follower truncates its log in a lane's cluster."""
    return rules_of(lane).protocol.truncation


@cache
def truncated(log: tuple[int, ...], leader_log: tuple[int, ...], rule: Truncation) -> tuple[int, ...]:
    """The part of its log that a new follower keeps by a truncation rule.

    The follower's high watermark is taken to be 0, since it may not have learned of any yet.
    """
    return log[: rule(log, 0, leader_log)]


def follow_leader(replicas: tuple[LaneReplica, ...], rule: Truncation) -> tuple[LaneReplica, ...]:
    """The replicas after every live follower has truncated its log by a rule, if a leader serves."""
    leader_logs = [replica.log for replica in replicas if replica.role == LEADER]
    if not leader_logs:
        return replicas
    return tuple(
        [
            replica.with_log(truncated(replica.log, leader_logs[0], rule)) if replica.role == FOLLOWER else replica
            for replica in replicas
        ]
    )
