"""The state of transactions: immutable, hashable, made of small integers and tuples of them.

Incarnations of a producer share a transactional id, and with it a producer id. The number `id` stands for both.
Transactions are numbered in the order in which they begin, and record `i` of each goes to partition `i` modulo the
number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.transactions.rules import Kind, Rules
from kafka_chaos.reference_model.tuples import with_item

# The status of a transactional id in __transaction_state (Dead and PrepareEpochFence are never written).
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
STATUS_NAMES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")

# The kind of a log entry.
DATA, COMMIT, ABORT = range(3)

# The phase of an incarnation of a producer. RENEWING: it asks for a new epoch after an abort (KIP-360). OVER: it met an
# error after which it can only be closed.
STARTING, READY, WRITING, COMMITTING, ABORTING, RENEWING, OVER = range(7)

# What a producer knows of its last record. IN_DOUBT: it may or may not be in the log.
ACKNOWLEDGED, IN_DOUBT, REFUSED = range(3)

# The outcome of a transaction: none yet; a commit was asked for; a commit was acknowledged; aborted, by whomever.
OPEN, ASKED, COMMITTED, ABORTED = range(4)

NONE = -1  # Stands for no epoch, producer, transaction, record or partition.

CYCLE = frozenset({TransactionAnomaly.DEPENDENCY_CYCLE})
TORN = frozenset({TransactionAnomaly.TORN_TRANSACTION})


@dataclass(frozen=True, slots=True)
class Setup:
    """The rules and the scope of one search, or a whole question of a prediction, which several `searches` answer.

    `ids`: the transactional id of each incarnation. There are `transactions` of `size` records each, over `partitions`.
    `late_requests`: how many may occur. `failovers`: how often the coordinator may be replaced. `losses`:
    how often logs may lose a suffix: the partitions' (`data_may_be_lost`) and the coordinator's (`states_may_be_lost`).
    """

    rules: Rules
    ids: tuple[int, ...] = (0, 0)
    transactions: int = 2
    size: int = 2
    partitions: int = 2
    late_requests: int = 1
    failovers: int = 0
    losses: int = 0
    data_may_be_lost: bool = False
    states_may_be_lost: bool = False

    def partition_of(self, index: int) -> int:
        """The partition that a transaction's record goes to."""
        return index % self.partitions

    def record_number(self, transaction: int, index: int) -> int:
        """The number of a record among those of all transactions."""
        return transaction * self.size + index

    @property
    def first_search(self) -> Setup:
        """The scope of the first search: two incarnations of one producer, no failover and no loss."""
        return replace(self, ids=(0, 0), failovers=0, losses=0, data_may_be_lost=False, states_may_be_lost=False)

    def searches(self) -> Iterator[tuple[Setup, Set[TransactionAnomaly]]]:
        """Each search of the question, with the anomalies to look for. `examine.py` says why there are several."""
        has_others = len(set(self.ids)) > 1
        # A transaction of one record can't be torn.
        all_but_cycles = frozenset(TransactionAnomaly) - CYCLE - (TORN if self.size == 1 else frozenset())
        anomalies = all_but_cycles if has_others else all_but_cycles | CYCLE
        in_time = replace(self.first_search, late_requests=0)
        yield self.first_search, anomalies
        if self.failovers:
            yield replace(in_time, failovers=self.failovers), anomalies
        losing = replace(in_time, losses=1)
        if self.states_may_be_lost:
            yield replace(losing, states_may_be_lost=True), all_but_cycles
        if self.data_may_be_lost:
            yield replace(losing, data_may_be_lost=True), all_but_cycles
        if self.data_may_be_lost and self.states_may_be_lost:
            yield replace(losing, data_may_be_lost=True, states_may_be_lost=True), all_but_cycles
        if has_others:
            yield replace(in_time, ids=(0, 1)), CYCLE


class Entry(NamedTuple):
    """An entry of a partition's log. `number`: the record's number; in a marker, the coordinator epoch."""

    kind: int
    id: int
    epoch: int
    number: int


