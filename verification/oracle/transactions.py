"""The anomalies of transactions in plain Python, obviously right.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible and without
regard to speed. It shares no code with the Spark checker, which has to agree with it row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from kafka_chaos.verification.oracle.rows import Identity, LaneHistory, Place, Produced, Stored, View, fates_of

Key = tuple[int, int]
"""A transaction: its producer and its number."""
SLACK_NS = 30_000_000_000
"""A broker looks for transactions past their time-out every 10 s; a new coordinator first loads its log."""


class Found(NamedTuple):
    """One counted unit: the anomaly and the record or place that it names."""

    anomaly: str
    place: Place | None
    identity: Identity | None


class Transactions:
    """A lane's records by transaction, and what became of them in the log."""

    def __init__(self, history: LaneHistory) -> None:
        self.history = history
        self.view = View(history)
        self.ended = {(row.producer_id, row.transaction): row for row in history.transactions}
        self.fates = fates_of(history)
        self.records: dict[Key, list[Produced]] = defaultdict(list)
        self.of: dict[Identity, Key] = {}
        for row in sorted(history.produced):
            if row.transaction is not None:
                self.records[row.producer_id, row.transaction].append(row)
                self.of[row.producer_id, row.seq] = (row.producer_id, row.transaction)
        self.stored = [row for row in history.log or () if (row.producer_id, row.seq) in self.of]
        self.committed: dict[Identity, set[Place]] = defaultdict(set)
        for stored in self.stored:
            if self.fates[stored] == "commit":
                self.committed[stored.producer_id, stored.seq].add((stored.partition, stored.offset))

    def outcome(self, key: Key) -> str:
        """What the producer learned of the transaction."""
        return self.ended[key].outcome if key in self.ended else "info"

    def sent(self, key: Key) -> list[Produced]:
        """Its records, but for those that were certainly not written."""
        return [row for row in self.records[key] if row.outcome != "fail"]

    def readers(self) -> list[str]:
        """The consumers that read committed records only."""
        consumers = sorted({row.consumer for row in self.history.consumed})
        return [consumer for consumer in consumers if self.view.isolation(consumer) == "read_committed"]


def check_transactions(history: LaneHistory) -> list[Found]:
    """All cases of a transactional lane."""
    if history.timeout_ms is None:
        return []
    transactions = Transactions(history)
    return [found for finder in FINDERS for found in finder(transactions)]


def _named(anomaly: str, row: Produced) -> Found:
    acknowledged = row.outcome == "ok" and row.partition is not None and row.offset is not None
    place = (row.partition, row.offset) if acknowledged else None
    return Found(anomaly, place, (row.producer_id, row.seq))  # type: ignore[arg-type]


def _aborted_read(all: Transactions) -> Iterable[Found]:
    places: dict[Identity, set[Place]] = defaultdict(set)
    readers = set(all.readers())
    for row in all.view.genuine(all.history.consumed):
        identity = (row.producer_id, row.seq)
        if row.consumer in readers and identity in all.of:
            fate = all.fates.get(Stored(row.partition, row.offset, *identity))
            if fate == "abort" or all.outcome(all.of[identity]) == "aborted":
                places[identity].add((row.partition, row.offset))
    for identity, found in places.items():
        yield Found("aborted_read", min(found), identity)


def _torn_transaction(all: Transactions) -> Iterable[Found]:
    given_in_part = _given_in_part(all)
    for key in all.records:
        if all.outcome(key) == "aborted":
            continue
        lacking = [row for row in all.sent(key) if (row.producer_id, row.seq) not in all.committed]
        if lacking and len(lacking) < len(all.sent(key)):
            yield _named("torn_transaction", lacking[0])
        elif key in given_in_part:
            yield _named("torn_transaction", given_in_part[key])


