"""Lanes of transactional producers that work side by side, over all partitions, and abort some transactions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from generated_histories.lanes import OK, Columns, LaneShape, LaneTables, Longs, Mask, replicated
from kafka_chaos.contract.lane.transactions import (
    ABORT,
    ABORTED,
    COMMIT,
    COMMITTED,
    DATA,
    IN_DOUBT,
    ISOLATION_LEVELS,
    READ_COMMITTED,
    RECORD_KINDS,
    TRANSACTION_OUTCOMES,
    TransactionAnomaly,
)

SEND_NS, ANSWER_NS, END_NS = 10_000, 4_000, 20_000
"""Between two records of a transaction, from sending to acknowledgement, and from the last one to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsShape:
    """The shape of a transactional lane's history.

    In each round, every producer writes a transaction of `size` records, each to the partition `seq` modulo
    `partitions`. `transactions` is rounded up to whole rounds. In each partition, brokers append the transactions of a
    round one after the other, in an order of its own for each round, then the markers. In the share `entangled` of the
    rounds, the last partition has them in the opposite order. `abort` and `in_doubt`: shares of the transactions; half
    of those in doubt are committed. `replicas`: brokers that hold each partition. One consumer reads in each isolation
    level; with `reads`, all that the read_committed one reads while transactions are written is read within these.
    """

    lane: str
    transactions: int
    size: int = 10
    partitions: int = 3
    producers: int = 4
    abort: float = 0.1
    in_doubt: float = 0.001
    entangled: float = 0.0
    replicas: int = 3
    reads: bool = False


