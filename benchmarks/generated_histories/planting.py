"""Damages a generated transactional lane at a few places, so that it holds one case of each of several anomalies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from generated_histories.groups import appended
from generated_histories.lanes import Columns, LaneTables, Mask
from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.transactions import (
    ABORT,
    COMMITTED,
    ISOLATION_LEVELS,
    READ_COMMITTED,
    RECORD_KINDS,
    TRANSACTION_OUTCOMES,
    TransactionAnomaly,
)

READER = ISOLATION_LEVELS.index(READ_COMMITTED)
"""The consumer that reads committed records."""


def planted(tables: LaneTables) -> LaneTables:
    """The lane with a read of an aborted record, a torn and a lost transaction, one given in part, and a zombie.

    The tables' own columns are changed. Raises `ValueError` for a lane that is too small.
    """
    rounds = _plain_rounds(tables)
    expected = Counter(tables.expected)
    try:
        for plant in (_aborted_read, _torn, _given_in_part, _lost):
            tables = plant(tables, next(rounds))
        tables, zombies = _zombie(tables)
    except StopIteration as error:
        raise ValueError(f"lane {tables.shape.lane} is too small") from error
    expected.update(
        {
            TransactionAnomaly.ABORTED_READ: 1,
            TransactionAnomaly.TORN_TRANSACTION: 2,
            Anomaly.SKIPPED_POLL: 1,
            TransactionAnomaly.LOST_TRANSACTION: 1,
            TransactionAnomaly.ZOMBIE_COMMIT: zombies,
        }
    )
    return replace(tables, expected=dict(expected))


def _plain_rounds(tables: LaneTables) -> Iterator[int]:
    """Rounds in which producer 0 commits, and 1 does not, and all partitions have the same order: 0 before 1."""
    log = tables.log
    for number in np.unique(log["transaction"])[1:]:
        rows = {name: values[log["transaction"] == number] for name, values in log.items()}
        orders = {
            tuple(dict.fromkeys(rows["producer_id"][rows["partition"] == partition].tolist()))
            for partition in range(tables.shape.partitions)
        }
        ended = {who: bool(rows["committed"][rows["producer_id"] == who].all()) for who in (0, 1)}
        if len(orders) == 1 and ended == {0: True, 1: False} and _learned(tables, 0, number) == COMMITTED:
            yield int(number)


def _learned(tables: LaneTables, producer_id: int, number: int) -> str:
    ended = tables.others["transactions"]
    row = (ended["producer_id"] == producer_id) & (ended["transaction"] == number)
    return TRANSACTION_OUTCOMES[int(ended["outcome"][row][0])]


def _aborted_read(tables: LaneTables, number: int) -> LaneTables:
    """The reader of committed records is given one that the other reader has: the first of an aborted transaction."""
    log = tables.log
    aborted = _rows(log, 1, number)
    seq = log["seq"][aborted].min()
    read = tables.consumed
    other = (read["consumer"] != READER) & (read["producer_id"] == 1) & (read["seq"] == seq)
    given = {name: values[other] for name, values in read.items()}
    given["consumer"] = np.full(given["seq"].size, READER)
    return replace(tables, consumed=appended(read, given))


def _torn(tables: LaneTables, number: int) -> LaneTables:
    """In partition 0, the transaction is aborted."""
    return _aborted_in(tables, number, lambda rows: rows["partition"] == 0)


def _lost(tables: LaneTables, number: int) -> LaneTables:
    """In all partitions, the transaction is aborted."""
    return _aborted_in(tables, number, lambda rows: rows["partition"] >= 0)


def _aborted_in(tables: LaneTables, number: int, where: Callable[[Columns], Mask]) -> LaneTables:
    here = _rows(tables.log, 0, number) & where(tables.log)
    tables.others["replicas"]["kind"][_markers(tables, here)] = RECORD_KINDS.index(ABORT)
    return _unread(tables, here)


def _markers(tables: LaneTables, rows: Mask) -> Mask:
    """The rows of replicas that end the transaction of producer 0 that these rows of the log are of."""
    log, replicas = tables.log, tables.others["replicas"]
    found = np.zeros(replicas["seq"].size, np.bool_)
    for partition in np.unique(log["partition"][rows]):
        last = log["offset"][rows & (log["partition"] == partition)].max()
        follows = (replicas["partition"] == partition) & (replicas["producer_id"] == 0) & (replicas["offset"] > last)
        ends = follows & (replicas["seq"] < 0)
        found |= ends & (replicas["offset"] == replicas["offset"][ends].min())
    return found


def _given_in_part(tables: LaneTables, number: int) -> LaneTables:
    """The reader of committed records steps over one of them."""
    rows = np.flatnonzero(_rows(tables.log, 0, number))
    missed = np.zeros(tables.log["seq"].size, np.bool_)
    missed[rows[0]] = True
    return _unread(tables, missed)


def _unread(tables: LaneTables, rows: Mask) -> LaneTables:
    """Without what the reader of committed records read of these rows of the log."""
    read, seqs = tables.consumed, tables.log["seq"][rows]
    gone = (read["consumer"] == READER) & (read["producer_id"] == 0) & np.isin(read["seq"], seqs)
    return replace(tables, consumed={name: values[~gone] for name, values in read.items()})


def _zombie(tables: LaneTables) -> tuple[LaneTables, int]:
    """Producer 1 goes on after its successor was initialised, and commits. Its successor is a new producer, which takes
    one of the last transactions of producer 0."""
    ended = tables.others["transactions"]
    both = (set(ended["transaction"][(ended["producer_id"] == who) & _is_committed(ended)].tolist()) for who in (0, 1))
    number = max(set.intersection(*both))
    successor = int(ended["producer_id"].max()) + 1
    own = (ended["producer_id"] == 1) & (ended["transaction"] == number)
    initialised = np.full(ended["transaction"].size, -1)
    taken = (ended["producer_id"] == 0) & (ended["transaction"] == number)
    initialised[taken] = ended["begin_ns"][own]
    ended["transactional_id"][taken] = 1
    ended["producer_id"][taken] = successor
    ended["initialised_ns"] = initialised
    sent = _rows(tables.produced, 0, number)
    seqs = tables.produced["seq"][sent]
    replicas = tables.others["replicas"]
    replicas["producer_id"][_markers(tables, _rows(tables.log, 0, number))] = successor
    for table in (tables.produced, tables.log, tables.consumed, replicas):
        table["producer_id"][(table["producer_id"] == 0) & np.isin(table["seq"], seqs)] = successor
    zombies = (ended["producer_id"] == 1) & (ended["transaction"] >= number) & _is_committed(ended)
    return tables, int(zombies.sum())


def _is_committed(ended: Columns) -> Mask:
    committed: Mask = ended["outcome"] == TRANSACTION_OUTCOMES.index(COMMITTED)
    return committed


def _rows(table: Columns, producer_id: int, number: int) -> Mask:
    """The rows of a transaction."""
    found: Mask = (table["producer_id"] == producer_id) & (table["transaction"] == number)
    return found
