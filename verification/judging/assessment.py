"""What a lane's evidence cannot show: anomalies that are not searched for, or whose absence proves nothing.

Guarantee: every reason is named. An anomaly of transactions, groups or share groups is judged only where its evidence
is there, and no lane conforms with one that was not judged. Pure Python, no Spark.
"""

from collections.abc import Iterator, Mapping

from kafka_chaos.contract.anomalies import Anomaly, Trait, with_trait
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.groups import LOOP_ANOMALIES, GroupAnomaly
from kafka_chaos.contract.lane.lanes import COMPACT, DELETE, Lane
from kafka_chaos.contract.lane.share import OF_DEAD_LETTERS, ShareAnomaly, share_group_of
from kafka_chaos.contract.lane.transactions import READ_COMMITTED, TransactionAnomaly
from kafka_chaos.contract.ledger import ShareLedger, TableLedger
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.lacks import Doubt, Gap, Lack, NotSearched
from kafka_chaos.verification.recovery.evidence import Recovery
from kafka_chaos.verification.tables.facts import LaneFacts, TransactionFacts

OF_TRANSACTIONS_BY_LOG = with_trait(TransactionAnomaly, Trait.BY_LOG)
OF_TRANSACTIONS_BY_READING = with_trait(TransactionAnomaly, Trait.BY_READS)
OF_SHARES_BY_HISTORY = (ShareAnomaly.NEVER_DELIVERED, ShareAnomaly.ARCHIVED_EARLY, ShareAnomaly.DEAD_LETTER_MISSING)
"""Only a whole history shows these: a delivery that nobody wrote down looks like none."""
OF_SHARES_BY_TIMES = (ShareAnomaly.DELIVERED_TO_TWO, ShareAnomaly.REDELIVERED_AFTER_ACCEPT)


def unread(run: RunDirectory, tables: Mapping[str, TableLedger]) -> dict[str, tuple[str, ...]]:
    """By table why it was not read in full, each row once."""
    problems: dict[str, tuple[str, ...]] = {}
    for name, table in run.tables.items():
        why, ledger = table.unread, tables.get(name)
        if ledger is not None and ledger.rows_as_read != ledger.rows_by_footer:
            there = f"{name}/ holds {ledger.rows_by_footer} rows by its files' footers"
            why = (*why, f"{there}, but {ledger.rows_as_read} were read")
        if why:
            problems[name] = why
    return problems


