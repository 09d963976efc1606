"""Counts what a lane's rows show: the facts that the verdict rests on, beside the anomalies.

Guarantee: every row that was read is counted once, so that the sums can be compared with the files' footers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import share_group_of
from kafka_chaos.contract.ledger import GroupLedger, GroupPartitionLedger
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.recovery.outages import ACKNOWLEDGED, GIVEN_UP, READ, SENT, UNANSWERED
from kafka_chaos.verification.tables import facts as counted
from tests.verification.oracle.groups import Group, History
from tests.verification.oracle.rows import LaneHistory, Place, Replicated, View, ends_of
from tests.verification.oracle.shares import share_facts
from tests.verification.oracle.transactions import Transactions

_SECOND_NS = 1_000_000_000


def pulses_of(history: LaneHistory, passing: Iterable[str] = ()) -> tuple[counted.Pulse, ...]:
    """The pulses of a lane, in the order that every engine gives. `passing`: its consumers that come and go."""
    groups = {name: name for name in passing} | {row.consumer: row.group for row in history.assignments if row.group}
    seconds: dict[tuple[str, str, int | None, int], list[tuple[int, int, int | None]]] = defaultdict(list)
    for what, reader, partition, at, offset, asked in _moments(history, groups):
        seconds[what, reader, partition, at // _SECOND_NS].append((at, -1 if offset is None else offset, asked))
    pulses = []
    for (what, reader, partition, _), moments in seconds.items():
        (first_ns, first_offset, _), (last_ns, last_offset, _) = min(moments), max(moments)
        asked_ns = min((asked for *_, asked in moments if asked is not None), default=None)
        offsets = (first_offset, last_offset, max(offset for _, offset, _ in moments))
        pulses.append(
            counted.Pulse(
                what, reader, partition, first_ns, last_ns, asked_ns, *(None if at < 0 else at for at in offsets)
            )
        )
    return tuple(sorted(pulses, key=str))


def _moments(
    history: LaneHistory, groups: dict[str, str]
) -> Iterator[tuple[str, str, int | None, int, int | None, int | None]]:
    for row in history.produced:
        yield SENT, "", row.partition, row.invoke_ns, None, row.invoke_ns
        what = GIVEN_UP if row.outcome != "ok" else ACKNOWLEDGED
        at = row.complete_ns
        if at is None:
            what, at = UNANSWERED, row.invoke_ns
        yield what, "", row.partition, at, row.offset if what == ACKNOWLEDGED else None, row.invoke_ns
    for read in history.consumed:
        yield READ, groups.get(read.consumer, ""), read.partition, read.poll_ns, read.offset, None
    for given in history.deliveries:
        yield READ, given.group, given.partition, given.delivered_ns, given.offset, None


def awaited_in(history: LaneHistory) -> tuple[counted.Awaited, ...]:
    """The transactions of a lane whose end took a second or more, or was asked for in vain."""
    return tuple(
        sorted(
            (
                counted.Awaited(row.transactional_id, row.begin_ns, row.end_ns)
                for row in history.transactions
                if (row.error is not None if row.end_ns is None else row.end_ns - row.begin_ns >= _SECOND_NS)
            ),
            key=str,
        )
    )


def owned_by(groups: Sequence[Group]) -> tuple[counted.Owned, ...]:
    """Who had which partition, of these groups."""
    rows = (row for group in groups for row in History(group).assigned)
    return tuple(
        sorted((counted.Owned(row.group or "", row.partition, row.start_ns, row.end_ns) for row in rows), key=str)
    )


def facts_of(run: RunDirectory, lane: Lane, view: View, groups: Sequence[Group]) -> counted.LaneFacts:
    """The facts of a lane and of its groups."""
    produced = view.history.produced
    unnamed = sum(row.source_seq is None or row.source_producer_id is None for row in produced)
    return counted.LaneFacts(
        partitions=_partitions(view),
        unjudged=_unjudged(view) if not run.has_log or lane.cleanup_policy is not None else 0,
        replicas=_replicas(view.history.replicas),
        transactions=None if lane.transactional is None else _transactions(view),
        groups=tuple(map(_group, groups)),
        without_input=unnamed if lane.loop is not None else 0,
        pulses=pulses_of(view.history, run.events.passing.get(lane.lane, ())) if lane.lane in run.timings else (),
        share=None if lane.share is None else share_facts(view, share_group_of(lane.lane)),
        owned=owned_by(groups) if lane.lane in run.timings else (),
        awaited=awaited_in(view.history) if lane.lane in run.timings else (),
    )


def _partitions(view: View) -> dict[int | None, counted.PartitionFacts]:
    history, log = view.history, view.history.log or ()
    sent = Counter(row.partition for row in history.produced)
    acknowledged: dict[int | None, list[tuple[int | None, int | None]]] = defaultdict(list)
    for row in history.produced:
        if view.outcome_of(row) == "ok":
            acknowledged[row.partition].append((row.complete_ns, row.offset))
    read, stored = (Counter(row.partition for row in rows) for rows in (history.consumed, log))
    distinct = Counter(row.partition for row in set(log))
    is_transactional = history.timeout_ms is not None
    committed = view.visible_end if is_transactional and view.final_log else {}
    found: dict[int | None, counted.PartitionFacts] = {}
    for partition in {*sent, *read, *stored}:
        known = acknowledged.get(partition, [])
        number = -1 if partition is None else partition
        found[partition] = counted.PartitionFacts(
            produced=sent[partition],
            acknowledged=len(known),
            consumed=read[number],
            stored=stored[number],
            doubled=stored[number] - distinct[number],
            unplaced=sum(partition is None or offset is None for _, offset in known),
            first_acknowledged_ns=min((at for at, _ in known if at is not None), default=None),
            acknowledged_end=max((offset for _, offset in known if offset is not None), default=None),
            read_end=view.read_end.get(number),
            log_end=view.log_end.get(number),
            is_transactional=is_transactional,
            committed_end=committed.get(number),
        )
    return found


def _unjudged(view: View) -> int:
    """The acknowledged records whose fate neither the log nor a read shows."""

    def is_shown(identity: tuple[int, int]) -> bool:
        if view.history.is_compacted and view.final_log:
            return view.missing.get(identity, False) is not None
        if identity in view.read or view.final_log:
            judged = view.retained is not None and not view.may_be_removed(identity)
            return identity in view.read or identity in view.log or judged
        if view.history.is_cleaned:
            return False
        return identity in view.acknowledged and view.passed(view.acknowledged[identity])

    return sum(outcome == "ok" and not is_shown(identity) for identity, outcome in view.outcome.items())


def _replicas(rows: Iterable[Replicated]) -> dict[int, dict[int, counted.ReplicaFacts]]:
    offsets: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        offsets[row.partition][row.broker].append(row.offset)
    return {
        partition: {broker: counted.ReplicaFacts(len(held), min(held), max(held)) for broker, held in brokers.items()}
        for partition, brokers in offsets.items()
    }


def _transactions(view: View) -> counted.TransactionFacts:
    history, transactions = view.history, Transactions(view)
    outcomes = Counter(row.outcome for row in history.transactions)
    outside = (row for row in history.produced if row.transaction is None)
    kinds = Counter(row.kind for row in history.replicas if row.kind is not None)
    ended = [row.end_ns for row in history.transactions]
    return counted.TransactionFacts(
        transactions=len(history.transactions),
        committed=outcomes["committed"],
        aborted=outcomes["aborted"],
        in_doubt=outcomes["info"],
        assignments=len(history.assignments),
        unnamed=sum(key not in transactions.ended for key in transactions.records),
        outside=sum(row.outcome == "ok" for row in outside),
        read_within=sum(row.reading_transaction is not None for row in history.consumed),
        markers=kinds["commit"] + kinds["abort"] if kinds else None,
        unknown_readers=tuple(sorted({row.consumer for row in history.consumed} - view.isolation.keys())),
        ended_ns=None if None in ended else max(ended, default=None),
        ids=len({row.transactional_id for row in history.transactions}),
        read_to=ends_of((row.partition, row.offset) for row in view.reads_of("read_committed")),
        stayed_to=ends_of(
            (row.partition, row.end_ns)
            for row in history.assignments
            if row.isolation == "read_committed" and row.end_ns is not None
        ),
        open_ends=tuple(
            counted.OpenEnd(row.partition, row.offset, hangs) for row, _, hangs in transactions.open_ends()
        ),
    )


def _group(group: Group) -> GroupLedger:
    history = History(group)
    outcomes = Counter(one.outcome for one in history.commits)
    again = [(row.partition, row.consumer, row.start_ns) for row in history.assigned]
    commits = [(one.partition, one.consumer, one.offset, one.invoke_ns) for one in history.commits]
    return GroupLedger(
        group=group.group,
        reads=group.lane,
        assignments=len(history.assigned),
        members=len({row.member for row in history.assigned}),
        without_generation=sum(row.generation is None for row in history.assigned),
        doubled=len(again) - len(set(again)) + len(commits) - len(set(commits)),
        processed=len(history.reads),
        acknowledged=outcomes["ok"],
        refused=outcomes["fail"],
        in_doubt=outcomes["info"],
        partitions=_of_group(history, (row.partition for row in history.assigned)),
    )


def _of_group(history: History, assigned: Iterable[int]) -> tuple[GroupPartitionLedger, ...]:
    processed: list[Place] = [(read.partition, read.offset) for read in history.reads]
    highest = ends_of(processed)
    acknowledged = ends_of((one.partition, one.offset) for one in history.commits if one.outcome == "ok")
    partitions = {*assigned, *highest, *(one.partition for one in history.commits), *history.of.final}
    return tuple(
        GroupPartitionLedger(
            partition=partition,
            processed_to=highest.get(partition),
            acknowledged=acknowledged.get(partition),
            final=history.of.final.get(partition),
        )
        for partition in sorted(partitions)
    )
