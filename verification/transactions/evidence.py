"""Assesses what a lane's history can show about its transactions. Pure Python, no Spark.

Guarantee: an anomaly of transactions is judged only where its evidence is there, and is otherwise named with the
reason. No lane conforms with one that was not judged.
"""

from collections.abc import Iterator

from kafka_chaos.contract.anomalies import Anomaly, Trait, those
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.contract.ledger import CommittedLedger, TransactionsLedger
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.facts import LaneFacts, TransactionFacts

BY_THE_LOG = those(TransactionAnomaly, Trait.BY_LOG)
BY_READING = those(TransactionAnomaly, Trait.BY_READS)


def not_shown(run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
    """The anomalies that are not searched for in a lane, and why."""
    found, reasons = facts.transactions or TransactionFacts(), dict[AnyAnomaly, str]()
    if lane.transactional is None:
        return reasons
    if not run.has_log:
        reasons.update(dict.fromkeys(BY_THE_LOG, "there is no final log (log/)"))
    elif found.markers is None:
        # Markers take offsets: without them, holes misfire.
        unmarked = "replicas/ does not show the markers that end transactions"
        reasons.update(dict.fromkeys((Anomaly.OFFSET_GAP, *BY_THE_LOG), unmarked))
    elif lane.cleanup_policy is None and (short := next(_without_markers(facts), None)):
        reasons.update(dict.fromkeys(BY_THE_LOG, short))
    if found.entangled:
        reasons[TransactionAnomaly.DEPENDENCY_CYCLE] = (
            f"among the first of {found.entangled:,} dependencies that may be part of a cycle, there is none"
        )
    if not found.transactions:
        reasons.update(dict.fromkeys(TransactionAnomaly, "transactions/ holds no transaction of this lane"))
    return reasons


def proves_nothing(run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
    """The anomalies whose absence in a lane proves nothing, and why."""
    found, reasons = facts.transactions or TransactionFacts(), dict[AnyAnomaly, str]()
    if lane.transactional is None:
        return reasons
    asks_for_commits = lane.transactional.abort < 1
    if found.transactions and not found.committed and asks_for_commits:
        nothing = "no commit was acknowledged"
        reasons[TransactionAnomaly.LOST_TRANSACTION] = reasons[TransactionAnomaly.ZOMBIE_COMMIT] = nothing
    behind = next(_behind(facts, found), None)
    if not found.read_to and (asks_for_commits or not _was_given_nothing(facts, found)):
        reasons.update(dict.fromkeys(BY_READING, "no read_committed consumer read anything"))
    elif behind:
        reasons.update(dict.fromkeys(BY_READING, behind))
    early = [end for end in found.open_ends if not end.hangs]
    if early:
        reasons[TransactionAnomaly.HANGING_TRANSACTION] = (
            f"partition {early[0].partition} ends within an open transaction, at offset {early[0].offset}, and the "
            "history ends before its time-out"
        )
    return reasons


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


def doubts(run: RunDirectory, lane: Lane, facts: LaneFacts) -> list[str]:
    """Why a transactional lane can't conform, whatever was found."""
    if lane.transactional is None:
        return []
    found = facts.transactions or TransactionFacts()
    sentences = []
    if found.unnamed:
        sentences.append(f"transactions/ lacks {counted(found.unnamed, 'transaction')} that produced/ names")
    if found.outside:
        sentences.append(f"produced/ names no transaction of {counted(found.outside, 'acknowledged record')}")
    if found.unknown_readers:
        sentences.append(f"assignments/ lacks the consumers {', '.join(found.unknown_readers[:5])}")
    return sentences


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
