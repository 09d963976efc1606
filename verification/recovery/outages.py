"""How long each part of a lane was unavailable, by what was observed of it. Pure Python, no Spark.

Guarantee: an outage counts from the first moment at which somebody asked for something, to the moment at which somebody
got something again. One that nobody saw the end of counts up to the last moment that was observed. Where nobody asks,
nothing is late: nobody awaits a record that was read before its acknowledgement, nor one that its producer gave up.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from kafka_chaos.contract.events import CallNoted, HighWatermark, IsrChanged, LastStableOffset, LeaderElected
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import CALLS, RecoveryAnomaly
from kafka_chaos.contract.lane.share import share_group_of
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts, Pulse

SENT, ACKNOWLEDGED, GIVEN_UP, UNANSWERED, READ = "sent", "acknowledged", "given up", "unanswered", "read"
FLUSH = "flush"
_WRITES = (RecoveryAnomaly.STALLED_PRODUCER, RecoveryAnomaly.TRANSACTION_NOT_ENDED)
_SECOND_NS = 1_000_000_000


class Outage(NamedTuple):
    """Something was unavailable from `start_ns` to `end_ns`; `over`: it was seen to be available then.

    `client`: who waited for an answer to a call, named by `awaited`: it is an outage of all partitions. Without
    a client, `awaited` says what else is to be told of it. What clients ask for ends when they no longer do; all else,
    when nobody observed the lane any more.
    """

    anomaly: RecoveryAnomaly
    partition: int | None
    start_ns: int
    end_ns: int
    over: bool
    client: str = ""
    awaited: str = ""


def outages(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Outage]:
    """All outages of a lane; those of a group also where the lane is the output of its loop."""
    last = _observed_to(run, lane, facts)
    flushes = any(call.call == FLUSH and call.ended_ns is None for call in run.events.calls.get(lane.lane, ()))
    yield from _producers(facts, awaited_to=last if flushes else 0)
    yield from _consumers(lane, facts, last, final_log=run.has_log)
    yield from _passing(run, lane, facts, last)
    yield from _shares(lane, facts, last)
    yield from _idle(run, lane, facts)
    yield from _groups(lane, facts)
    yield from _isrs(run, lane, last)
    yield from _transactions(run, lane, last)
    yield from _calls(run.events.calls.get(lane.lane, ()), facts, last)


def _calls(calls: Iterable[CallNoted], facts: LaneFacts, last: int) -> Iterator[Outage]:
    """The calls that took long, and those without an answer, which count to the end of the phase.

    The end of a transaction is awaited from its beginning: what is called meanwhile is no outage of its own. Nor is the
    wait for outcomes after the load, which prolongs the wait for records (`_producers`).
    """
    for transaction in facts.awaited:
        over = transaction.end_ns is not None
        end = max(last, transaction.begin_ns) if transaction.end_ns is None else transaction.end_ns
        awaited = (transaction.transactional_id, "the end of a transaction")
        for anomaly in (RecoveryAnomaly.STALLED_PRODUCER, RecoveryAnomaly.TRANSACTION_NOT_ENDED):
            yield Outage(anomaly, None, transaction.begin_ns, end, over, *awaited)
    for call in calls:
        within = any(
            one.transactional_id == call.client
            and one.begin_ns <= call.began_ns <= (call.began_ns if one.end_ns is None else one.end_ns)
            for one in facts.awaited
        )
        if not within and call.call != FLUSH:
            end = max(last, call.began_ns) if call.ended_ns is None else call.ended_ns
            over = call.ended_ns is not None
            yield Outage(CALLS[call.call], None, call.began_ns, end, over, call.client, call.call)


def _observed_to(run: RunDirectory, lane: Lane, facts: LaneFacts) -> int:
    """The last moment at which the lane was observed: the end of its phase, or of its history."""
    ends = [phase.ended_ns for phase in run.events.phases_of(lane.lane).values() if phase.ended_ns is not None]
    return max(ends, default=max((pulse.last_ns for pulse in facts.pulses), default=0))


def _producers(facts: LaneFacts, *, awaited_to: int) -> Iterator[Outage]:
    """When records of a partition waited for their acknowledgement. `awaited_to`: until when outcomes were awaited in
    vain after the load, else 0."""
    answers, tried = _by_place(facts.pulses, ACKNOWLEDGED), _by_place(facts.pulses, GIVEN_UP, UNANSWERED)
    for place, sent in _by_place(facts.pulses, SENT).items():
        failed = tried.get(place, [])
        last = max(pulse.last_ns for pulse in (*sent, *failed))
        if place[1] is None:
            # It never had a partition: nobody knows who was to answer, so all that counts is whether anybody did since.
            told = max((pulse.last_ns for of in answers.values() for pulse in of), default=-1)
            if asked := [pulse.asked_ns for pulse in failed if pulse.asked_ns is not None and pulse.asked_ns > told]:
                yield Outage(RecoveryAnomaly.STALLED_PRODUCER, None, min(asked), max(last, awaited_to), False)
            continue
        if any(pulse.what == UNANSWERED for pulse in failed):
            last = max(last, awaited_to)
        for gap in _unacknowledged(answers.get(place, []), failed, last):
            yield Outage(RecoveryAnomaly.STALLED_PRODUCER, place[1], *gap)


def _unacknowledged(answers: Sequence[Pulse], failed: Sequence[Pulse], last: int) -> Iterator[tuple[int, int, bool]]:
    """Between two acknowledgements, from the first record that waited, to the second of them: start, end, whether got.

    Where all that waited was given up, and more was sent only later, that time is one of its own, without an end seen.
    """
    at = 0
    for before, answer in pairwise([None, *answers, None]):
        since = -1 if before is None else before.last_ns
        waits = [] if answer is None else [(max(since, answer.asked_ns or 0), answer.first_ns, True)]
        reached = last if answer is None else answer.first_ns
        missed = []
        while at < len(failed) and (answer is None or failed[at].last_ns < answer.first_ns):
            missed.append(failed[at])
            at += 1
        if missed := [pulse for pulse in missed if pulse.last_ns > since]:
            start = min(max(since, pulse.asked_ns or pulse.first_ns) for pulse in missed)
            end = reached if answer is None else max(pulse.last_ns for pulse in missed)
            waits.append((start, end, False))
        if len(waits) > 1 and waits[0][0] <= waits[1][1]:
            waits = [(min(waits[0][0], waits[1][0]), reached, True)]
        yield from waits


def _consumers(lane: Lane, facts: LaneFacts, last: int, *, final_log: bool) -> Iterator[Outage]:
    due, reads = _by_place(facts.pulses, ACKNOWLEDGED), _by_place(facts.pulses, READ)
    groups = [group for group, source in lane.groups.items() if source == lane.lane]
    come_and_go = {place for place in reads if place[0] not in ("", *groups, share_group_of(lane.lane))}
    for reader in ("", *groups):
        for (_, partition), acknowledged in due.items():
            if partition is None:
                continue
            owns = ("", partition) in reads or not any(place[1] == partition for place in come_and_go)
            for gap in _unread(acknowledged, reads.get((reader, partition), []), last):
                # What was acknowledged and is in no log is due to nobody: who has read all of it waits for nothing.
                # Those who come and go have not read it for the lane's own reader.
                if gap[2] or not (reader or owns) or not _has_read_all(facts, reader, partition, final_log=final_log):
                    yield Outage(RecoveryAnomaly.STALLED_CONSUMER, partition, *gap)


def _shares(lane: Lane, facts: LaneFacts, last: int) -> Iterator[Outage]:
    """When a share group was given nothing, though a record behind all that it had been given was acknowledged.

    It is given records in no order: what is due lies past the highest offset so far. After its last delivery nothing is
    due to a group that is past every record.
    """
    if lane.share is None or facts.share is None:
        return
    due, given = _by_place(facts.pulses, ACKNOWLEDGED), _by_place(facts.pulses, READ)
    for (_, partition), acknowledged in due.items():
        at, highest = 0, -1
        for before, read in pairwise([None, *given.get((share_group_of(lane.lane), partition), ()), None]):
            if before is not None:
                highest = max(highest, before.highest or 0)
            while at < len(acknowledged) and (acknowledged[at].highest or 0) <= highest:
                at += 1
            until = last if read is None else read.first_ns
            since = max(acknowledged[at].last_ns if at < len(acknowledged) else until, before.last_ns if before else 0)
            if since < until and (read is not None or facts.share.undrained):
                yield Outage(RecoveryAnomaly.SHARE_STALLED, partition, since, until, read is not None)


def _passing(run: RunDirectory, lane: Lane, facts: LaneFacts, last: int) -> Iterator[Outage]:
    """The consumers that come and go: each awaits all records from its begin to its end, where somebody says when."""
    due, reads = _by_place(facts.pulses, ACKNOWLEDGED), _by_place(facts.pulses, READ)
    for reader, (began, ended) in run.events.passing.get(lane.lane, {}).items():
        until = 0 if ended is None else min(ended, last)
        for (_, partition), acknowledged in due.items():
            read = reads.get((reader, partition), [])
            due_to = max((pulse.highest or 0 for pulse in acknowledged if pulse.first_ns < until), default=-1)
            has_read = max((pulse.highest or 0 for pulse in read), default=-1) >= due_to
            for since, to, over in _unread(acknowledged, read, until):
                if (start := max(since, began)) < to and (over or not has_read):
                    yield Outage(RecoveryAnomaly.STALLED_CONSUMER, partition, start, to, over, reader, "records")


def attempts(run: RunDirectory, lane: Lane, facts: LaneFacts) -> list[tuple[int, int]]:
    """The spans in which clients of a lane attempted something, merged: they sent, or waited for an answer."""
    last = _observed_to(run, lane, facts)
    spans = [
        (pulse.first_ns if pulse.asked_ns is None else pulse.asked_ns, pulse.last_ns)
        for pulse in facts.pulses
        if pulse.what != READ
    ]
    waits = [(one.began_ns, one.ended_ns) for one in run.events.calls.get(lane.lane, ()) if CALLS[one.call] in _WRITES]
    waits += [(one.begin_ns, one.end_ns) for one in facts.awaited]
    spans += [(begin, last if end is None else end) for begin, end in waits]
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def usual_pause_ns(spans: Sequence[tuple[int, int]]) -> int:
    """How much time usually passes between two attempts: a lane of big transactions may attempt one every minute."""
    return max(_SECOND_NS, int(median([later[0] - earlier[1] for earlier, later in pairwise(spans)] or [0])))


def _idle(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Outage]:
    """While the harness was to load the lane, nothing was attempted for longer than usual.

    That is none of a client that has failed for good, and said so, nor of one that broke the client protocol.
    """
    loads = [phase.load for phase in run.events.phases_of(lane.lane).values() if phase.load is not None]
    source = lane.lane if lane.loop is None else lane.loop.source
    failed = [call for name in (lane.lane, source) for call in run.events.calls.get(name, ()) if call.error is not None]
    if not loads or failed or run.events.doubts.get(lane.lane) or run.timings[lane.lane].request_ms is None:
        return
    spans = attempts(run, lane, facts)
    usual = 3 * usual_pause_ns(spans)
    for begin, end in loads:
        if lane.created_late and spans:
            begin = max(begin, spans[0][0])
        within = [(max(since, begin), min(to, end)) for since, to in spans if to > begin and since < end]
        for (_, since), (until, _) in pairwise([(begin, begin), *within, (end, end)]):
            if until - since > usual:
                over, nobody = until < end, "nothing was attempted"
                yield Outage(RecoveryAnomaly.STALLED_PRODUCER, None, since, until, over, awaited=nobody)


def _has_read_all(facts: LaneFacts, reader: str, partition: int, *, final_log: bool) -> bool:
    place = facts.partitions.get(partition, PartitionFacts())
    if not reader:
        return place.end_reached(final_log=final_log)
    of_group = (at for group in facts.groups if group.group == reader for at in group.partitions)
    read = next((at.processed_to for at in of_group if at.partition == partition), None)
    end = place.end(final_log=final_log)
    return end is None or (read is not None and read >= end)


def _unread(due: Sequence[Pulse], reads: Sequence[Pulse], last: int) -> Iterator[tuple[int, int, bool]]:
    """Between two reads, from when the record of the second was due, to that read: start, end, whether read.

    A record is due from its acknowledgement on, or from the read before it if that came later. What was acknowledged
    and never given, such as a record of an aborted transaction, is not awaited; after the last read, all behind it is.
    """
    if any(pulse.last_offset is not None for pulse in due):
        due = [pulse for pulse in due if pulse.last_offset is not None]
    at, highest = 0, -1
    for before, read in pairwise([None, *reads, None]):
        since, position = (-1, -1) if before is None else (before.last_ns, before.last_offset or 0)
        until = max(last, since) if read is None else read.first_ns
        needed = position + 1 if read is None else read.first_offset or 0
        while at < len(due) and due[at].last_ns <= since:
            highest = max(highest, due[at].highest or 0)
            at += 1
        if needed > position and highest >= needed:
            yield since, until, read is not None
            continue
        later = (pulse for pulse in islice(due, at, None) if pulse.highest is None or pulse.highest >= needed)
        if (pulse := next(later, None)) is not None:
            is_first = pulse.first_ns > since and (pulse.first_offset is None or pulse.first_offset >= needed)
            if (start := pulse.first_ns if is_first else pulse.last_ns) < until:
                yield start, until, read is not None


def _by_place(pulses: Iterable[Pulse], *what: str) -> dict[tuple[str, int | None], list[Pulse]]:
    found: dict[tuple[str, int | None], list[Pulse]] = defaultdict(list)
    for pulse in sorted((pulse for pulse in pulses if pulse.what in what), key=lambda pulse: pulse.first_ns):
        found[pulse.reader, pulse.partition].append(pulse)
    return found


def _isrs(run: RunDirectory, lane: Lane, last: int) -> Iterator[Outage]:
    for (name, partition), changes in run.events.changes.items():
        if name != lane.lane:
            continue
        since: int | None = None
        for seen in sorted((one for one in changes if isinstance(one, IsrChanged)), key=lambda one: one.ts_ns):
            whole = len(set(seen.isr)) >= lane.replication_factor
            if whole and since is not None:
                yield Outage(RecoveryAnomaly.ISR_NOT_RESTORED, partition, since, seen.ts_ns, True)
            since = None if whole else since or seen.ts_ns
        if since is not None:
            yield Outage(RecoveryAnomaly.ISR_NOT_RESTORED, partition, since, max(since, last), False)


def _groups(lane: Lane, facts: LaneFacts) -> Iterator[Outage]:
    owned = defaultdict(list)
    for span in facts.owned:
        if span.group in lane.groups:
            owned[span.group, span.partition].append(span)
    last = max((pulse.last_ns for pulse in facts.pulses if pulse.what == SENT), default=0)
    for (_, partition), spans in owned.items():
        reached = 0
        for span in sorted(spans, key=lambda span: span.start_ns):
            if 0 < reached < span.start_ns:
                yield Outage(RecoveryAnomaly.GROUP_NOT_STABLE, partition, reached, span.start_ns, True)
            # Of a member that was killed nobody knows the end: until the next one begins, it counts as there.
            reached = 0 if span.end_ns is None else max(reached, span.end_ns)
        if 0 < reached < last:
            yield Outage(RecoveryAnomaly.GROUP_NOT_STABLE, partition, reached, last, False)


def _transactions(run: RunDirectory, lane: Lane, last: int) -> Iterator[Outage]:
    for name, partition in run.events.stable:
        if name != lane.lane:
            continue
        stable, high, since = 0, 0, 0
        epoch: int | None = None
        leader: int | None = None
        elected = run.events.elected(name, partition) if run.events.knows_times(name) else []
        reports = run.events.reports.get((name, partition), ())
        # Of one moment, the election of a leader comes first.
        for told in sorted([*elected, *reports, *run.events.stable[name, partition]], key=attrgetter("ts_ns")):
            before = stable
            if isinstance(told, LastStableOffset):
                if leader not in (None, told.broker):
                    continue
                stable = max(stable, told.last_stable_offset)
            elif epoch is not None and told.leader_epoch < epoch:
                # A former leader that does not know of the election yet.
                continue
            else:
                # A new leader may be behind at first, or may have lost what is above the start of its epoch. Where
                # nobody knows its start, its first high watermark is taken for it.
                offset = told.start_offset if isinstance(told, LeaderElected) else told.high_watermark
                if isinstance(told, LeaderElected) or (epoch is not None and told.leader_epoch > epoch):
                    high, stable = min(high, offset), min(stable, offset)
                if isinstance(told, HighWatermark):
                    high = max(high, offset)
                epoch, leader = told.leader_epoch, told.broker
            if since and (stable != before or high <= stable):
                yield Outage(RecoveryAnomaly.TRANSACTION_NOT_ENDED, partition, since, told.ts_ns, True)
                since = 0
            if not since and high > stable:
                since = told.ts_ns
        if since:
            yield Outage(RecoveryAnomaly.TRANSACTION_NOT_ENDED, partition, since, max(since, last), False)
