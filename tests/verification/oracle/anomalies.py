"""Every anomaly of the client histories, log and replicas, in loops over lists of rows."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from kafka_chaos.contract.anomalies import WIDEST_LISTED_GAP
from tests.verification.oracle.groups import Group, find_in_groups
from tests.verification.oracle.rows import (
    UNDECODABLE,
    Case,
    Finding,
    Identity,
    LaneHistory,
    Place,
    Read,
    View,
    case_order,
    markers_of,
    named,
)
from tests.verification.oracle.transactions import find_in_transactions


def check(history: LaneHistory, groups: Iterable[Group] = ()) -> list[Case]:
    """All cases of one lane and of its groups, sorted; what needs a log is left out where there is none."""
    return sorted((found.case for found in find(View(history), groups)), key=case_order)


def find(view: View, groups: Iterable[Group] = ()) -> list[Finding]:
    """The same with what is known of each case, in no order."""
    finders = [*ALWAYS, *(NEED_LOG if view.final_log else ())]
    found = [case for finder in finders for case in finder(view)]
    return [*found, *find_in_transactions(view), *find_in_groups(groups)]


def _lost_write(view: View) -> Iterable[Finding]:
    for identity, outcome in view.outcome.items():
        if outcome != "ok":
            continue
        place = view.acknowledged.get(identity)
        if view.final_log:
            lost = identity not in view.log and not view.may_be_removed(identity) and view.is_missed(identity)
        else:
            is_awaited = place is not None and not view.history.is_cleaned and view.passed(place)
            lost = is_awaited and identity not in view.read
        if lost:
            yield named("lost_write", place, identity)


def _duplicate(view: View) -> Iterable[Finding]:
    keeps_reads = view.final_log and view.history.is_cleaned and view.history.is_lossless
    told = view.acknowledged if view.history.is_idempotent else {}
    for identity, places in view.log.items():
        gone = {*view.read.get(identity, ()), told.get(identity, max(places))} if keeps_reads else ()
        first = min(*places, *gone, max(places))
        if first < max(places):
            yield named("duplicate", max(places), identity, f"first at {_at(first)}")


def _at(place: Place) -> str:
    return f"partition {place[0]}, offset {place[1]}"


def _false_failure(view: View) -> Iterable[Finding]:
    for identity, outcome in view.outcome.items():
        if outcome == "fail" and (places := view.log.get(identity) or view.read.get(identity)):
            yield named("false_failure", min(places), identity)


def _phantom(view: View) -> Iterable[Finding]:
    held: dict[Place, set[Identity]] = defaultdict(set)
    for row in [*view.history.consumed, *view.history.deliveries, *(view.history.log or ())]:
        identity = (row.producer_id, row.seq)
        if identity == UNDECODABLE or identity not in view.outcome:
            held[row.partition, row.offset].add(identity)
    for place, identities in held.items():
        yield named("phantom", place, max(identities))


def _inconsistent_offset(view: View) -> Iterable[Finding]:
    first: dict[Place, Identity] = {}
    several: dict[Place, set[Identity]] = defaultdict(set)

    def show(place: Place, identity: Identity) -> None:
        if first.setdefault(place, identity) != identity:
            several[place] |= {first[place], identity}

    for identities in (view.log, view.read):
        for identity, places in identities.items():
            for place in places:
                show(place, identity)
    for row in view.genuine(view.history.deliveries):
        show((row.partition, row.offset), (row.producer_id, row.seq))
    for identity, place in view.acknowledged.items():
        show(place, identity)
    for identity, place in view.claimed.items():
        if identity in view.log or identity in view.read:
            show(place, identity)
    for place, found in several.items():
        producer_id, seq = min(found)
        yield named("inconsistent_offset", place, max(found), f"also producer {producer_id}, seq {seq}")


def _offset_mismatch(view: View) -> Iterable[Finding]:
    for identity, place in view.acknowledged.items():
        stored = view.log.get(identity, {place})
        may_be_gone = view.history.is_compacted or view.is_before_log(place)
        has_later = may_be_gone and any(at[0] == place[0] and at > place for at in stored)
        if place not in stored and not has_later:
            yield named("offset_mismatch", place, identity, f"in the log at {_at(min(stored))}")


def _truncated_read(view: View) -> Iterable[Finding]:
    given = {identity: {min(places)} for identity, places in view.read.items()}
    for row in view.genuine(view.history.deliveries):
        given.setdefault((row.producer_id, row.seq), set()).add((row.partition, row.offset))
    for identity, places in given.items():
        kept = [place for place in places if not view.is_before_log(place)]
        if identity not in view.log and kept and view.is_missed(identity):
            yield named("truncated_read", min(kept), identity)


def _unseen(view: View) -> Iterable[Finding]:
    if view.final_log:
        uncommitted = view.read.keys() - {(row.producer_id, row.seq) for row in view.reads_of("read_committed")}
        for identity, places in view.log.items():
            if identity not in view.read and (due := [place for place in places if view.due(place)]):
                yield named("unseen", min(due), identity)
            elif identity in uncommitted and (due := [one for one in places if view.due_if_committed(one)]):
                yield named("unseen", min(due), identity, "read by no read_committed consumer")
    else:
        for identity, place in view.acknowledged.items():
            if not view.passed(place) and identity not in view.read:
                yield named("unseen", place, identity)


def _reordered(view: View) -> Iterable[Finding]:
    first: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for (producer_id, seq), places in view.log.items():
        for partition, offset in places:
            offsets = first[partition, producer_id]
            offsets[seq] = min(offset, offsets.get(seq, offset))
    for (partition, producer_id), offsets in first.items():
        ordered = sorted((offset, seq) for seq, offset in offsets.items())
        for (_, before), (offset, seq) in pairwise(ordered):
            if seq < before:
                yield named("reordered", (partition, offset), (producer_id, seq), f"after seq {before}")


def _deliveries(view: View) -> dict[tuple[str, int], list[Read]]:
    """Per consumer and partition the reads of produced records, in poll order, at one offset by identity."""
    deliveries: dict[tuple[str, int], list[Read]] = defaultdict(list)
    in_order = attrgetter("poll_ns", "offset", "producer_id", "seq")
    for row in sorted(view.genuine(view.history.consumed), key=in_order):
        deliveries[row.consumer, row.partition].append(row)
    return deliveries


def _nonmonotonic_poll(view: View) -> Iterable[Finding]:
    for (consumer, partition), reads in _deliveries(view).items():
        for before, after in pairwise(reads):
            if after.offset <= before.offset and after.poll_ns > before.poll_ns:
                cause = f"{consumer} read it after offset {before.offset}"
                place, identity = (partition, after.offset), (after.producer_id, after.seq)
                yield named("nonmonotonic_poll", place, identity, cause)


def _skipped_poll(view: View) -> Iterable[Finding]:
    deliveries = _deliveries(view)
    stepped = {reader: steps for reader, reads in deliveries.items() if (steps := _stepped_over(reads))}
    if not stepped:
        return
    held: dict[int, dict[int, Identity]] = defaultdict(dict)
    for identity, places in view.log.items():
        for partition, offset in places:
            held[partition][offset] = max(identity, held[partition].get(offset, identity))
    offsets = {partition: sorted(identities) for partition, identities in held.items()}
    delivered: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in view.history.consumed:
        delivered[row.consumer, row.partition].add(row.offset)
    skipped: dict[Place, str] = {}
    for (consumer, partition), steps in stepped.items():
        is_given_all = view.history.timeout_ms is None or view.isolation.get(consumer) == "read_uncommitted"
        of_partition = offsets.get(partition, [])
        for first, end in steps:
            for offset in of_partition[bisect_left(of_partition, first) : bisect_left(of_partition, end)]:
                is_due = is_given_all or (partition, offset) in view.visible
                sent_ns = view.sent_ns[held[partition][offset]]
                passed_ns = min(
                    after.poll_ns
                    for before, after in pairwise(deliveries[consumer, partition])
                    if after.offset > max(offset, before.offset + 1)
                )
                was_there = sent_ns <= passed_ns or not view.final_log
                if is_due and was_there and offset not in delivered[consumer, partition]:
                    skipped[partition, offset] = min(consumer, skipped.get((partition, offset), consumer))
    for (partition, offset), consumer in skipped.items():
        yield named("skipped_poll", (partition, offset), held[partition][offset], f"stepped over by {consumer}")


def _stepped_over(reads: list[Read]) -> list[tuple[int, int]]:
    """The offsets between neighbouring reads that ascend, as ranges that do not overlap: the first, and the end."""
    ranges: list[tuple[int, int]] = []
    steps = ((before.offset + 1, after.offset) for before, after in pairwise(reads))
    for first, end in sorted(step for step in steps if step[0] < step[1]):
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((first, end))
    return ranges


def _offset_gap(view: View) -> Iterable[Finding]:
    held: dict[int, set[int]] = defaultdict(set)
    for row in view.history.log or ():
        held[row.partition].add(row.offset)
    for marker in markers_of(view.history):
        held[marker.partition].add(marker.offset)
    for partition, offsets in held.items():
        for before, after in pairwise(sorted(offsets)):
            if after > before + 1:
                width, cause = after - before - 1, f"hole from offset {before + 1} to {after - 1}"
                listed = range(before + 1, after) if width <= WIDEST_LISTED_GAP else [before + 1]
                units = 1 if width <= WIDEST_LISTED_GAP else width
                for offset in listed:
                    yield named("offset_gap", (partition, offset), None, cause, units)


class _Content(NamedTuple):
    """The content of a replica at an offset."""

    leader_epoch: int
    producer_id: int
    seq: int
    kind: str

    def __str__(self) -> str:
        return f"epoch {self.leader_epoch}: {self.kind} of producer {self.producer_id}, seq {self.seq}"


def _replica_divergence(view: View) -> Iterable[Finding]:
    ends: dict[int, dict[int, int]] = defaultdict(dict)
    first: dict[Place, _Content] = {}
    several: dict[Place, set[_Content]] = defaultdict(set)
    for row in view.history.replicas:
        broker_ends = ends[row.partition]
        broker_ends[row.broker] = max(row.offset + 1, broker_ends.get(row.broker, 0))
        content = _Content(row.leader_epoch, row.producer_id, row.seq, row.kind or "data")
        place = (row.partition, row.offset)
        if first.setdefault(place, content) != content:
            several[place] |= {first[place], content}
    for (partition, offset), contents in several.items():
        limit = view.history.high_watermarks.get(partition, min(ends[partition].values()))
        lowest, highest = min(contents), max(contents)
        is_unnamed = lowest.producer_id == -1 and lowest.kind != "data"
        if offset < limit and not (is_unnamed and lowest == highest._replace(producer_id=-1)):
            identity = (highest.producer_id, highest.seq)
            yield named("replica_divergence", (partition, offset), identity, f"{lowest}; {highest}")


Finder = Callable[[View], Iterable[Finding]]
ALWAYS: tuple[Finder, ...] = (
    _lost_write,
    _duplicate,
    _false_failure,
    _phantom,
    _inconsistent_offset,
    _unseen,
    _reordered,
    _nonmonotonic_poll,
    _skipped_poll,
    _replica_divergence,
)
NEED_LOG: tuple[Finder, ...] = (_offset_mismatch, _truncated_read, _offset_gap)
