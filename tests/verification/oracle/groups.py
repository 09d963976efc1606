"""The anomalies of groups and loops in plain Python, obviously right.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible. It shares no
code with the Spark checker, which has to agree with it row by row.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from tests.verification.oracle.rows import Assigned, Commit, Finding, Identity, Place, Read, Transaction, View, named


@dataclass
class Group:
    """A group that reads a lane. `source`: that lane. `output`: the lane that its loop writes, if it is a loop.
    `final`: by partition, the offset that it had committed in the end. `lane`: the name of the lane that it reads."""

    group: str
    source: View
    output: View | None = None
    final: dict[int, int] = field(default_factory=dict)
    lane: str = ""


class Effect(NamedTuple):
    """A commit as it took effect."""

    consumer: str
    partition: int
    offset: int
    invoke_ns: int
    complete_ns: int | None
    outcome: str


class History:
    """The history of a group, partition by partition."""

    def __init__(self, of: Group) -> None:
        self.of = of
        history = of.source.history
        self.assigned = [row for row in history.assignments if row.group == of.group]
        consumers = {row.consumer for row in self.assigned}
        self.reads = [row for row in history.consumed if row.consumer in consumers]
        self.by_assignment: dict[tuple[str, int], list[Read]] = defaultdict(list)
        self.processed: dict[Place, set[Identity]] = defaultdict(set)
        for read in self.reads:
            self.by_assignment[read.consumer, read.partition].append(read)
            self.processed[read.partition, read.offset].add((read.producer_id, read.seq))
        transactions = of.output.history.transactions if of.output is not None else ()
        self.ended: dict[tuple[int | None, int], Transaction] = {
            (row.producer_id, row.transaction): row for row in transactions
        }
        self.commits = [self._effect(row) for row in history.commits if row.group == of.group]
        self.known: dict[int, list[tuple[int, int, int, str, Effect]]] = defaultdict(list)
        for one in self.commits:
            if one.outcome == "ok" and one.complete_ns is not None:
                known = (one.complete_ns, one.offset, one.invoke_ns, one.consumer, one)
                self.known[one.partition].append(known)
        for acknowledged in self.known.values():
            acknowledged.sort()

    def _effect(self, row: Commit) -> Effect:
        complete_ns, outcome = row.complete_ns, row.outcome
        if row.transaction is not None:
            ended = self.ended.get((row.producer_id, row.transaction))
            complete_ns = ended.end_ns if ended is not None else None
            if outcome != "fail":
                known = {"committed": "ok", "aborted": "fail"}
                outcome = known.get(ended.outcome, "info") if ended is not None else "info"
        return Effect(row.consumer, row.partition, row.offset, row.invoke_ns, complete_ns, outcome)

    def of_assignment(self, row: Assigned) -> list[Read]:
        """The records of a partition that a member processed during this assignment."""
        return self.by_assignment.get((row.consumer, row.partition), [])

    def last_before(self, partition: int, ns: float) -> Effect | None:
        """The last commit that was acknowledged before a time."""
        known = self.known.get(partition, [])
        before = bisect_left(known, ns, key=lambda one: one[0])
        return known[before - 1][-1] if before else None

    def first(self) -> dict[int, int]:
        """By partition the first offset that it processed or committed."""
        first: dict[int, int] = {}
        places = [(read.partition, read.offset) for read in self.reads]
        places += [(one.partition, one.offset) for one in self.commits if one.outcome != "fail"]
        for partition, offset in places:
            first[partition] = min(offset, first.get(partition, offset))
        return first

    def past(self) -> dict[int, int]:
        """By partition the offset that the group has committed."""
        past: dict[int, int] = {}
        for one in self.commits:
            if one.outcome == "ok":
                past[one.partition] = max(one.offset, past.get(one.partition, one.offset))
        return past | self.of.final

    def passed(self) -> Iterator[tuple[Place, Identity]]:
        """The records between both that it was to be given, and at whose offset nobody was given another one."""
        first, past = self.first(), self.past()
        for row in self.of.source.history.log or ():
            place, identity = (row.partition, row.offset), (row.producer_id, row.seq)
            others = self.processed.get(place, ())
            is_reused = bool(others) and identity not in others
            in_range = row.partition in first and first[row.partition] <= row.offset < past.get(row.partition, 0)
            known = identity in self.of.source.outcome and place in self.of.source.visible
            if in_range and known and not is_reused:
                yield place, identity


def find_in_groups(groups: Iterable[Group]) -> list[Finding]:
    """All findings of the groups of one lane."""
    histories = [History(group) for group in groups]
    found = [found for history in histories for finder in FINDERS for found in finder(history)]
    return [*found, *_skipped_after_rebalance(histories)]


def _processed_twice(history: History) -> Iterable[Finding]:
    outputs, view = _outputs(history), history.of.source
    several = {identity for identity, count in outputs.items() if identity in view.outcome and count > 1}
    places: dict[Identity, int] = defaultdict(int)
    for row in view.history.log or () if several else ():
        if (row.producer_id, row.seq) in several and (row.partition, row.offset) in view.visible:
            places[row.producer_id, row.seq] += 1
    for identity in several:
        if outputs[identity] > places[identity]:
            cause = f"input of lane {history.of.lane}, with {outputs[identity]} outputs"
            yield named("processed_twice", None, identity, cause)


def _not_processed(history: History) -> Iterable[Finding]:
    output = history.of.output
    if output is not None and output.final_log:
        outputs = _outputs(history)
        for identity in {identity for _, identity in history.passed()}:
            if not outputs.get(identity):
                yield named("not_processed", None, identity, f"input of lane {history.of.lane}")


def _outputs(history: History) -> dict[Identity, int]:
    """By input, how many outputs readers are given."""
    output, counts = history.of.output, dict[Identity, int]()
    if output is None or not output.final_log:
        return counts
    log = output.history.log or ()
    shown = {(row.producer_id, row.seq) for row in log if (row.partition, row.offset) in output.visible}
    for row in output.history.produced:
        if (row.producer_id, row.seq) in shown and row.source_producer_id is not None and row.source_seq is not None:
            identity = (row.source_producer_id, row.source_seq)
            counts[identity] = counts.get(identity, 0) + 1
    return counts


def _commit_lost(history: History) -> Iterable[Finding]:
    lost: dict[Effect, str] = {}

    def lose(known: Effect, seen: str) -> None:
        lost[known] = min(seen, lost.get(known, seen))

    for row in history.assigned:
        given = history.of_assignment(row)
        if given:
            began, at_ns = min(read.offset for read in given), min(read.poll_ns for read in given)
            known = history.last_before(row.partition, row.start_ns)
            if known is None or began >= known.offset or _is_expelled(history, row, known):
                continue
            if not _explained(history, known, began, at_ns):
                lose(known, f"{row.consumer} began at {began}")
    for partition, final in history.of.final.items():
        known = history.last_before(partition, float("inf"))
        if known is not None and final < known.offset and not _explained(history, known, final, float("inf")):
            lose(known, f"in the end, {final} is committed")
    for known, seen in lost.items():
        cause = f"committed by {known.consumer}; {seen}"
        yield named("commit_lost", (known.partition, known.offset), None, cause)


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


def _commit_regressed(history: History) -> Iterable[Finding]:
    for one in history.commits:
        if one.outcome == "ok" and one.complete_ns is not None:
            known = history.last_before(one.partition, one.invoke_ns)
            if known is not None and one.offset < known.offset:
                cause = f"{one.consumer} committed behind {known.offset}, by {known.consumer}"
                yield named("commit_regressed", (one.partition, one.offset), None, cause)


def _skipped_after_rebalance(histories: Iterable[History]) -> Iterable[Finding]:
    skipped: dict[Identity, tuple[Place, str]] = {}
    for history in histories:
        for place, identity in history.passed():
            if place not in history.processed:
                at = (place, history.of.group)
                skipped[identity] = min(at, skipped.get(identity, at))
    for identity, (place, group) in skipped.items():
        yield named("skipped_after_rebalance", place, identity, f"group {group}")
    for history in histories:
        rows = history.of.source.history
        stored = [(row.partition, row.offset) for row in (*(rows.log or ()), *rows.replicas)]
        for partition, past in history.past().items():
            offsets = [offset for number, offset in stored if number == partition]
            if past > max(offsets, default=-1) + 1 and (offsets or not rows.is_cleaned):
                cause = f"group {history.of.group}, past the end of the log"
                yield named("skipped_after_rebalance", (partition, past - 1), None, cause)


def _owned_twice(history: History) -> Iterable[Finding]:
    together: dict[tuple[int, int], list[Assigned]] = defaultdict(list)
    for row in sorted(history.assigned, key=lambda row: (row.start_ns, row.consumer)):
        if row.generation is not None and history.of_assignment(row):
            together[row.partition, row.generation].append(row)
    for (partition, generation), rows in together.items():
        for one, other in combinations(rows, 2):
            if one.member == other.member:
                continue
            first, second = ([read.poll_ns for read in history.of_assignment(row)] for row in (one, other))
            if min(first) <= max(second) and min(second) <= max(first):
                began = min(read.offset for read in history.of_assignment(other))
                cause = f"{one.consumer} and {other.consumer} in generation {generation}"
                yield named("owned_twice", (partition, began), None, cause)


FINDERS: tuple[Callable[[History], Iterable[Finding]], ...] = (
    _processed_twice,
    _not_processed,
    _commit_lost,
    _commit_regressed,
    _owned_twice,
)
FOUND = (*(finder.__name__[1:] for finder in FINDERS), "skipped_after_rebalance")
"""The anomalies that `find_in_groups` finds."""
