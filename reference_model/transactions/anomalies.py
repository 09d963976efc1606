"""Which anomalies of transactions a state shows if the run ends in it: one function per anomaly.

A run may end wherever the coordinator has nothing left to do: each of its transactions has ended, or can't end any
more. A transaction with all markers written still has to be completed. Late requests need not arrive, and producers
need not go on. The definitions are those of docs/anomalies.md, which the verification applies to real histories.
"""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import NamedTuple

from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.reference_model.transactions.coordinator import PREPARED
from kafka_chaos.reference_model.transactions.environment import marker_of
from kafka_chaos.reference_model.transactions.partitions import aborted, committed, last_stable_offset, takes_marker
from kafka_chaos.reference_model.transactions.state import ABORTED, ASKED, COMMITTED, DATA, ONGOING, Log, Setup, State
from kafka_chaos.reference_model.tuples import bits


class Ending(NamedTuple):
    """The evidence of a run.

    `logs`: one per partition. `outcomes`: one per transaction. `read`: the bit set of records that a read_committed
    consumer was given; `early_reads`: the bit set of those that it was given before their commit was asked for.
    `zombie_commits`: the bit set of transactions whose commit was accepted from a replaced incarnation. `size`: the
    number of records of a transaction.
    """

    logs: tuple[Log, ...]
    outcomes: tuple[int, ...]
    read: int
    early_reads: int
    zombie_commits: int
    size: int

    def committed_records(self, transaction: int) -> list[int]:
        """The records of a transaction that come before a commit marker in the final logs."""
        return [number for log in self.logs for number in committed(log) if number // self.size == transaction]

    def transactions(self, *outcomes: int) -> list[int]:
        """The transactions with one of these outcomes."""
        return [transaction for transaction, outcome in enumerate(self.outcomes) if outcome in outcomes]


def ending(state: State, setup: Setup) -> Ending | None:
    """The evidence of a run that ends in this state, or None if it can't end here."""
    for id, (last_entry, unmarked, _) in enumerate(state.coordinated):
        if last_entry.status == ONGOING and setup.rules.aborts_on_time_out:
            return None
        if last_entry.status in PREPARED:
            marker = marker_of(state, id)
            may_be_marked = [takes_marker(state.logs[number], marker, setup.rules) for number in bits(unmarked)]
            if not may_be_marked or any(may_be_marked):
                return None
    return Ending(state.logs, state.outcomes, state.read, state.early_reads, state.zombie_commits, setup.size)


def aborted_read(end: Ending) -> bool:
    """A read_committed consumer was given a record that is aborted in the log, or one of an aborted transaction."""
    aborted_transactions = end.transactions(ABORTED)
    aborted_records = {number for log in end.logs for number in aborted(log)}
    return any(number in aborted_records or number // end.size in aborted_transactions for number in bits(end.read))


def precommitted_read(end: Ending) -> bool:
    """A read_committed consumer was given a record before the commit of its transaction was asked for.

    This covers cycles of transactions that read from each other, too: one of them has read before another's commit was
    asked for. What is read of an aborted transaction is an `aborted_read`.
    """
    return any(end.outcomes[number // end.size] != ABORTED for number in bits(end.early_reads))


def torn_transaction(end: Ending) -> bool:
    """A transaction whose commit was asked for has some records that are committed, and others that are not."""
    return any(0 < len(end.committed_records(number)) < end.size for number in end.transactions(ASKED, COMMITTED))


def lost_transaction(end: Ending) -> bool:
    """A commit was acknowledged, and none of the transaction's records comes before a commit marker."""
    return any(not end.committed_records(transaction) for transaction in end.transactions(COMMITTED))


def zombie_commit(end: Ending) -> bool:
    """The commit of a replaced incarnation was accepted and acknowledged."""
    return any(end.zombie_commits >> transaction & 1 for transaction in end.transactions(COMMITTED))


def hanging_transaction(end: Ending) -> bool:
    """The last stable offset stands still: records are open, and nobody will end their transaction."""
    return any(last_stable_offset(log) < len(log) for log in end.logs)


def dependency_cycle(end: Ending) -> bool:
    """Each of two transactions has a committed record before one of the other, in whatever partitions (Adya's G0)."""
    before: set[tuple[int, int]] = set()
    for log in end.logs:
        committed_records = committed(log)
        records = [entry.number for entry in log if entry.kind == DATA and entry.number in committed_records]
        before |= set(combinations([number // end.size for number in records], 2))
    return any(first != second and (second, first) in before for first, second in before)


CHECKS: Mapping[TransactionAnomaly, Callable[[Ending], bool]] = {
    TransactionAnomaly.ABORTED_READ: aborted_read,
    TransactionAnomaly.PRECOMMITTED_READ: precommitted_read,
    TransactionAnomaly.TORN_TRANSACTION: torn_transaction,
    TransactionAnomaly.LOST_TRANSACTION: lost_transaction,
    TransactionAnomaly.ZOMBIE_COMMIT: zombie_commit,
    TransactionAnomaly.HANGING_TRANSACTION: hanging_transaction,
    TransactionAnomaly.DEPENDENCY_CYCLE: dependency_cycle,
}