def transaction_tables(shape: TransactionsShape, seed: int = 0) -> LaneTables:
    """The rows of one lane, and in `expected` the anomalies that its shape asked for."""
    random = np.random.default_rng([seed, *shape.lane.encode()])
    rounds = -(-shape.transactions // shape.producers)
    outcome, committed = _ends(shape, random, rounds)
    places, opposite = _places(shape, random, rounds)
    ended = _transactions(shape, rounds, outcome)
    produced, markers = _records(shape, rounds, places, ended)
    log = _log(shape, produced, committed)
    cycles = int((opposite & (committed.sum(axis=1) > 1)).sum())
    others = {
        "transactions": {name: values.ravel() for name, values in ended.items()},
        "assignments": _assignments(shape),
        "replicas": _replicas(shape, log, markers, committed),
    }
    return LaneTables(
        LaneShape(lane=shape.lane, records=produced["seq"].size, partitions=shape.partitions),
        produced,
        log,
        _reads(shape, log, ended),
        {TransactionAnomaly.DEPENDENCY_CYCLE: cycles} if cycles else {},
        others,
        _clients(shape),
    )


def _clients(shape: TransactionsShape) -> dict[str, object]:
    transactional = {"size": shape.size, "abort": shape.abort, "producers": shape.producers, "reads": shape.reads}
    return {"idempotence": True, "replication_factor": shape.replicas, "transactional": transactional}


def _ends(shape: TransactionsShape, random: np.random.Generator, rounds: int) -> tuple[Longs, Longs]:
    """By round and producer, what it learned, and whether the transaction is committed."""
    draw = random.random((rounds, shape.producers))
    outcome = np.full(draw.shape, TRANSACTION_OUTCOMES.index(COMMITTED))
    outcome[draw < shape.abort + shape.in_doubt] = TRANSACTION_OUTCOMES.index(IN_DOUBT)
    outcome[draw < shape.abort] = TRANSACTION_OUTCOMES.index(ABORTED)
    in_doubt = outcome == TRANSACTION_OUTCOMES.index(IN_DOUBT)
    committed = (outcome == TRANSACTION_OUTCOMES.index(COMMITTED)) | (in_doubt & (random.random(draw.shape) < 0.5))
    return outcome, committed


def _places(shape: TransactionsShape, random: np.random.Generator, rounds: int) -> tuple[Longs, Mask]:
    """By round, partition and producer, which place its transaction takes there; the rounds with opposite orders."""
    order = random.random((rounds, shape.producers)).argsort(axis=1)
    places = np.repeat(order[:, None, :], shape.partitions, axis=1)
    opposite = (random.random(rounds) < shape.entangled) & (shape.partitions > 1)
    places[opposite, -1] = shape.producers - 1 - places[opposite, -1]
    return places, opposite


def _transactions(shape: TransactionsShape, rounds: int, outcome: Longs) -> Columns:
    """TRANSACTIONS, by round and producer. A round ends before the next one begins."""
    producer = np.broadcast_to(np.arange(shape.producers), outcome.shape)
    number = np.broadcast_to(np.arange(rounds)[:, None], outcome.shape)
    # Producers begin at slightly different times, so that each time has one order.
    lasts = shape.size * SEND_NS + END_NS
    begin = 1 + number * (lasts + SEND_NS) + producer
    return {
        "producer_id": producer,
        "transaction": number,
        "transactional_id": producer,
        "begin_ns": begin,
        "end_ns": begin + lasts,
        "commit_ns": np.where(outcome == TRANSACTION_OUTCOMES.index(ABORTED), -1, begin + lasts - END_NS // 2),
        "outcome": outcome,
    }


def _records(shape: TransactionsShape, rounds: int, places: Longs, ended: Columns) -> tuple[Columns, Longs]:
    """PRODUCED, and by round, producer and partition the offset of the transaction's marker (−1: it has none)."""
    numbers = np.arange(rounds)[:, None]
    seq = numbers * shape.size + np.arange(shape.size)
    partition = seq % shape.partitions
    # All transactions of a round have the same sequence numbers, so as many records in each partition.
    held = np.stack([(partition == number).sum(axis=1) for number in range(shape.partitions)], axis=1)
    lasts = shape.producers * (held + (held > 0))
    first = np.cumsum(lasts, axis=0) - lasts
    place = places.transpose(0, 2, 1)
    start = first[:, None, :] + place * held[:, None, :]
    offset = start[numbers, :, partition].transpose(0, 2, 1) + np.arange(shape.size) // shape.partitions
    wide = offset.shape
    number = np.broadcast_to(ended["transaction"][:, :, None], wide)
    invoke = ended["begin_ns"][:, :, None] + (np.arange(shape.size) + 1) * SEND_NS
    columns = {
        "producer_id": np.broadcast_to(ended["producer_id"][:, :, None], wide),
        "seq": np.broadcast_to(seq[:, None, :], wide),
        "partition": np.broadcast_to(partition[:, None, :], wide),
        "offset": offset,
        "invoke_ns": invoke,
        "complete_ns": invoke + ANSWER_NS,
        "outcome": np.full(wide, OK),
        "transaction": number,
    }
    at = np.where(held[:, None, :] > 0, (first + held * shape.producers)[:, None, :] + place, -1)
    return {name: np.ascontiguousarray(values).ravel() for name, values in columns.items()}, at


def _log(shape: TransactionsShape, produced: Columns, committed: Longs) -> Columns:
    """LOG in the order of appending, with whether each record is committed."""
    order = np.lexsort((produced["offset"], produced["partition"], produced["transaction"]))
    log = {name: produced[name][order] for name in ("partition", "offset", "producer_id", "seq", "transaction")}
    return {**log, "committed": committed[log["transaction"], log["producer_id"]].astype(np.int64)}


def _reads(shape: TransactionsShape, log: Columns, ended: Columns) -> Columns:
    """The reads of one consumer in each isolation level, in the order of the log, and within which transactions."""
    parts = []
    for level in ISOLATION_LEVELS:
        given = np.flatnonzero(log["committed"] == 1) if level == READ_COMMITTED else np.arange(log["offset"].size)
        part = {name: log[name][given] for name in ("partition", "offset", "producer_id", "seq")}
        consumer = np.full(given.size, ISOLATION_LEVELS.index(level))
        poll_ns = given * SEND_NS + 5_000_000
        parts.append({"consumer": consumer, **part, "poll_ns": poll_ns})
        if shape.reads:
            # The transactions of all producers in turn: those that are open at that time, and none between rounds.
            producer = given % shape.producers
            number = np.searchsorted(ended["begin_ns"][:, 0], poll_ns) - 1
            is_open = (level == READ_COMMITTED) & (poll_ns < ended["end_ns"][number, 0])
            is_open &= poll_ns > ended["begin_ns"][number, -1]
            parts[-1] |= {
                "reading_producer_id": np.where(is_open, producer, -1),
                "reading_transaction": np.where(is_open, number, -1),
            }
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _assignments(shape: TransactionsShape) -> Columns:
    """Each of the two consumers reads all partitions."""
    consumer = np.repeat(np.arange(len(ISOLATION_LEVELS)), shape.partitions)
    return {
        "consumer": consumer,
        "member": consumer,
        "partition": np.tile(np.arange(shape.partitions), len(ISOLATION_LEVELS)),
        "isolation": consumer,
        "start_ns": np.ones(consumer.size, np.int64),
    }


def _replicas(shape: TransactionsShape, log: Columns, markers: Longs, committed: Longs) -> Columns:
    """Each broker's replica: the log and the markers, in the order of offsets."""
    number, producer, partition = np.nonzero(markers >= 0)
    kinds = np.where(committed, RECORD_KINDS.index(COMMIT), RECORD_KINDS.index(ABORT))
    held = {
        "partition": np.concatenate([log["partition"], partition]),
        "offset": np.concatenate([log["offset"], markers[number, producer, partition]]),
        "producer_id": np.concatenate([log["producer_id"], producer]),
        "seq": np.concatenate([log["seq"], np.full(number.size, -1)]),
        "kind": np.concatenate([np.full(log["seq"].size, RECORD_KINDS.index(DATA)), kinds[number, producer]]),
    }
    order = np.lexsort((held["offset"], held["partition"]))
    return replicated({name: values[order] for name, values in held.items()}, shape.replicas)
