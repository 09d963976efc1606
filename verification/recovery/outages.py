"""How long each part of a lane was unavailable, by what was observed of it. Pure Python, no Spark.

Guarantee: an outage counts from the first moment at which somebody asked for something, to the moment at which somebody
got something again. One that nobody saw the end of counts up to the last moment that was observed.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import attrgetter
from typing import NamedTuple

from kafka_chaos.contract.events import HighWatermark, IsrChanged, LastStableOffset, LeaderElected
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.documents.faults import MISTIMED
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.facts import GroupPartitionFacts, LaneFacts, PartitionFacts, Pulse

SENT, ACKNOWLEDGED, GIVEN_UP, READ = "sent", "acknowledged", "given up", "read"


class Outage(NamedTuple):
    """Something was unavailable from `start_ns` to `end_ns`; `over`: it was seen to be available then.

    What clients ask for ends when they no longer do; all else, when nobody observed the lane any more.
    """

    anomaly: RecoveryAnomaly
    partition: int | None
    start_ns: int
    end_ns: int
    over: bool


def outages(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Iterator[Outage]:
    """All of a lane; those of a group also where the lane is the output of its loop."""
    yield from _producers(facts)
    yield from _consumers(lane, facts, final_log=run.has_log)
    yield from _groups(lane, facts)
    last = _observed_to(run, lane, facts)
    yield from _isrs(run, lane, last)
    yield from _transactions(run, lane, last)


def _observed_to(run: RunDirectory, lane: Lane, facts: LaneFacts) -> int:
    """The last moment at which the lane was observed: the end of its phase, or of its history."""
    ends = [phase.ended_ns for phase in run.events.phases_of(lane.lane).values() if phase.ended_ns is not None]
    return max(ends, default=max((pulse.last_ns for pulse in facts.pulses), default=0))


def _producers(facts: LaneFacts) -> Iterator[Outage]:
    asked = _by_place(facts.pulses, SENT)
    answered = _by_place(facts.pulses, ACKNOWLEDGED)
    tried = _by_place(facts.pulses, GIVEN_UP)
    for place, sent in asked.items():
        if place[1] is None:
            # It never had a partition: nobody knows who was to answer.
            continue
        last = max(pulse.last_ns for pulse in (*sent, *tried.get(place, ())))
        found = _gaps(sent, answered.get(place, []), last)
        yield from (Outage(RecoveryAnomaly.STALLED_PRODUCER, place[1], *gap) for gap in found)


def _consumers(lane: Lane, facts: LaneFacts, *, final_log: bool) -> Iterator[Outage]:
    due, reads = _by_place(facts.pulses, ACKNOWLEDGED), _by_place(facts.pulses, READ)
    last = max((one.last_ns for one in facts.pulses), default=0)
    groups = [group for group, source in groups_of_lane(lane).items() if source == lane.lane]
    come_and_go = {place for place in reads if place[0] not in ("", *groups)}
    for reader in ("", *groups):
        for (_, partition), acknowledged in due.items():
            if partition is None:
                continue
            owns = ("", partition) in reads or not any(place[1] == partition for place in come_and_go)
            for gap in _gaps(acknowledged, reads.get((reader, partition), []), last):
                # What was acknowledged and is in no log is due to nobody: who has read all of it waits for nothing.
                # Those who come and go have not read it for the lane's own reader.
                if gap[2] or not (reader or owns) or not _has_read_all(facts, reader, partition, final_log=final_log):
                    yield Outage(RecoveryAnomaly.STALLED_CONSUMER, partition, *gap)


def _has_read_all(facts: LaneFacts, reader: str, partition: int, *, final_log: bool) -> bool:
    place = facts.partitions.get(partition, PartitionFacts())
    if not reader:
        return place.end_reached(final_log=final_log)
    group = next((one for one in facts.groups if one.group == reader), None)
    read = None if group is None else group.partitions.get(partition, GroupPartitionFacts()).processed_to
    end = place.end(final_log=final_log)
    return end is None or (read is not None and read >= end)


def _gaps(asked: Sequence[Pulse], got: Sequence[Pulse], last: int) -> Iterator[tuple[int, int, bool]]:
    """From the first request after each time that something was got, to the next time: start, end, whether got."""
    starts = [pulse.first_ns for pulse in asked]
    bounds = list(chain.from_iterable((pulse.first_ns, pulse.last_ns) for pulse in got))
    for before, after in pairwise([-1, *bounds, max(last, *bounds, 0) + 1]):
        at = bisect_left(starts, before)
        # The pulse before may end with a request that nobody has answered yet: its last is known to be one.
        waits = [starts[at]] if at < len(starts) else []
        waits += [asked[at - 1].last_ns] if at and asked[at - 1].last_ns > before else []
        over = after <= (bounds[-1] if bounds else -1)
        if waits and min(waits) < after:
            yield min(waits), after if over else last, over


def _by_place(pulses: Iterable[Pulse], what: str) -> dict[tuple[str, int | None], list[Pulse]]:
    found: dict[tuple[str, int | None], list[Pulse]] = defaultdict(list)
    for pulse in sorted((one for one in pulses if one.what == what), key=lambda one: one.first_ns):
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
    for one in facts.owned:
        if one.group in groups_of_lane(lane):
            owned[one.group, one.partition].append(one)
    last = max((pulse.last_ns for pulse in facts.pulses if pulse.what == SENT), default=0)
    for (_, partition), spans in owned.items():
        reached = 0
        for span in sorted(spans, key=lambda one: one.start_ns):
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
        for told in _offsets(run, lane, partition):
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


def _offsets(run: RunDirectory, lane: Lane, partition: int) -> list[LeaderElected | HighWatermark | LastStableOffset]:
    """What was told of a partition's offsets, in order; of one moment, where a leader began comes first."""
    place = (lane.lane, partition)
    # Where clocks were moved, nobody knows when brokers logged an election.
    mistimed = any(fault.kind in MISTIMED for fault in run.events.concerning(lane.lane))
    elected = [] if mistimed else run.events.elected(*place)
    return sorted([*elected, *run.events.reports.get(place, ()), *run.events.stable[place]], key=attrgetter("ts_ns"))
