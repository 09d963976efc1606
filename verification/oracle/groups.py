"""The anomalies of groups and loops in plain Python, obviously right.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible and without
regard to speed. It shares no code with the Spark checker, which has to agree with it row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from kafka_chaos.verification.oracle.rows import Assigned, Commit, Identity, LaneHistory, Place, Read, View
from kafka_chaos.verification.oracle.transactions import Found


@dataclass
class Group:
    """A group that reads a lane. `source`: that lane's rows. `output`: those of the lane that its loop writes, if it is
    a loop. `final`: by partition, the offset that it had committed in the end."""

    group: str
    source: LaneHistory
    output: LaneHistory | None = None
    final: dict[int, int] = field(default_factory=dict)


class Effect(NamedTuple):
    """A commit as it took effect."""

    consumer: str
    partition: int
    offset: int
    invoke_ns: int
    complete_ns: int | None
    outcome: str


class History:
    """What a group did, partition by partition."""

    def __init__(self, of: Group) -> None:
        self.of = of
        self.assigned = [row for row in of.source.assignments if row.group == of.group]
        consumers = {row.consumer for row in self.assigned}
        self.reads = [row for row in of.source.consumed if row.consumer in consumers]
        self.commits = [self._effect(row) for row in of.source.commits if row.group == of.group]

    def _effect(self, row: Commit) -> Effect:
        complete_ns, outcome = row.complete_ns, row.outcome
        if row.transaction is not None:
            ended = [
                one
                for one in (self.of.output.transactions if self.of.output is not None else ())
                if (one.producer_id, one.transaction) == (row.producer_id, row.transaction)
            ]
            complete_ns = ended[0].end_ns if ended else None
            if outcome != "fail":
                known = {"committed": "ok", "aborted": "fail"}
                outcome = known.get(ended[0].outcome, "info") if ended else "info"
        return Effect(row.consumer, row.partition, row.offset, row.invoke_ns, complete_ns, outcome)

    def of_assignment(self, row: Assigned) -> list[Read]:
        """What a member processed of a partition while it was assigned so."""
        return [read for read in self.reads if (read.consumer, read.partition) == (row.consumer, row.partition)]

    def last_before(self, partition: int, ns: float) -> Effect | None:
        """The last commit that was acknowledged before a time."""
        known = [
            (one.complete_ns, one.offset, one.invoke_ns, one.consumer, one)
            for one in self.commits
            if one.partition == partition
            and one.outcome == "ok"
            and one.complete_ns is not None
            and one.complete_ns < ns
        ]
        return max(known)[-1] if known else None

    def past(self, partition: int) -> int:
        """The offset that the group has committed."""
        acknowledged = [one.offset for one in self.commits if one.partition == partition and one.outcome == "ok"]
        return self.of.final.get(partition, max(acknowledged, default=0))

    def first(self, partition: int) -> float:
        """The first offset that it processed or committed."""
        processed = [read.offset for read in self.reads if read.partition == partition]
        committed = [one.offset for one in self.commits if one.partition == partition and one.outcome != "fail"]
        return min([*processed, *committed], default=float("inf"))

    def passed(self) -> Iterator[tuple[Place, Identity]]:
        """The records between both that it was to be given, and at whose offset nobody was given another one."""
        view = View(self.of.source)
        for row in self.of.source.log or ():
            place, identity = (row.partition, row.offset), (row.producer_id, row.seq)
            others = {(read.producer_id, read.seq) for read in self.reads if (read.partition, read.offset) == place}
            is_reused = bool(others) and identity not in others
            in_range = self.first(row.partition) <= row.offset < self.past(row.partition)
            if identity in view.outcome and place in view.visible and in_range and not is_reused:
                yield place, identity


def check_groups(groups: Iterable[Group]) -> list[Found]:
    """All cases of the groups of one lane."""
    return [found for group in groups for finder in FINDERS for found in finder(History(group))]


def _processed_twice(history: History) -> Iterable[Found]:
    outputs = _outputs(history)
    view = View(history.of.source)
    places: dict[Identity, int] = defaultdict(int)
    for row in history.of.source.log or ():
        if (row.partition, row.offset) in view.visible:
            places[row.producer_id, row.seq] += 1
    for identity, count in outputs.items():
        if identity in view.outcome and count > max(places[identity], 1):
            yield Found("processed_twice", None, identity)


def _not_processed(history: History) -> Iterable[Found]:
    outputs = _outputs(history)
    if history.of.output is not None and history.of.output.log is not None:
        for identity in {identity for _, identity in history.passed()}:
            if not outputs.get(identity):
                yield Found("not_processed", None, identity)


def _outputs(history: History) -> dict[Identity, int]:
    """By input, how many outputs readers are given."""
    output, counts = history.of.output, dict[Identity, int]()
    if output is None or output.log is None:
        return counts
    visible = View(output).visible
    shown = {(row.producer_id, row.seq) for row in output.log if (row.partition, row.offset) in visible}
    for row in output.produced:
        if (row.producer_id, row.seq) in shown and row.source_producer_id is not None and row.source_seq is not None:
            identity = (row.source_producer_id, row.source_seq)
            counts[identity] = counts.get(identity, 0) + 1
    return counts


def _commit_lost(history: History) -> Iterable[Found]:
    lost: set[Effect] = set()
    for row in history.assigned:
        given = history.of_assignment(row)
        if given:
            began, at_ns = min(read.offset for read in given), min(read.poll_ns for read in given)
            known = history.last_before(row.partition, row.start_ns)
            if known is None or began >= known.offset or _is_expelled(history, row, known):
                continue
            if not _explained(history, known, began, at_ns):
                lost.add(known)
    for partition, final in history.of.final.items():
        known = history.last_before(partition, float("inf"))
        if known is not None and final < known.offset and not _explained(history, known, final, float("inf")):
            lost.add(known)
    for known in lost:
        yield Found("commit_lost", (known.partition, known.offset), None)


def _is_expelled(history: History, row: Assigned, known: Effect) -> bool:
    """Whether the assignment is of an older generation than the commit: its member is not in the group any more."""

    def newest(consumer: str) -> int | None:
        found = [one for one in history.assigned if (one.consumer, one.partition) == (consumer, row.partition)]
        return max((one.generation for one in found if one.generation is not None), default=None)

    own, other = newest(row.consumer), newest(known.consumer)
    return own is not None and other is not None and own < other


def _explained(history: History, lost: Effect, seen: int, at_ns: float) -> bool:
    """Whether another commit at or below what was seen may have taken effect after the lost one."""
    for other in history.commits:
        ended = other.complete_ns if other.outcome == "ok" and other.complete_ns is not None else float("inf")
        is_other = (other.offset, other.invoke_ns) != (lost.offset, lost.invoke_ns)
        may_be_later = other.outcome != "fail" and ended > lost.invoke_ns and other.invoke_ns < at_ns
        if other.partition == lost.partition and is_other and may_be_later and other.offset <= seen:
            return True
    return False


def _commit_regressed(history: History) -> Iterable[Found]:
    for one in history.commits:
        if one.outcome == "ok" and one.complete_ns is not None:
            known = history.last_before(one.partition, one.invoke_ns)
            if known is not None and one.offset < known.offset:
                yield Found("commit_regressed", (one.partition, one.offset), None)


def _skipped_after_rebalance(history: History) -> Iterable[Found]:
    processed = {(read.partition, read.offset) for read in history.reads}
    skipped: dict[Identity, Place] = {}
    for place, identity in history.passed():
        if place not in processed:
            skipped[identity] = min(place, skipped.get(identity, place))
    for identity, place in skipped.items():
        yield Found("skipped_after_rebalance", place, identity)


def _owned_twice(history: History) -> Iterable[Found]:
    for one, other in combinations(sorted(history.assigned, key=lambda row: (row.start_ns, row.consumer)), 2):
        same = (one.partition, one.generation) == (other.partition, other.generation)
        if not same or one.generation is None or one.member == other.member:
            continue
        first, second = (history.of_assignment(row) for row in (one, other))
        if not first or not second:
            continue
        first_ns, second_ns = [read.poll_ns for read in first], [read.poll_ns for read in second]
        if min(first_ns) <= max(second_ns) and min(second_ns) <= max(first_ns):
            yield Found("owned_twice", (other.partition, min(read.offset for read in second)), None)


FINDERS: tuple[Callable[[History], Iterable[Found]], ...] = (
    _processed_twice,
    _not_processed,
    _commit_lost,
    _commit_regressed,
    _skipped_after_rebalance,
    _owned_twice,
)
FOUND = tuple(finder.__name__[1:] for finder in FINDERS)
"""The anomalies that `check_groups` finds."""
