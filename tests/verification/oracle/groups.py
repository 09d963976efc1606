"""The anomalies of groups and loops in plain Python, obviously right.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible. It shares no
code with the Spark checker, which has to agree with it row by row.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from tests.verification.oracle.rows import Assigned, Commit, Finding, Identity, Place, Read, Transaction, View, named
from tests.verification.oracle.transactions import Transactions


@dataclass
class Group:
    """A group that reads a lane. `source`: that lane. `output`: the lane that its loop writes, if it is a loop.
    `final`: by partition, the offset that it had committed in the end. `lane`: the name of the lane that it reads.
    `is_new`: it began at the first record of its topic. `is_automatic`: its clients commit by themselves; `by_epoch`:
    each member has an epoch of its own (KIP-848). `at_end`: members only skip records by a reset to the end."""

    group: str
    source: View
    output: View | None = None
    final: dict[int, int] = field(default_factory=dict)
    lane: str = ""
    is_new: bool = False
    is_automatic: bool = False
    is_in_transaction: bool = False
    by_epoch: bool = False
    at_end: bool = False


class History:
    """The history of a group, partition by partition."""

    def __init__(self, of: Group) -> None:
        self.of = of
        history = of.source.history
        self.assigned = [row for row in history.assignments if row.group == of.group]
        consumers = {row.consumer for row in self.assigned}
        self.reads = [row for row in history.consumed if row.consumer in consumers]
        self.members: dict[str, str] = {}
        for row in self.assigned:
            self.members[row.consumer] = max(row.member, self.members.get(row.consumer, row.member))
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
        self.known: dict[int, list[Commit]] = defaultdict(list)
        for one in sorted(self.commits, key=lambda of: (of.complete_ns or 0, of.offset, of.invoke_ns, of.consumer)):
            if one.outcome == "ok" and one.complete_ns is not None:
                self.known[one.partition].append(one)

    def _effect(self, row: Commit) -> Commit:
        complete_ns, outcome = row.complete_ns, row.outcome
        if row.transaction is not None:
            ended = self.ended.get((row.producer_id, row.transaction))
            complete_ns = ended.end_ns if ended is not None else None
            if outcome != "fail":
                known = {"committed": "ok", "aborted": "fail"}
                outcome = known.get(ended.outcome, "info") if ended is not None else "info"
        return row._replace(complete_ns=complete_ns, outcome=outcome, producer_id=None, transaction=None)

    def of_assignment(self, row: Assigned) -> list[Read]:
        """The records of a partition that a member processed during this assignment."""
        return self.by_assignment.get((row.consumer, row.partition), [])

    def last_before(self, partition: int, ns: float) -> Commit | None:
        """The last commit that was acknowledged before a time."""
        known = self.known.get(partition, [])
        before = bisect_left(known, ns, key=lambda one: one.complete_ns or 0)
        return known[before - 1] if before else None

    def is_older(self, one: Assigned | Commit, known: Commit) -> bool:
        """Whether it is of an older generation than the known commit: its member is not heard any more."""

        def generation(of: Assigned | Commit) -> int | None:
            rows = [row for row in self.assigned if (row.consumer, row.partition) == (of.consumer, of.partition)]
            return max((row.generation for row in rows if row.generation is not None), default=None)

        own, other = generation(one), generation(known)
        return own is not None and other is not None and own < other

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
        """The records before the offset that it has committed that it was to be given, and at whose offset nobody was
        given another one."""
        first, past = self.first(), self.past()
        for row in self.of.source.history.log or ():
            place, identity = (row.partition, row.offset), (row.producer_id, row.seq)
            others = self.processed.get(place, ())
            is_reused = bool(others) and identity not in others
            begins = 0 if self.of.is_new else first.get(row.partition, row.offset + 1)
            in_range = begins <= row.offset < past.get(row.partition, 0)
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
    places: dict[Identity, set[Place]] = defaultdict(set)
    stored = [row for row in view.history.log or () if (row.partition, row.offset) in view.visible]
    for row in (*stored, *history.reads) if several else ():
        places[row.producer_id, row.seq].add((row.partition, row.offset))
    for identity in several:
        if outputs[identity] > len(places[identity]):
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
    lost: dict[Commit, str] = {}

    def lose(known: Commit, seen: str) -> None:
        lost[known] = min(seen, lost.get(known, seen))

    for row in history.assigned:
        given = history.of_assignment(row)
        if given:
            began, at_ns = min(read.offset for read in given), min(read.poll_ns for read in given)
            known = history.last_before(row.partition, row.start_ns)
            if known is None or history.is_older(row, known):
                continue
            if began >= known.offset:
                of_others = (one for one in history.commits if one.consumer != row.consumer and one.outcome != "fail")
                ahead = (one for one in of_others if one.partition == row.partition and one.offset > known.offset)
                skipped = (
                    {place for place, _ in history.passed()} - history.processed.keys() if history.of.at_end else ()
                )
                is_past = any(number == row.partition and known.offset <= at < began for number, at in skipped)
                if is_past and all(one.invoke_ns >= at_ns for one in ahead):
                    lose(known, f"{row.consumer} began at {began}")
                continue
            went_on = min(began, _went_on(history, known, row.consumer, at_ns, default=began))
            if not _explained(history, known, began, went_on, at_ns):
                lose(known, f"{row.consumer} began at {began}")
    for partition, final in history.of.final.items():
        known = history.last_before(partition, float("inf"))
        if known is not None and final < known.offset and not _explained(history, known, final, final, None):
            lose(known, f"in the end, {final} is committed")
    for known, seen in lost.items():
        cause = f"committed by {known.consumer}; {seen}"
        yield named("commit_lost", (known.partition, known.offset), None, cause)


def _went_on(history: History, known: Commit, consumer: str, at_ns: int, default: int) -> int:
    """The lowest offset that the consumer's member was given between an acknowledged commit and a time."""
    own = {name for name, member in history.members.items() if member == history.members.get(consumer)}
    reads = (read for read in history.reads if read.consumer in own and read.partition == known.partition)
    return min((read.offset for read in reads if (known.complete_ns or 0) < read.poll_ns <= at_ns), default=default)


