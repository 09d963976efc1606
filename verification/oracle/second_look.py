"""A second look at a run: the plain checker judges what fits it, from the same files and without Spark.

Guarantee: rows are read by PyArrow alone. Small lanes are looked at whole. Of larger ones, it looks at records evenly
spread over each producer's sequence, with everything that was sent, read and stored of them. Which ones depends on the
run alone, so every look is the same. A look that fails is reported, and never ends the verification.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafka_chaos.contract.columns import TABLES, arrow_schema
from kafka_chaos.contract.groups import group_of
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.verification.inputs.documents.groups import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.oracle.anomalies import Case, check, check_sample
from kafka_chaos.verification.oracle.groups import Group
from kafka_chaos.verification.oracle.rows import (
    Assigned,
    Commit,
    LaneHistory,
    Produced,
    Read,
    Replicated,
    Stored,
    Transaction,
)

ROWS = 20_000
"""About as many rows as it looks at."""
MOST_SCANNED = 5_000_000
"""It leaves a larger run alone: to find rows of a sample, it reads all."""
MOST_OFFSETS = 1_000_000
"""A lane whose offsets span more is not looked at whole: the plain checker tries each of them."""
WINDOWS = 8
"""A sample has as many pieces of consecutive sequence numbers."""

_KINDS: Mapping[str, Any] = {
    "produced": Produced,
    "consumed": Read,
    "log": Stored,
    "replicas": Replicated,
    "transactions": Transaction,
    "assignments": Assigned,
    "commits": Commit,
}


@dataclass(frozen=True, slots=True)
class LaneLook:
    """What the plain checker found in a lane; `identities` None: it looked at all rows, otherwise at these records."""

    rows: int
    cases: tuple[Case, ...]
    identities: frozenset[tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """By lane what was looked at; `problem`: why nothing was."""

    lanes: Mapping[str, LaneLook] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """By lane: of every `stride` sequence numbers, the first `width` belong to the sample; all if they are equal."""

    lanes: tuple[str, ...]
    strides: np.ndarray[Any, Any]
    widths: np.ndarray[Any, Any]

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that belong to it; of a table without sequence numbers, all rows of its lanes."""
        codes = pc.fill_null(pc.index_in(batch.column("lane"), pa.array(self.lanes)), -1).to_numpy(zero_copy_only=False)
        if "seq" not in batch.schema.names:
            return batch.filter(pa.array(codes >= 0))
        seqs = batch.column("seq").to_numpy(zero_copy_only=False)
        chosen = (codes >= 0) & (seqs % self.strides[codes] < self.widths[codes])
        return batch.filter(pa.array(chosen))


def look(run: RunDirectory) -> Look:
    """What the plain checker finds in as much of the run as fits it; files that cannot be read are its `problem`."""
    if not isinstance(run.path, Path):
        return Look(problem="only local run directories are looked at twice")
    if any(table.counted for table in run.tables.values()):
        return Look(problem="not all tables are files of the run directory")
    if run.rows > MOST_SCANNED:
        return Look(problem=f"the run has more than {MOST_SCANNED:,} rows")
    try:
        return Look(_look(run))
    except (OSError, ValueError, pa.ArrowException) as error:
        # Whatever is wrong with a file, Spark's answer is about what Spark could read.
        return Look(problem=f"it failed: {type(error).__name__}: {error}")


