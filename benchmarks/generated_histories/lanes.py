"""Lanes of plain producers: batches, retries, a truncated tail, consumers that restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafka_chaos.contract.lane.transactions import DATA, RECORD_KINDS

Longs = NDArray[np.int64]
Columns = dict[str, Longs]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShape:
    """The shape of one lane's history.

    `records`: identities produced. `batch`: records in a row of one producer to one partition. `info_share` and
    `fail_share`: of the batches, whole; half of the info batches were written. `retry_share`: of the batches,
    written twice. `lost_tail`: acknowledged records that a leader change cuts off each partition half-way, their
    offsets used again. `consumers`: how many follow the lane side by side; `restarts`: how often each gets a new
    name. `replicas`: brokers that hold each partition in replicas/; 0: none is written there.
    """

    lane: str
    records: int
    partitions: int = 1
    producers: int = 1
    batch: int = 100
    info_share: float = 0.0
    fail_share: float = 0.0
    retry_share: float = 0.0
    lost_tail: int = 0
    consumers: int = 1
    restarts: int = 0
    replicas: int = 0
    acks: str = "all"
    permitted: tuple[str, ...] = ()


@dataclass(slots=True)
class LaneTables:
    """One lane's rows as column arrays: `produced`, `consumed`, `log`; missing values are −1.

    `others`: further tables by name. `expected`: how often each anomaly is in there. `clients`: further keys of
    lanes.json. `committed`: by partition, what the lane's group had committed in the end.
    """

    shape: LaneShape
    produced: Columns
    log: Columns
    consumed: Columns
    expected: dict[str, int] = field(default_factory=dict)
    others: dict[str, Columns] = field(default_factory=dict)
    clients: dict[str, Any] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)


OK, FAIL, INFO = range(3)
"""Outcomes, as their places in the contract's `OUTCOMES`."""


def lane_tables(shape: LaneShape, seed: int = 0) -> LaneTables:
    """The rows of one lane, and in `expected` the anomalies that its shape asked for."""
    random = np.random.default_rng([seed, *shape.lane.encode()])
    produced, batch_of = _send(shape, random)
    written, copies = _append(shape, random, produced, batch_of)
    log, lost = _number(shape, produced, written, copies)
    _acknowledge(shape, produced, log, lost)
    consumed = _follow(shape, log, produced["invoke_ns"][log["row"]])
    expected = {"duplicate": int((log["copy"] == 1).sum()), "lost_write": lost["seq"].size}
    expected["inconsistent_offset"] = 0 if shape.acks == "0" else _reused_offsets(log, lost)
    del log["copy"]
    others: dict[str, Columns] = {}
    if shape.replicas:
        kinds = np.full(log["seq"].size, RECORD_KINDS.index(DATA))
        held = {name: log[name] for name in ("partition", "offset", "producer_id", "seq")}
        others["replicas"] = replicated({**held, "kind": kinds}, shape.replicas)
    found = {name: count for name, count in expected.items() if count}
    return LaneTables(shape, produced, log, consumed, found, others)


def replicated(held: Columns, replicas: int) -> Columns:
    """REPLICAS: what each of so many brokers holds."""
    size = held["offset"].size
    whole = {name: np.tile(values, replicas) for name, values in held.items()}
    whole["broker"] = np.repeat(np.arange(1, replicas + 1), size)
    return {**whole, "leader_epoch": np.zeros(size * replicas, np.int64)}


