"""The anomalies of transactions in plain Python, obviously right.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible. It shares no
code with the Spark checker, which has to agree with it row by row.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf

from tests.verification.oracle.rows import Finding, Identity, Place, Produced, Read, Stored, View, named

Key = tuple[int, int]
"""A transaction: its producer and its number."""

SLACK_NS = 30_000_000_000


class Transactions:
    """A lane's records by transaction, and what became of them in the log."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.history = view.history
        self.ended = {(row.producer_id, row.transaction): row for row in self.history.transactions}
        self.records: dict[Key, list[Produced]] = defaultdict(list)
        self.of: dict[Identity, Key] = {}
        for row in sorted(self.history.produced, key=lambda row: (row.producer_id, row.seq)):
            if row.transaction is not None:
                self.records[row.producer_id, row.transaction].append(row)
                self.of[row.producer_id, row.seq] = (row.producer_id, row.transaction)
        self.stored = [row for row in self.history.log or () if (row.producer_id, row.seq) in self.of]
        self.committed: dict[Identity, set[Place]] = defaultdict(set)
        for stored in self.stored:
            if view.fates[stored] == "commit":
                self.committed[stored.producer_id, stored.seq].add((stored.partition, stored.offset))
        self.may_end = {key for waits, _, key in self.open_records() if waits}

    def outcome(self, key: Key) -> str:
        """The outcome of the transaction for its producer."""
        return self.ended[key].outcome if key in self.ended else "info"

    def sent(self, key: Key) -> list[Produced]:
        """Its records, but for those that were certainly not written."""
        return [row for row in self.records[key] if row.outcome != "fail"]

    def ends_ns(self) -> int:
        """The last moment of the history."""
        times = [row.poll_ns for row in self.history.consumed]
        for sent in self.history.produced:
            times += [sent.invoke_ns, sent.complete_ns or 0]
        for ended in self.history.transactions:
            times += [ended.begin_ns, ended.end_ns or 0]
        return max(times, default=0)

    def open_records(self) -> Iterable[tuple[bool, Stored, Key]]:
        """The records of open transactions, and whether these may yet end; none if nothing shows how others ended."""
        ends_ns, allowed = self.ends_ns(), SLACK_NS + (self.history.timeout_ms or 0) * 1_000_000
        for row in self.stored if self.history.has_replicas else ():
            if self.view.fates.get(row, "") is None:
                key = self.of[row.producer_id, row.seq]
                heard = [one.invoke_ns if one.complete_ns is None else one.complete_ns for one in self.records[key]]
                yield ends_ns - max(self.history.healed_ns, *heard) <= allowed, row, key

    def open_ends(self) -> list[tuple[Stored, Key, bool]]:
        """By partition the first record of a hanging transaction, or else of an open one, and whether it hangs."""
        first: dict[int, tuple[bool, Stored, Key]] = {}
        for one in self.open_records():
            first[one[1].partition] = min(one, first.get(one[1].partition, one))
        return [(row, key, not waits) for _, (waits, row, key) in sorted(first.items())]


def find_in_transactions(view: View) -> list[Finding]:
    """All findings of a transactional lane."""
    if view.history.timeout_ms is None:
        return []
    transactions = Transactions(view)
    return [found for finder in FINDERS for found in finder(transactions)]


def _named(anomaly: str, row: Produced, cause: str) -> Finding:
    acknowledged = row.outcome == "ok" and row.partition is not None and row.offset is not None
    place = (row.partition, row.offset) if acknowledged else None
    return named(anomaly, place, (row.producer_id, row.seq), cause)  # type: ignore[arg-type]


def _aborted_read(all: Transactions) -> Iterable[Finding]:
    first: dict[Identity, tuple[int, int, str]] = {}
    history = all.view.history
    shared = history.deliveries if history.is_share_committed else ()
    given = [(row.consumer, row) for row in all.view.reads_of("read_committed")]
    for consumer, row in (*given, *((row.member, row) for row in shared)):
        identity = (row.producer_id, row.seq)
        if identity in all.of:
            fate = all.view.fates.get(Stored(row.partition, row.offset, *identity))
            if fate == "abort" or all.outcome(all.of[identity]) == "aborted":
                at = (row.partition, row.offset, consumer)
                first[identity] = min(at, first.get(identity, at))
    for identity, (partition, offset, consumer) in first.items():
        cause = f"transaction {all.of[identity][1]}, read by {consumer}"
        yield named("aborted_read", (partition, offset), identity, cause)