def not_applied(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Mapping[AnyAnomaly, str]:
    """The anomalies that are not searched for in this lane, and why. They never count as clean."""
    reasons: dict[AnyAnomaly, str] = {}
    if not run.has_log:
        reasons.update(dict.fromkeys(with_trait(Anomaly, Trait.BY_LOG), "there is no final log (log/)"))
    if not run.has("replicas"):
        reasons[Anomaly.REPLICA_DIVERGENCE] = "there are no replica logs (replicas/)"
    if not reports(run, lane):
        reasons[Anomaly.HIGH_WATERMARK_REGRESSION] = "events.jsonl holds no high_watermark reports of this lane"
    written = [number for number, of_partition in facts.numbered if of_partition.acknowledged]
    sizes = [run.checkpoints.sizes.get((lane.lane, number), {}).values() for number in written]
    if lane.retention_bytes is not None and any(not logs or any(None in log for log in logs) for logs in sizes):
        reasons[Anomaly.LOST_WRITE] = "checkpoints.json does not say where each log begins, and how large it is"
    if lane.cleanup_policy is not None and not run.has_log:
        removes = f"cleanup.policy={lane.cleanup_policy} removes records"
        reasons.update(dict.fromkeys((Anomaly.SKIPPED_POLL, *with_trait(Anomaly, Trait.NOT_AFTER_CLEANUP)), removes))
    for lack in lacks_of_families(run, lane, facts):
        if isinstance(lack, NotSearched):
            reasons.update(dict.fromkeys(lack.anomalies, lack.text))
    return {**reasons, **Recovery(run, lane, facts).not_judged, **by_configuration(lane)}


def by_configuration(lane: Lane) -> dict[AnyAnomaly, str]:
    """The anomalies that a lane's configuration keeps from being judged, whatever a run of it shows, and why."""
    reasons: dict[AnyAnomaly, str] = {}
    if lane.cleanup_policy is not None:
        removes = f"cleanup.policy={lane.cleanup_policy} removes"
        left_out = with_trait(Anomaly, Trait.NOT_AFTER_CLEANUP)
        if lane.cleanup_policy == COMPACT:
            left_out = (Anomaly.OFFSET_GAP,)
        elif lane.cleanup_policy == DELETE:
            # A record whose place nobody was told may have been before the log, where retention removes.
            left_out = (Anomaly.LOST_WRITE,) if lane.acks == "0" else ()
        if not lane.idempotence or lane.unclean_leader_election:
            # What is left of a record that is there twice may be the later copy.
            left_out = (*left_out, Anomaly.REORDERED)
        reasons.update(dict.fromkeys(left_out, f"{removes} records"))
        if lane.transactional is not None:
            reasons.update(dict.fromkeys((Anomaly.OFFSET_GAP, *OF_TRANSACTIONS_BY_LOG), f"{removes} markers, too"))
        if lane.loop is not None:
            reasons.update(dict.fromkeys(LOOP_ANOMALIES, f"{removes} outputs"))
    if lane.tiered and "power-loss" in lane.faults:
        lost = "what brokers know of remote segments (__remote_log_metadata) may be lost with the power"
        reasons.update(dict.fromkeys(with_trait(Anomaly, Trait.NOT_AFTER_CLEANUP), lost))
    return {**reasons, **lane.unjudged}


def reports(run: RunDirectory, lane: Lane) -> int:
    """How many high watermarks were reported of the lane."""
    return sum(len(reports) for (name, _), reports in run.events.reports.items() if name == lane.lane)


def lacks_of_families(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Lack]:
    """What the evidence about a lane's transactions, group, loop and share group lacks."""
    yield from _lacks_of_transactions(run, lane, facts)
    yield from _lacks_of_groups(run, lane, facts)
    yield from _lacks_of_shares(run, lane, facts)


def _lacks_of_transactions(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Lack]:
    if lane.transactional is None:
        return
    transactions = facts.transactions or TransactionFacts()
    # Markers may be missing where no replica holds everything up to the end of the log.
    cut_off = [
        f"no replica in replicas/ holds partition {number} whole, up to offset {of.log_end}"
        for number, of in facts.numbered
        if of.log_end is not None
        and not any(one.is_whole and one.last >= of.log_end for one in facts.replicas.get(number, {}).values())
    ]
    behind = [
        f"no read_committed consumer reached offset {of.committed_end} of partition {number}"
        for number, of in facts.numbered
        if of.committed_end is not None and transactions.read_to.get(number, -1) < of.committed_end
    ]
    if not run.has_log:
        yield NotSearched("there is no final log (log/)", OF_TRANSACTIONS_BY_LOG)
    elif transactions.markers is None:
        # Markers take offsets: without them, holes misfire.
        unmarked = "replicas/ does not show the markers that end transactions"
        yield NotSearched(unmarked, (Anomaly.OFFSET_GAP, *OF_TRANSACTIONS_BY_LOG))
    elif lane.cleanup_policy is None and cut_off:
        yield NotSearched(cut_off[0], (Anomaly.OFFSET_GAP, *OF_TRANSACTIONS_BY_LOG))
    if transactions.entangled:
        why = f"among the first of {transactions.entangled:,} dependencies that may be part of a cycle, there is none"
        cycles = (TransactionAnomaly.DEPENDENCY_CYCLE, TransactionAnomaly.PRECOMMITTED_READ)
        yield NotSearched(why, cycles if lane.transactional.reads else cycles[:1])
    if not transactions.transactions:
        yield NotSearched("transactions/ holds no transaction of this lane", TransactionAnomaly)
    asks_for_commits = lane.transactional.abort < 1
    if transactions.transactions and not transactions.committed and asks_for_commits:
        yield Gap("no commit was acknowledged", (TransactionAnomaly.LOST_TRANSACTION, TransactionAnomaly.ZOMBIE_COMMIT))
    if not transactions.read_to and (asks_for_commits or not _was_given_nothing(facts, transactions)):
        yield Gap("no read_committed consumer read anything", OF_TRANSACTIONS_BY_READING)
    elif behind:
        yield Gap(behind[0], OF_TRANSACTIONS_BY_READING)
    if lane.transactional.reads and not transactions.read_within:
        reading = (TransactionAnomaly.PRECOMMITTED_READ, TransactionAnomaly.DEPENDENCY_CYCLE)
        yield Gap("no record was read within a transaction", reading)
    if early := [end for end in transactions.open_ends if not end.hangs]:
        where = f"partition {early[0].partition} ends within an open transaction, at offset {early[0].offset}"
        ended = f"{where}, and the history ends before its time-out"
        yield Gap(ended, (TransactionAnomaly.HANGING_TRANSACTION,))
    if transactions.unnamed:
        yield Doubt(f"transactions/ lacks {counted(transactions.unnamed, 'transaction')} that produced/ names")
    if transactions.outside:
        yield Doubt(f"produced/ names no transaction of {counted(transactions.outside, 'acknowledged record')}")
    if transactions.unknown_readers:
        yield Doubt(f"assignments/ lacks the consumers {', '.join(transactions.unknown_readers[:5])}")


def _was_given_nothing(facts: LaneFacts, transactions: TransactionFacts) -> bool:
    """Whether nothing is committed, and each partition with records had a read_committed consumer that stayed until all
    transactions had ended and then ended in order: one that was given nothing is evidence, where nothing was due."""
    is_committed = any(partition.committed_end is not None for partition in facts.partitions.values())
    if transactions.committed or transactions.in_doubt or is_committed or transactions.ended_ns is None:
        return False
    written = [number for number, partition in facts.numbered if partition.log_end is not None]
    return all(transactions.stayed_to.get(number, -1) >= transactions.ended_ns for number in written)


def _lacks_of_groups(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Lack]:
    anomalies = lane.group_anomalies
    if not anomalies:
        return
    # Of the lane that is read; the anomalies of loops also of the output.
    by_log = with_trait(anomalies, Trait.BY_LOG)
    if not run.has_log:
        yield NotSearched("there is no final log (log/)", by_log)
    for source in (run.lane(reads) for reads in lane.groups.values()):
        if source.transactional is not None and not run.has("replicas"):
            yield NotSearched(f"replicas/ does not show what lane {source.lane} has committed", by_log)
    if lane.loop and lane.transactional and (facts.transactions is None or facts.transactions.markers is None):
        yield NotSearched("replicas/ does not show the markers that end transactions", LOOP_ANOMALIES)
    elif lane.loop and facts.transactions is not None and facts.transactions.open_ends:
        yield NotSearched("the log ends within the transaction of an output", (GroupAnomaly.NOT_PROCESSED,))
    ledgers = {ledger.group: ledger for ledger in facts.groups}
    for group in lane.groups:
        ledger = ledgers.get(group)
        if ledger is None or not ledger.assignments:
            yield NotSearched(f"assignments/ holds no assignment of group {group}", anomalies)
        elif ledger.without_generation:
            missing = counted(ledger.without_generation, "assignment")
            why = f"assignments/ names no generation of {missing} of group {group}"
            yield NotSearched(why, (GroupAnomaly.OWNED_TWICE,))
    for group, ledger in ledgers.items():
        if unknown := [at.partition for at in ledger.partitions if at.acknowledged is not None and at.final is None]:
            why = f"groups.json does not say what group {group} had committed in partition {unknown[0]} in the end"
            yield Gap(why, (GroupAnomaly.COMMIT_LOST,))
        if not ledger.acknowledged:
            yield Gap(f"no commit of group {group} was acknowledged", with_trait(anomalies, Trait.BY_COMMITS))
        if not ledger.processed:
            why = f"no member of group {group} processed a record"
            yield from (Gap(why, anomalies), NotSearched(why, by_log))
        if ledger.doubled:
            rows = counted(ledger.doubled, "row")
            yield Doubt(f"assignments/ and commits/ hold {rows} of group {group} twice")
    if facts.without_input:
        without_input = counted(facts.without_input, "record")
        yield NotSearched(f"produced/ names no input of {without_input} of a loop", LOOP_ANOMALIES)


def _lacks_of_shares(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Lack]:
    share, group = lane.share, share_group_of(lane.lane)
    if share is None:
        return
    counts = facts.share or ShareLedger(group=group)
    by_history = [anomaly for anomaly in OF_SHARES_BY_HISTORY if anomaly in share.anomalies]
    by_starts = [*by_history, ShareAnomaly.SHARE_START_WENT_BACK]
    if not run.has_log:
        yield NotSearched("there is no final log (log/)", (ShareAnomaly.NEVER_DELIVERED,))
    elif share.isolation == READ_COMMITTED and lane.transactional is not None and not run.has("replicas"):
        yield NotSearched("replicas/ does not show what the lane has committed", (ShareAnomaly.NEVER_DELIVERED,))
    if lane.cleanup_policy is not None:
        yield NotSearched(f"cleanup.policy={lane.cleanup_policy} removes what the group is not done with", by_history)
    if unfinished := run.events.unfinished(lane.lane):
        yield NotSearched(f"phase {unfinished[0]} never ended: deliveries may have been written nowhere", by_history)
    if counts.unasked:
        why = f"deliveries/ does not say when {counted(counts.unasked, 'delivery', 'deliveries')} were asked for"
        yield NotSearched(why, OF_SHARES_BY_TIMES)
    if not counts.reported:
        yield NotSearched(f"share_starts/ holds no start offset of group {group}", by_starts)
    if not counts.deliveries:
        yield NotSearched(f"deliveries/ holds no delivery of group {group}", share.anomalies)
    if missing := lane.partitions - counts.reported:
        yield Gap(f"share_starts/ holds no start offset of {counted(missing, 'partition')}", by_starts)
    if counts.undrained:
        yield Gap(f"the group was not past the last record of {counted(counts.undrained, 'partition')}", by_history)
    if not counts.accepted:
        lacking = (ShareAnomaly.REDELIVERED_AFTER_ACCEPT, ShareAnomaly.ARCHIVED_EARLY)
        yield NotSearched("no accept was acknowledged", lacking)
    if counts.members < 2:
        yield Gap("fewer than two members were given records", (ShareAnomaly.DELIVERED_TO_TWO,))
    if OF_DEAD_LETTERS[0] in share.anomalies and not run.has("dead_letters"):
        yield NotSearched("the dead letters were not read (dead_letters/)", OF_DEAD_LETTERS)
    elif OF_DEAD_LETTERS[0] in share.anomalies and not (counts.letters or counts.rejected):
        yield Gap("no record was rejected, and there is no dead letter", OF_DEAD_LETTERS)
    if counts.doubled:
        yield Doubt(f"deliveries/ holds {counted(counts.doubled, 'row')} of the lane twice")
