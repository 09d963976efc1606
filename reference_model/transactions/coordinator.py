"""The transaction coordinator: its answer to each request, and the entry that it appends to __transaction_state first.

Sources: KIP-98 (states, two phases), KIP-360 (InitProducerId with the epoch of a producer that goes on), KIP-588 (a
time-out fences), KIP-890 (one epoch per transaction; verification). The answers to EndTxn are those of the two tables
at `TransactionCoordinator.endTransaction` in Kafka 4.

Left out: producer epochs that are used up, after which a producer gets another producer id; the expiry of transactional
ids; requests that arrive while an entry for their id is being appended (Kafka answers CONCURRENT_TRANSACTIONS).
"""

from enum import Enum
from typing import NamedTuple

from kafka_chaos.reference_model.transactions.rules import Rules
from kafka_chaos.reference_model.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    StateEntry,
)


class Reply(Enum):
    """What the sender of a request is told: OK, or the name of an error."""

    OK = "OK"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    FENCED = "PRODUCER_FENCED"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"
    OUT_OF_ORDER_SEQUENCE_NUMBER = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class Answer(NamedTuple):
    """A reply, and the entry that the coordinator appends to __transaction_state before it sends the reply, if any."""

    reply: Reply
    appended: StateEntry | None = None


PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
COMPLETED_STATUS = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}


def init_producer_id(last_entry: StateEntry, expected_epoch: int | None, rules: Rules) -> Answer:
    """The answer to InitProducerId, by which a producer asks for an epoch.

    A new incarnation has no `expected_epoch`; a producer that goes on after an error sends its own. An open
    transaction is aborted first, in a new epoch that no producer is given: the incarnation has to ask again.
    """
    if expected_epoch is not None and expected_epoch != last_entry.epoch and rules.coordinator_fences_producers:
        return Answer(Reply.FENCED)
    if last_entry.status in PREPARED:
        return Answer(Reply.CONCURRENT_TRANSACTIONS)
    if last_entry.status == ONGOING and rules.aborts_on_init:
        return Answer(Reply.CONCURRENT_TRANSACTIONS, fence(last_entry))
    return Answer(Reply.OK, StateEntry(EMPTY, last_entry.epoch + 1, 0))


def fence(last_entry: StateEntry) -> StateEntry:
    """The entry that aborts an open transaction in the next epoch, so that its producer can't go on."""
    return StateEntry(PREPARE_ABORT, last_entry.epoch + 1, last_entry.partitions)


def add_partition(last_entry: StateEntry, epoch: int, partition: int, rules: Rules) -> Answer:
    """The answer to AddPartitionsToTxn: the partition joins the open transaction, or begins one."""
    if epoch != last_entry.epoch and rules.coordinator_fences_producers:
        return Answer(Reply.FENCED)
    if last_entry.status in PREPARED:
        return Answer(Reply.CONCURRENT_TRANSACTIONS)
    added = last_entry.partitions if last_entry.status == ONGOING else 0
    if added >> partition & 1:
        return Answer(Reply.OK)
    return Answer(Reply.OK, StateEntry(ONGOING, last_entry.epoch, added | 1 << partition))


def verify(last_entry: StateEntry, epoch: int, partition: int, rules: Rules) -> Reply:
    """The answer to a leader that asks whether a partition is in a producer's open transaction (KIP-890)."""
    if epoch != last_entry.epoch and rules.coordinator_fences_producers:
        return Reply.FENCED
    if last_entry.status in PREPARED:
        return Reply.CONCURRENT_TRANSACTIONS
    is_open = last_entry.status == ONGOING and last_entry.partitions >> partition & 1
    return Reply.OK if is_open else Reply.TRANSACTION_ABORTABLE


def end_transaction(last_entry: StateEntry, epoch: int, commit: bool, rules: Rules) -> Answer:
    """The answer to EndTxn, by which a producer asks for a commit or an abort."""
    target = PREPARE_COMMIT if commit else PREPARE_ABORT
    bumped = last_entry.epoch + rules.epoch_per_transaction
    is_current = epoch == last_entry.epoch or not rules.coordinator_fences_producers
    if last_entry.status == ONGOING:
        ending = StateEntry(target, bumped, last_entry.partitions)
        return Answer(Reply.OK, ending) if is_current else Answer(Reply.FENCED)
    if rules.epoch_per_transaction:
        # A request with the previous epoch repeats the EndTxn that ended the last transaction.
        if epoch != last_entry.epoch - 1 or last_entry.status == EMPTY:
            return _end_nothing(last_entry, epoch, commit, bumped)
    elif not is_current:
        return Answer(Reply.FENCED)
    if last_entry.status == target:
        return Answer(Reply.CONCURRENT_TRANSACTIONS)
    return Answer(Reply.OK if last_entry.status == COMPLETED_STATUS[target] else Reply.INVALID_TXN_STATE)


def _end_nothing(last_entry: StateEntry, epoch: int, commit: bool, bumped: int) -> Answer:
    """The answer to EndTxn if no transaction of this epoch is open; for protocols with one epoch per transaction.

    An abort begins a new epoch nevertheless, since the producer can't know that nothing is open (KAFKA-18401).
    """
    if epoch != last_entry.epoch or last_entry.status in PREPARED:
        return Answer(Reply.FENCED)
    return Answer(Reply.INVALID_TXN_STATE) if commit else Answer(Reply.OK, StateEntry(PREPARE_ABORT, bumped, 0))