def _precommitted_read(all: Transactions) -> Iterable[Finding]:
    history = all.view.history
    shared = history.deliveries if history.is_share_committed else ()
    given = [(row.consumer, row.poll_ns, row) for row in all.view.reads_of("read_committed")]
    found: dict[Identity, list[tuple[int, int, str]]] = defaultdict(list)
    for consumer, ns, row in (*given, *((row.member, row.delivered_ns, row) for row in shared)):
        identity = (row.producer_id, row.seq)
        key = all.of.get(identity)
        is_aborted = all.view.fates.get(Stored(row.partition, row.offset, *identity)) == "abort"
        if key is None or is_aborted or all.outcome(key) == "aborted":
            continue
        told = [all.ended[key].commit_ns, all.ended[key].end_ns] if key in all.ended else [None]
        asked_ns = min(ns for ns in told if ns is not None) if told[0] is not None else None
        if asked_ns is None:
            asked_ns = max(record.invoke_ns for record in all.records[key])
        within = (row.reading_producer_id, row.reading_transaction) if isinstance(row, Read) else None
        if ns < asked_ns or within == key:
            why = "before its commit was asked for" if ns < asked_ns else "within it"
            found[identity].append((row.partition, row.offset, f", given to {consumer} {why}"))
    for cycle in _cycles(_read_from(all)):
        first = all.records[min(cycle)][0]
        producers = ", ".join(str(one) for one in sorted({producer for producer, _ in cycle})[:5])
        why = f", one of {len(cycle)} of producers {producers} that read from each other in a cycle"
        at = (first.partition, first.offset) if first.outcome == "ok" else (None, None)
        place = (-1, -1) if None in at else at
        found[first.producer_id, first.seq].append((*place, why))  # type: ignore[arg-type]
    for identity, places in found.items():
        partition, offset, why = min(places)
        where = None if partition < 0 else (partition, offset)
        yield named("precommitted_read", where, identity, f"transaction {all.of[identity][1]}{why}")


def _read_from(all: Transactions) -> dict[Key, set[Key]]:
    """By transaction those that read from it, where both are committed, for their producers or in the log."""

    def is_committed(key: Key) -> bool:
        in_log = any((row.producer_id, row.seq) in all.committed for row in all.sent(key))
        return key in all.records and (all.outcome(key) == "committed" or in_log)

    read_by: dict[Key, set[Key]] = defaultdict(set)
    for row in all.view.reads_of("read_committed"):
        written = all.of.get((row.producer_id, row.seq))
        if written is not None and row.reading_producer_id is not None and row.reading_transaction is not None:
            reading = (row.reading_producer_id, row.reading_transaction)
            if reading != written and is_committed(written) and is_committed(reading):
                read_by[written].add(reading)
    return read_by


def _torn_transaction(all: Transactions) -> Iterable[Finding]:
    given_in_part = _given_in_part(all)
    for key in all.records:
        if all.outcome(key) == "aborted":
            continue
        sent = all.sent(key)
        lacking = [row for row in sent if (row.producer_id, row.seq) not in all.committed]
        if lacking and len(lacking) < len(sent) and key not in all.may_end:
            committed = f"{len(sent) - len(lacking)} of {len(sent)} records are committed"
            yield _named("torn_transaction", lacking[0], f"transaction {key[1]}: {committed}")
        elif not lacking and key in given_in_part:
            row, consumer = given_in_part[key]
            yield _named("torn_transaction", row, f"transaction {key[1]}: given in part to {consumer}")


def _given_in_part(all: Transactions) -> dict[Key, tuple[Produced, str]]:
    """By transaction that a consumer was given in part, the first record that it was not given, and the consumer."""
    committed: dict[int, list[tuple[int, Produced]]] = defaultdict(list)
    for key in all.records:
        for record in all.sent(key):
            for partition, offset in all.committed.get((record.producer_id, record.seq), ()):
                committed[partition].append((offset, record))
    for places in committed.values():
        places.sort(key=lambda place: place[0])
    read: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in all.view.reads_of("read_committed"):
        read[row.consumer, row.partition].add(row.offset)
    given: dict[str, set[Key]] = defaultdict(set)
    not_given: dict[str, list[Produced]] = defaultdict(list)
    for (consumer, partition), offsets in read.items():
        places = committed[partition]
        first = bisect_left(places, min(offsets), key=lambda place: place[0])
        end = bisect_right(places, max(offsets), key=lambda place: place[0])
        for offset, record in places[first:end]:
            if offset in offsets:
                given[consumer].add(all.of[record.producer_id, record.seq])
            else:
                not_given[consumer].append(record)
    missed: dict[Key, tuple[Produced, str]] = {}
    for consumer, records in not_given.items():
        for record in records:
            key = all.of[record.producer_id, record.seq]
            if key in given[consumer]:
                before = missed.get(key, (record, consumer))
                missed[key] = min((record, consumer), before, key=lambda one: (one[0].seq, one[1]))
    return missed