def _look(run: RunDirectory) -> dict[str, LaneLook]:
    rows, last_seqs = _rows_by_lane(run)
    whole: list[str] = []
    left = ROWS
    for lane in sorted(rows, key=lambda lane: (rows[lane], lane)):
        if rows[lane] <= left:
            left -= rows[lane]
            whole.append(lane)
    histories = {lane: of for lane, of in _histories(run, whole).items() if _span(of) <= MOST_OFFSETS}
    groups = {lane.lane: _groups(run, lane, histories) for lane in run.lanes}
    found = {
        lane: LaneLook(rows[lane], tuple(check(history, groups[lane] or ())))
        for lane, history in histories.items()
        if groups[lane] is not None
    }
    # What a record of a transaction or a loop means is known only with all others.
    left_out = {lane.lane for lane in run.lanes if lane.transactional is not None or lane.group_anomalies}
    rest = [lane for lane in rows if lane not in whole and lane not in left_out]
    if rest and left:
        # A record has about three rows: sent, read, stored.
        share = max(1, left // len(rest) // 3 // WINDOWS)
        strides = [max(1, (last_seqs.get(lane, 0) + 1) // WINDOWS) for lane in rest]
        sample = _Sample(tuple(rest), np.array(strides), np.minimum(np.array(strides), share))
        for lane, history in _read(run, sample, ("produced", "consumed", "log")).items():
            _keep_producers(history, 2 * left // len(rest))
            identities = frozenset((row.producer_id, row.seq) for row in history.produced)
            if identities:
                found[lane] = LaneLook(_size(history), tuple(check_sample(history)), identities)
    return found


def _histories(run: RunDirectory, lanes: list[str]) -> dict[str, LaneHistory]:
    """The lanes with all their rows."""
    if not lanes:
        return {}
    everything = np.ones(len(lanes), dtype=np.int64)
    found = _read(run, _Sample(tuple(lanes), everything, everything), tuple(_KINDS))
    for (lane, partition), marks in run.checkpoints.high_watermarks.items():
        known = [mark for mark in marks.values() if mark is not None]
        if lane in found and known:
            found[lane].high_watermarks[partition] = min(known)
    for entry in run.lanes:
        if entry.lane in found and entry.transactional is not None:
            healed = [fault.healed[-1] for fault in run.events.concerning(entry.lane) if fault.healed]
            found[entry.lane].timeout_ms = entry.transactional.timeout_ms
            found[entry.lane].healed_ns = max(healed, default=0)
    return found


def _groups(run: RunDirectory, lane: Lane, histories: Mapping[str, LaneHistory]) -> list[Group] | None:
    """The groups of a lane; None if another lane is needed and too large."""
    reads = groups_of_lane(lane)
    if not {lane.lane, *reads.values()} <= histories.keys():
        return None
    own = None if lane.group is None else group_of(lane.lane)
    return [
        Group(group, histories[source], None if group == own else histories[lane.lane], dict(run.groups.get(group, {})))
        for group, source in reads.items()
    ]


def _read(run: RunDirectory, sample: _Sample, tables: tuple[str, ...]) -> dict[str, LaneHistory]:
    found = {lane: LaneHistory(log=[] if run.has_log else None) for lane in sample.lanes}
    for name in tables:
        kind = _KINDS[name]
        for batch in _batches(run, name, ["lane", *kind._fields]):
            columns = sample.of(batch).to_pydict()
            for lane, *values in zip(*columns.values(), strict=True):
                getattr(found[lane], name).append(kind(*values))
    return found


def _keep_producers(history: LaneHistory, most: int) -> None:
    """Leave out the producers with the highest ids until at most `most` rows remain."""
    sizes = Counter(row.producer_id for row in (*history.produced, *history.consumed, *(history.log or ())))
    kept, total = set(), 0
    for producer_id in sorted(sizes):
        total += sizes[producer_id]
        if total <= most:
            kept.add(producer_id)
    history.produced = [row for row in history.produced if row.producer_id in kept]
    history.consumed = [row for row in history.consumed if row.producer_id in kept]
    if history.log is not None:
        history.log = [row for row in history.log if row.producer_id in kept]


def _size(history: LaneHistory) -> int:
    return len(history.produced) + len(history.consumed) + len(history.log or ())


def _rows_by_lane(run: RunDirectory) -> tuple[Counter[str], dict[str, int]]:
    """The rows of each lane in all tables, and the highest sequence number that it sent."""
    rows: Counter[str] = Counter()
    last_seqs: dict[str, int] = {}
    for name in _KINDS:
        number = next(key for key in ("seq", "partition", "producer_id") if key in _KINDS[name]._fields)
        for batch in _batches(run, name, ["lane", number]):
            table = pa.Table.from_batches([batch])
            grouped = table.group_by("lane").aggregate([(number, "count"), (number, "max")]).to_pydict()
            for lane, count, highest in zip(*(grouped[key] for key in ("lane", *_counted(number))), strict=True):
                rows[lane] += count
                if name == "produced":
                    last_seqs[lane] = max(highest, last_seqs.get(lane, 0))
    return rows, last_seqs


def _counted(column: str) -> tuple[str, str]:
    return f"{column}_count", f"{column}_max"


def _span(history: LaneHistory) -> int:
    """How many offsets lie between the lowest and the highest one of its partitions."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for row in (*history.consumed, *(history.log or ())):
        offsets[row.partition].append(row.offset)
    return sum(max(held) - min(held) for held in offsets.values())


def _batches(run: RunDirectory, name: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if run.has(name) and run.tables[name].files:
        files = [str(file) for file in run.tables[name].files]
        yield from ds.dataset(files, schema=arrow_schema(TABLES[name]), format="parquet").to_batches(columns=columns)