Log = tuple[Entry, ...]


class StateEntry(NamedTuple):
    """The last entry of __transaction_state for a transactional id; `partitions` is a bit set."""

    status: int
    epoch: int
    partitions: int


class Coordinated(NamedTuple):
    """A transactional id at its coordinator: its last entry, the bit set of partitions that still lack a marker, and
    the earlier entries, kept only where a loss may bring them back."""

    last_entry: StateEntry
    unmarked: int
    earlier: tuple[StateEntry, ...]


class Producer(NamedTuple):
    """An incarnation of a producer.

    `written`: how many records of its transaction are acknowledged. `added`: the bit set of partitions that it has
    added to the transaction. `last_record`: what it knows of the last record that it sent. `sent`: by partition, how
    many records it has sent in this epoch, which is the next sequence number.
    """

    phase: int
    epoch: int = NONE
    transaction: int = NONE
    written: int = 0
    added: int = 0
    last_record: int = ACKNOWLEDGED
    sent: tuple[int, ...] = ()


class Request(NamedTuple):
    """A request on its way. `detail`, by kind: the partition to add, the record's index, or whether to commit."""

    kind: Kind
    producer: int
    epoch: int
    transaction: int = 0
    detail: int = 0
    sequence: int = 0


class Marker(NamedTuple):
    """A marker on its way, sent by a coordinator that has been replaced since."""

    partition: int
    entry: Entry


class State(NamedTuple):
    """The state of producers, coordinator and partitions.

    `late`, `late_markers`: requests and markers on their way. `read`: the bit set of records that a read_committed
    consumer was given; `early_reads`: the bit set of records that it got before their commit was asked for.
    `zombie_commits`: the bit set of transactions for which the coordinator accepted a commit after a later incarnation
    of the producer had got an epoch of its own. `delays_left`, `failovers`, `losses`: how many may still happen.
    """

    producers: tuple[Producer, ...]
    coordinated: tuple[Coordinated, ...]
    coordinator_epoch: int = 0
    logs: tuple[Log, ...] = ()
    outcomes: tuple[int, ...] = ()
    late: tuple[Request, ...] = ()
    late_markers: tuple[Marker, ...] = ()
    read: int = 0
    early_reads: int = 0
    zombie_commits: int = 0
    delays_left: int = 0
    failovers: int = 0
    losses: int = 0

    def with_producer(self, number: int, producer: Producer) -> State:
        """The state with one incarnation replaced."""
        return self._replace(producers=with_item(self.producers, number, producer))

    def with_entry(self, setup: Setup, id: int, entry: StateEntry, unmarked: int) -> State:
        """The state after an entry of __transaction_state is appended and replicated."""
        before = self.coordinated[id]
        earlier = (*before.earlier, before.last_entry) if setup.states_may_be_lost and self.losses else ()
        return self.with_coordinated(id, Coordinated(entry, unmarked, earlier))

    def with_coordinated(self, id: int, coordinated: Coordinated) -> State:
        """The state with what the coordinator knows of one transactional id replaced."""
        return self._replace(coordinated=with_item(self.coordinated, id, coordinated))

    def with_log(self, partition: int, log: Log) -> State:
        """The state with one partition's log replaced."""
        return self._replace(logs=with_item(self.logs, partition, log))

    def with_outcome(self, transaction: int, outcome: int) -> State:
        """The state with the outcome of one transaction replaced."""
        return self._replace(outcomes=with_item(self.outcomes, transaction, outcome))


def initial_state(setup: Setup) -> State:
    """The state in which nothing has begun: the coordinator knows each transactional id, none of which has an epoch."""
    unused = Producer(STARTING, sent=(0,) * setup.partitions)
    return State(
        producers=(unused,) * len(setup.ids),
        coordinated=(Coordinated(StateEntry(EMPTY, NONE, 0), 0, ()),) * (max(setup.ids) + 1),
        logs=((),) * setup.partitions,
        delays_left=setup.late_requests,
        failovers=setup.failovers,
        losses=setup.losses,
    )