def _given_in_part(all: Transactions) -> dict[Key, Produced]:
    """By transaction that a consumer was given in part, the first record that it was not given."""
    missed: dict[Key, list[Produced]] = defaultdict(list)
    for consumer in all.readers():
        read: dict[int, set[int]] = defaultdict(set)
        for row in all.history.consumed:
            if row.consumer == consumer:
                read[row.partition].add(row.offset)
        for key in all.records:
            given: list[Produced] = []
            not_given: list[Produced] = []
            for record in all.sent(key):
                for partition, offset in all.committed.get((record.producer_id, record.seq), ()):
                    if read[partition] and min(read[partition]) <= offset <= max(read[partition]):
                        (given if offset in read[partition] else not_given).append(record)
            if given:
                missed[key] += not_given
    return {key: min(records) for key, records in missed.items() if records}


def _lost_transaction(all: Transactions) -> Iterable[Found]:
    for key in all.records:
        sent = all.sent(key)
        committed = [row for row in sent if (row.producer_id, row.seq) in all.committed]
        if all.outcome(key) == "committed" and sent and not committed:
            yield _named("lost_transaction", sent[0])


def _zombie_commit(all: Transactions) -> Iterable[Found]:
    began: dict[int, int] = {}
    for row in all.history.transactions:
        since = row.begin_ns if row.initialised_ns is None else row.initialised_ns
        began[row.producer_id] = min(since, began.get(row.producer_id, since))
    commits = [
        row for key, row in all.ended.items() if row.outcome == "committed" and key in all.records and all.sent(key)
    ]
    for commit in commits:
        key = (commit.producer_id, commit.transaction)
        later = [
            began[other.producer_id]
            for other in commits
            if other.transactional_id == commit.transactional_id
            and began[other.producer_id] > began[commit.producer_id]
        ]
        if later and max(row.invoke_ns for row in all.records[key]) > min(later):
            yield _named("zombie_commit", all.sent(key)[0])


def _hanging_transaction(all: Transactions) -> Iterable[Found]:
    open_: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for row in all.stored:
        if all.fates[row] is None:
            open_[row.partition].append((row.offset, row.producer_id, row.seq))
    times = [row.poll_ns for row in all.history.consumed]
    for sent in all.history.produced:
        times += [sent.invoke_ns, sent.complete_ns or 0]
    for ended in all.history.transactions:
        times += [ended.begin_ns, ended.end_ns or 0]
    allowed = SLACK_NS + (all.history.timeout_ms or 0) * 1_000_000
    for partition, rows in open_.items():
        offset, *identity = min(rows)
        records = all.records[all.of[identity[0], identity[1]]]
        since = max([all.history.healed_ns, *(row.complete_ns or row.invoke_ns for row in records)])
        if max(times) - since > allowed:
            yield Found("hanging_transaction", (partition, offset), (identity[0], identity[1]))


def _dependency_cycle(all: Transactions) -> Iterable[Found]:
    written: dict[int, list[tuple[int, Identity]]] = defaultdict(list)
    for row in all.stored:
        if all.fates[row] == "commit":
            written[row.partition].append((row.offset, (row.producer_id, row.seq)))
    follows: dict[Key, set[Key]] = defaultdict(set)
    for rows in written.values():
        for (_, before), (_, after) in pairwise(sorted(rows)):
            if all.of[before] != all.of[after]:
                follows[all.of[before]].add(all.of[after])
    after_all = {key: _reached(follows, key) for key in list(follows)}
    cycles = set()
    for key, reached in after_all.items():
        together = {key, *(other for other in reached if key in after_all.get(other, ()))}
        if len(together) > 1:
            cycles.add(min(together))
    for key in cycles:
        yield _named("dependency_cycle", all.records[key][0])


def _reached(follows: dict[Key, set[Key]], start: Key) -> set[Key]:
    reached: set[Key] = set()
    waiting = [start]
    while waiting:
        for key in follows.get(waiting.pop(), ()):
            if key not in reached:
                reached.add(key)
                waiting.append(key)
    return reached


FINDERS: tuple[Callable[[Transactions], Iterable[Found]], ...] = (
    _aborted_read,
    _torn_transaction,
    _lost_transaction,
    _zombie_commit,
    _hanging_transaction,
    _dependency_cycle,
)
FOUND = tuple(finder.__name__[1:] for finder in FINDERS)
"""The anomalies that `check_transactions` finds."""