def _explained(history: History, lost: Commit, shown: int, went_on: int, at_ns: int | None) -> bool:
    """Whether another commit, of the offset from which the group went on, may have taken effect after the lost one.

    Where not every commit is known, or offsets have gaps, also one of a lower offset. `at_ns`: None at the end.
    """
    source = history.of.source.history
    has_gaps = at_ns is not None and (source.is_cleaned or source.timeout_ms is not None)
    for other in history.commits:
        ended = other.complete_ns if other.outcome == "ok" and other.complete_ns is not None else float("inf")
        is_other = (other.offset, other.invoke_ns) != (lost.offset, lost.invoke_ns)
        is_later = other.outcome != "fail" and ended > lost.invoke_ns and (at_ns is None or other.invoke_ns < at_ns)
        is_below = other.offset < went_on and (has_gaps or history.of.is_automatic)
        leads_there = other.offset == went_on or is_below
        if not history.of.is_in_transaction and history.is_older(other, lost):
            continue
        if other.partition == lost.partition and is_other and is_later and leads_there and went_on <= shown:
            return True
    return False


def _commit_regressed(history: History) -> Iterable[Finding]:
    for one in history.commits:
        if one.outcome == "ok" and one.complete_ns is not None:
            known = history.last_before(one.partition, one.invoke_ns)
            if known is None or one.offset >= known.offset:
                continue
            went_on = _went_on(history, known, one.consumer, one.invoke_ns, default=one.offset + 1)
            if not _explained(history, known, one.offset, went_on, one.invoke_ns):
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
        unmarked = {(row.partition, row.producer_id) for _, row, _ in Transactions(history.of.source).open_records()}
        for partition, past in history.past().items():
            offsets = [offset for number, offset in stored if number == partition]
            markers = sum(of == partition for of, _ in unmarked)
            if past > max(offsets, default=-1) + 1 + markers and (offsets or not rows.is_cleaned):
                cause = f"group {history.of.group}, past the end of the log"
                yield named("skipped_after_rebalance", (partition, past - 1), None, cause)


def _owned_twice(history: History) -> Iterable[Finding]:
    together: dict[int, list[Assigned]] = defaultdict(list)
    for row in sorted(history.assigned, key=lambda row: (row.start_ns, row.consumer)):
        if row.generation is not None and row.generation >= history.of.by_epoch and history.of_assignment(row):
            together[row.partition].append(row)
    for partition, rows in together.items():
        for one, other in combinations(rows, 2):
            first, second = ([read.poll_ns for read in history.of_assignment(row)] for row in (one, other))
            in_one, is_by = one.generation == other.generation, min(first) <= max(second) and min(second) <= max(first)
            commits = (row for row in history.commits if (row.consumer, row.partition) == (one.consumer, partition))
            asked = (row.invoke_ns for row in commits if row.outcome == "ok" and history.of.by_epoch)
            is_late = any(min(second) < ns and (one.end_ns is None or ns < one.end_ns) for ns in asked)
            if one.member != other.member and ((is_late and one.generation <= other.generation) or (in_one and is_by)):
                began = min(read.offset for read in history.of_assignment(other))
                epochs = f", in epochs {one.generation} and {other.generation}"
                cause = f"{one.consumer} and {other.consumer}{f' in generation {one.generation}' if in_one else epochs}"
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