def _send(shape: LaneShape, random: np.random.Generator) -> tuple[Columns, Longs]:
    """Identities in the order of sending, in batches: producer, seq, partition, outcome."""
    batches = -(-shape.records // shape.batch)
    producer_of = random.integers(0, shape.producers, batches)
    partition_of = random.integers(0, shape.partitions, batches)
    outcome_of = np.full(batches, OK)
    draw = random.random(batches)
    outcome_of[draw < shape.fail_share] = FAIL
    outcome_of[(draw >= shape.fail_share) & (draw < shape.fail_share + shape.info_share)] = INFO
    batch_of = np.repeat(np.arange(batches), shape.batch)[: shape.records]
    producer_id = producer_of[batch_of]
    seq = np.empty(shape.records, np.int64)
    for producer in range(shape.producers):
        own = np.flatnonzero(producer_id == producer)
        seq[own] = np.arange(own.size)
    stamps = np.arange(shape.records, dtype=np.int64) * 10_000
    produced = {
        "producer_id": producer_id.astype(np.int64),
        "seq": seq,
        "partition": partition_of[batch_of].astype(np.int64),
        "offset": np.full(shape.records, -1, np.int64),
        "outcome": outcome_of[batch_of].astype(np.int64),
        "invoke_ns": stamps,
        "complete_ns": stamps + 3_000_000,
    }
    return produced, batch_of


def _append(shape: LaneShape, random: np.random.Generator, produced: Columns, batch_of: Longs) -> tuple[Longs, Longs]:
    """Rows of `produced` in the order in which they were appended, and which of them are second copies."""
    batches = int(batch_of[-1]) + 1 if batch_of.size else 0
    reached = random.random(batches) < 0.5
    copied = random.random(batches) < shape.retry_share
    outcome = produced["outcome"]
    written = np.flatnonzero((outcome == OK) | ((outcome == INFO) & reached[batch_of]))
    batch = batch_of[written]
    again = written[copied[batch]]
    rows = np.concatenate([written, again])
    copy = np.concatenate([np.zeros(written.size, np.int64), np.ones(again.size, np.int64)])
    order = np.lexsort((rows, copy, batch_of[rows]))
    return rows[order], copy[order]


def _number(shape: LaneShape, produced: Columns, rows: Longs, copies: Longs) -> tuple[Columns, Columns]:
    """Offsets by partition: the final log, and the acknowledged rows that were cut off with their old offsets."""
    partition = produced["partition"][rows]
    offset = np.empty(rows.size, np.int64)
    is_lost = np.zeros(rows.size, bool)
    for number in range(shape.partitions):
        own = np.flatnonzero(partition == number)
        offset[own] = np.arange(own.size)
        if shape.lost_tail:
            cut = own.size // 2
            gone = own[cut : cut + shape.lost_tail]
            is_lost[gone] = True
            offset[own[cut + shape.lost_tail :]] -= shape.lost_tail
    ok = produced["outcome"][rows] == OK
    lost_rows = rows[is_lost & ok]
    kept = ~is_lost
    log = {
        "row": rows[kept],
        "copy": copies[kept],
        "partition": partition[kept],
        "offset": offset[kept],
        "producer_id": produced["producer_id"][rows[kept]],
        "seq": produced["seq"][rows[kept]],
    }
    lost = {
        "row": lost_rows,
        "partition": partition[is_lost & ok],
        "offset": offset[is_lost & ok],
        "seq": produced["seq"][lost_rows],
    }
    return log, lost


def _acknowledge(shape: LaneShape, produced: Columns, log: Columns, lost: Columns) -> None:
    """An ok gets the offset of its last copy, since the first one's answer was lost; with acks=0 it gets none."""
    if shape.acks != "0":
        ok = produced["outcome"][log["row"]] == OK
        produced["offset"][log["row"][ok]] = log["offset"][ok]
        produced["offset"][lost["row"]] = lost["offset"]
    is_info = produced["outcome"] == INFO
    produced["complete_ns"][is_info] = -1


def _reused_offsets(log: Columns, lost: Columns) -> int:
    if not lost["row"].size:
        return 0
    width = np.int64(1 << 40)
    used = log["partition"] * width + log["offset"]
    return int(np.isin(lost["partition"] * width + lost["offset"], used).sum())


def _follow(shape: LaneShape, log: Columns, sent_ns: Longs) -> Columns:
    """Every consumer reads the log in the order of appending; after a restart it continues under a new name.

    It starts so late that no record is read before it was sent, at `sent_ns`.
    """
    size = log["offset"].size
    order = np.arange(size)
    start_ns = int((sent_ns - order * 10_000).max(initial=0)) + 5_000_000
    parts = []
    for consumer in range(shape.consumers):
        life = order * (shape.restarts + 1) // max(size, 1)
        parts.append(
            {
                "consumer": consumer * 1000 + life,
                **{name: log[name] for name in ("partition", "offset", "producer_id", "seq")},
                "poll_ns": order * 10_000 + start_ns + consumer,
            }
        )
    names = ("consumer", "partition", "offset", "producer_id", "seq", "poll_ns")
    return {name: np.concatenate([part[name] for part in parts]) for name in names}