def _lost_transaction(all: Transactions) -> Iterable[Finding]:
    for key in all.records.keys() - all.may_end:
        sent = all.sent(key)
        has_committed = any((row.producer_id, row.seq) in all.committed for row in sent)
        if all.outcome(key) == "committed" and sent and not has_committed:
            yield _named("lost_transaction", sent[0], f"transaction {key[1]} of {len(sent)} records")


def _zombie_commit(all: Transactions) -> Iterable[Finding]:
    began: dict[int, int] = {}
    for row in all.history.transactions:
        since = row.begin_ns if row.initialised_ns is None else row.initialised_ns
        began[row.producer_id] = min(since, began.get(row.producer_id, since))
    for key, row in all.ended.items():
        others = (other for other in all.ended.values() if other.transactional_id == row.transactional_id)
        later = (ns for other in others if (ns := began[other.producer_id]) > began[row.producer_id])
        sent = all.sent(key)
        is_committed = row.outcome == "committed" or any((one.producer_id, one.seq) in all.committed for one in sent)
        last_ns = max(row.commit_ns or 0, *(one.invoke_ns for one in all.records[key]), 0)
        if sent and is_committed and last_ns > min(later, default=inf):
            cause = f"transaction {key[1]} went on after a later incarnation was initialised"
            yield _named("zombie_commit", sent[0], cause)


def _hanging_transaction(all: Transactions) -> Iterable[Finding]:
    for row, key, hangs in all.open_ends():
        if hangs:
            cause = f"transaction {key[1]} is still open"
            yield named("hanging_transaction", (row.partition, row.offset), (row.producer_id, row.seq), cause)


def _dependency_cycle(all: Transactions) -> Iterable[Finding]:
    written: dict[int, list[tuple[int, Identity]]] = defaultdict(list)
    for row in all.stored:
        if all.view.fates[row] == "commit":
            written[row.partition].append((row.offset, (row.producer_id, row.seq)))
    follows = _read_from(all)
    for rows in written.values():
        for (_, before), (_, after) in pairwise(sorted(rows)):
            if all.of[before] != all.of[after]:
                follows[all.of[before]].add(all.of[after])
    for cycle in _cycles(follows):
        producers = ", ".join(str(one) for one in sorted({producer for producer, _ in cycle})[:5])
        cause = f"{len(cycle)} transactions of producers {producers}"
        yield _named("dependency_cycle", all.records[min(cycle)][0], cause)


def _cycles(follows: dict[Key, set[Key]]) -> list[list[Key]]:
    """The transactions that reach each other, by Kosaraju's two passes: forwards for an order, backwards for groups."""
    order: list[Key] = []
    seen: set[Key] = set()
    for start in list(follows):
        _visit(start, follows, seen, order)
    leads: dict[Key, set[Key]] = defaultdict(set)
    for before, later in follows.items():
        for after in later:
            leads[after].add(before)
    found: list[list[Key]] = []
    seen = set()
    for start in reversed(order):
        together: list[Key] = []
        _visit(start, leads, seen, together)
        if len(together) > 1:
            found.append(together)
    return found


def _visit(start: Key, follows: dict[Key, set[Key]], seen: set[Key], order: list[Key]) -> None:
    """Append what `start` reaches and was not seen, each after all that it reaches."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(follows.get(start, ())))]
    while path:
        key, others = path[-1]
        other = next((one for one in others if one not in seen), None)
        if other is None:
            order.append(key)
            path.pop()
        else:
            seen.add(other)
            path.append((other, iter(follows.get(other, ()))))


FINDERS: tuple[Callable[[Transactions], Iterable[Finding]], ...] = (
    _aborted_read,
    _precommitted_read,
    _torn_transaction,
    _lost_transaction,
    _zombie_commit,
    _hanging_transaction,
    _dependency_cycle,
)
FOUND = tuple(finder.__name__[1:] for finder in FINDERS)
"""The anomalies that `find_in_transactions` finds."""
