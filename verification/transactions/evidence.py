"""Assesses what a lane's history can show about its transactions. Pure Python, no Spark.

Guarantee: an anomaly of transactions is judged only where its evidence is there, and is otherwise named with the
reason. No lane conforms with one that was not judged.
"""

from collections.abc import Iterator

from kafka_chaos.contract.anomalies import Anomaly, Trait, with_trait
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.contract.ledger import CommittedLedger, TransactionsLedger
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt, Gap, Lack, NotSearched
from kafka_chaos.verification.tables.facts import LaneFacts, TransactionFacts

BY_THE_LOG = with_trait(TransactionAnomaly, Trait.BY_LOG)
BY_READING = with_trait(TransactionAnomaly, Trait.BY_READS)


def lacks(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Lack]:
    """What the evidence about a lane's transactions lacks."""
    if lane.transactional is None:
        return
    found = facts.transactions or TransactionFacts()
    if not run.has_log:
        yield NotSearched("there is no final log (log/)", BY_THE_LOG)
    elif found.markers is None:
        # Markers take offsets: without them, holes misfire.
        unmarked = "replicas/ does not show the markers that end transactions"
        yield NotSearched(unmarked, (Anomaly.OFFSET_GAP, *BY_THE_LOG))
    elif lane.cleanup_policy is None and (short := next(_without_markers(facts), None)):
        yield NotSearched(short, BY_THE_LOG)
    if found.entangled:
        why = f"among the first of {found.entangled:,} dependencies that may be part of a cycle, there is none"
        yield NotSearched(why, (TransactionAnomaly.DEPENDENCY_CYCLE,))
    if not found.transactions:
        yield NotSearched("transactions/ holds no transaction of this lane", TransactionAnomaly)
    asks_for_commits = lane.transactional.abort < 1
    if found.transactions and not found.committed and asks_for_commits:
        of_commits = (TransactionAnomaly.LOST_TRANSACTION, TransactionAnomaly.ZOMBIE_COMMIT)
        yield Gap("no commit was acknowledged", of_commits)
    if not found.read_to and (asks_for_commits or not _was_given_nothing(facts, found)):
        yield Gap("no read_committed consumer read anything", BY_READING)
    elif behind := next(_behind(facts, found), None):
        yield Gap(behind, BY_READING)
    if early := [end for end in found.open_ends if not end.hangs]:
        where = f"partition {early[0].partition} ends within an open transaction, at offset {early[0].offset}"
        ended = f"{where}, and the history ends before its time-out"
        yield Gap(ended, (TransactionAnomaly.HANGING_TRANSACTION,))
    if found.unnamed:
        yield Doubt(f"transactions/ lacks {counted(found.unnamed, 'transaction')} that produced/ names")
    if found.outside:
        yield Doubt(f"produced/ names no transaction of {counted(found.outside, 'acknowledged record')}")
    if found.unknown_readers:
        yield Doubt(f"assignments/ lacks the consumers {', '.join(found.unknown_readers[:5])}")


def _was_given_nothing(facts: LaneFacts, found: TransactionFacts) -> bool:
    """Whether nothing is committed, and each partition with records had a read_committed consumer that stayed until all
    transactions had ended and then ended in order: one that was given nothing is evidence, where nothing was due."""
    written = {number for number, of in facts.numbered if of.log_end is not None}
    if found.committed or found.in_doubt or any(of.committed_end is not None for of in facts.partitions.values()):
        return False
    ended_ns = found.ended_ns
    return ended_ns is not None and all(found.stayed_to.get(number, -1) >= ended_ns for number in written)


def _without_markers(facts: LaneFacts) -> Iterator[str]:
    """The partitions of which no replica holds everything up to the end of the log, so that markers may be missing."""
    for number, partition in facts.numbered:
        end, replicas = partition.log_end, facts.replicas.get(number, {}).values()
        if end is not None and not any(one.is_whole and one.last >= end for one in replicas):
            yield f"no replica in replicas/ holds partition {number} whole, up to offset {end}"


def _behind(facts: LaneFacts, found: TransactionFacts) -> Iterator[str]:
    """The partitions whose last committed record no read_committed consumer reached."""
    for number, partition in facts.numbered:
        end, read = partition.committed_end, found.read_to.get(number)
        if end is not None and (read is None or read < end):
            yield f"no read_committed consumer reached offset {end} of partition {number}"


def transactions_ledger(facts: LaneFacts) -> TransactionsLedger | None:
    """The lane's transactions in verdict.json; None if it is not transactional."""
    found = facts.transactions
    if found is None:
        return None
    open_at = {end.partition: end.offset for end in found.open_ends}
    return TransactionsLedger(
        rows=found.transactions,
        committed=found.committed,
        aborted=found.aborted,
        in_doubt=found.in_doubt,
        markers=found.markers,
        partitions=tuple(
            CommittedLedger(
                partition=number,
                committed_end=partition.committed_end,
                read_to=found.read_to.get(number),
                open_at=open_at.get(number),
            )
            for number, partition in facts.numbered
        ),
    )
