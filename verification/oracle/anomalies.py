"""Every anomaly of the client histories, log and replicas in plain Python, obviously right.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible and without
regard to speed. It shares no code with the Spark checker, which has to agree with it row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from kafka_chaos.verification.oracle import groups as of_groups
from kafka_chaos.verification.oracle.groups import Group, check_groups
from kafka_chaos.verification.oracle.rows import Identity, LaneHistory, Place, Read, View
from kafka_chaos.verification.oracle.transactions import FOUND, check_transactions

UNDECODABLE = (-1, -1)


class Case(NamedTuple):
    """One counted unit: the anomaly and the record or place that it names."""

    anomaly: str
    partition: int | None
    offset: int | None
    producer_id: int | None
    seq: int | None


def check(history: LaneHistory, groups: Iterable[Group] = ()) -> list[Case]:
    """All cases of one lane and of its groups, sorted; what needs a log is left out where there is none."""
    view = View(history)
    finders = [*ALWAYS, *(NEED_LOG if history.log is not None else ())]
    cases = [case for finder in finders for case in finder(view)]
    cases += [_case(*found) for found in (*check_transactions(history), *check_groups(groups))]
    return sorted(cases, key=case_order)


def check_sample(history: LaneHistory) -> list[Case]:
    """The cases that are counted in identities and need no other record, where the lane's rows are those of a sample.

    The sample must hold all rows of each of its records.
    """
    view = View(history)
    finders = (_lost_write, _offset_mismatch, _truncated_read) if history.log is not None else ()
    return sorted((case for finder in (_duplicate, _false_failure, *finders) for case in finder(view)), key=case_order)


def case_order(case: Case) -> tuple[object, ...]:
    """A sort key for cases; a missing value comes first."""
    return tuple((value is not None, value) for value in case)


def _case(anomaly: str, place: Place | None, identity: Identity | None) -> Case:
    return Case(anomaly, *(place or (None, None)), *(identity or (None, None)))


def _lost_write(view: View) -> Iterable[Case]:
    for identity, outcome in view.outcome.items():
        if outcome != "ok":
            continue
        place = view.acknowledged.get(identity)
        if view.final_log:
            lost = identity not in view.log
        else:
            lost = place is not None and view.passed(place) and identity not in view.read
        if lost:
            yield _case("lost_write", place, identity)


def _duplicate(view: View) -> Iterable[Case]:
    for identity, places in view.log.items():
        if len(places) > 1:
            yield _case("duplicate", max(places), identity)


def _false_failure(view: View) -> Iterable[Case]:
    for identity, outcome in view.outcome.items():
        places = view.log.get(identity) or view.read.get(identity)
        if outcome == "fail" and places:
            yield _case("false_failure", min(places), identity)


def _phantom(view: View) -> Iterable[Case]:
    held: dict[Place, set[Identity]] = defaultdict(set)
    for row in [*view.history.consumed, *(view.history.log or ())]:
        identity = (row.producer_id, row.seq)
        if identity == UNDECODABLE or identity not in view.outcome:
            held[row.partition, row.offset].add(identity)
    for place, identities in held.items():
        yield _case("phantom", place, max(identities))


def _inconsistent_offset(view: View) -> Iterable[Case]:
    held: dict[Place, set[Identity]] = defaultdict(set)
    for identities in (view.log, view.read):
        for identity, places in identities.items():
            for place in places:
                held[place].add(identity)
    for identity, place in view.acknowledged.items():
        held[place].add(identity)
    for identity, place in view.claimed.items():
        if identity in view.log or identity in view.read:
            held[place].add(identity)
    for place, found in held.items():
        if len(found) > 1:
            yield _case("inconsistent_offset", place, max(found))


def _offset_mismatch(view: View) -> Iterable[Case]:
    for identity, place in view.acknowledged.items():
        if identity in view.log and place not in view.log[identity]:
            yield _case("offset_mismatch", place, identity)


def _truncated_read(view: View) -> Iterable[Case]:
    for identity, places in view.read.items():
        if identity not in view.log:
            yield _case("truncated_read", min(places), identity)


def _unseen(view: View) -> Iterable[Case]:
    if view.final_log:
        for identity, places in view.log.items():
            due = [place for place in places if view.due(place)]
            if due and identity not in view.read:
                yield _case("unseen", min(due), identity)
    else:
        for identity, place in view.acknowledged.items():
            if not view.passed(place) and identity not in view.read:
                yield _case("unseen", place, identity)


def _reordered(view: View) -> Iterable[Case]:
    first: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for (producer_id, seq), places in view.log.items():
        for partition, offset in places:
            offsets = first[partition, producer_id]
            offsets[seq] = min(offset, offsets.get(seq, offset))
    for (partition, producer_id), offsets in first.items():
        ordered = sorted((offset, seq) for seq, offset in offsets.items())
        for (_, before), (offset, seq) in pairwise(ordered):
            if seq < before:
                yield _case("reordered", (partition, offset), (producer_id, seq))


def _poll_order(row: Read) -> tuple[int, ...]:
    return row.poll_ns, row.offset, row.producer_id, row.seq


def _deliveries(view: View) -> dict[tuple[str, int], list[Read]]:
    """Per consumer and partition the reads of produced records, in poll order, at one offset by identity."""
    deliveries: dict[tuple[str, int], list[Read]] = defaultdict(list)
    for row in sorted(view.genuine(view.history.consumed), key=_poll_order):
        deliveries[row.consumer, row.partition].append(row)
    return deliveries


def _nonmonotonic_poll(view: View) -> Iterable[Case]:
    for (_, partition), reads in _deliveries(view).items():
        for before, after in pairwise(reads):
            if after.offset <= before.offset:
                yield _case("nonmonotonic_poll", (partition, after.offset), (after.producer_id, after.seq))


def _skipped_poll(view: View) -> Iterable[Case]:
    held: dict[Place, set[Identity]] = defaultdict(set)
    for identity, places in view.log.items():
        for place in places:
            held[place].add(identity)
    skipped: set[Place] = set()
    for (consumer, partition), reads in _deliveries(view).items():
        is_given_all = view.history.timeout_ms is None or view.isolation(consumer) == "read_uncommitted"
        delivered = {
            row.offset for row in view.history.consumed if row.consumer == consumer and row.partition == partition
        }
        for before, after in pairwise(reads):
            for offset in range(before.offset + 1, after.offset):
                is_due = (partition, offset) in held and (is_given_all or (partition, offset) in view.visible)
                if is_due and offset not in delivered:
                    skipped.add((partition, offset))
    for place in skipped:
        yield _case("skipped_poll", place, max(held[place]))


def _offset_gap(view: View) -> Iterable[Case]:
    offsets: dict[int, set[int]] = defaultdict(set)
    for row in view.history.log or ():
        offsets[row.partition].add(row.offset)
    for marker in view.history.replicas:
        if marker.kind in ("commit", "abort"):
            offsets[marker.partition].add(marker.offset)
    for partition, held in offsets.items():
        for offset in range(min(held), max(held)):
            if offset not in held:
                yield _case("offset_gap", (partition, offset), None)


def _replica_divergence(view: View) -> Iterable[Case]:
    ends: dict[int, dict[int, int]] = defaultdict(dict)
    contents: dict[Place, set[tuple[int, int, int, str]]] = defaultdict(set)
    for row in view.history.replicas:
        broker_ends = ends[row.partition]
        broker_ends[row.broker] = max(row.offset + 1, broker_ends.get(row.broker, 0))
        contents[row.partition, row.offset].add((row.leader_epoch, row.producer_id, row.seq, row.kind or "data"))
    for (partition, offset), found in contents.items():
        limit = view.history.high_watermarks.get(partition, min(ends[partition].values()))
        if offset < limit and len(found) > 1:
            _, producer_id, seq, _ = max(found)
            yield _case("replica_divergence", (partition, offset), (producer_id, seq))


Finder = Callable[[View], Iterable[Case]]
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
LOOKED_FOR = (*(finder.__name__[1:] for finder in (*ALWAYS, *NEED_LOG)), *FOUND, *of_groups.FOUND)
"""The anomalies that `check` finds."""
SAMPLED = ("lost_write", "duplicate", "false_failure", "offset_mismatch", "truncated_read")
"""Those that `check_sample` finds, given a final log; without one, the second and the third."""
