"""Reads the tables of a run directory with PyArrow, file by file.

Guarantee: a part has the necessary columns of one file, and every row of it. A file that can't be read is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_chaos.contract.columns import TABLES
from kafka_chaos.verification.engines import documents
from kafka_chaos.verification.inputs.parquet import batches_of
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from tests.verification.oracle import rows as oracle

KINDS: Mapping[str, Any] = {
    "produced": oracle.Produced,
    "consumed": oracle.Read,
    "log": oracle.Stored,
    "replicas": oracle.Replicated,
    "transactions": oracle.Transaction,
    "assignments": oracle.Assigned,
    "commits": oracle.Commit,
    "deliveries": oracle.Delivery,
    "share_starts": oracle.ShareStart,
    "dead_letters": oracle.DeadLetter,
}
"""By table its rows. Each also names its lane."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one file, as columns of Python values."""

    table: str
    file: Path
    columns: Mapping[str, list[Any]]

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """The rows with these columns."""
        return zip(*(self.columns[name] for name in names), strict=True)


def parts_of(run: RunDirectory) -> list[Part]:
    """All rows of the run's tables, in the order of tables and files."""
    return [
        Part(table, file, {name: values_of(batch.column(name)) for name in batch.schema.names})
        for table, kind in KINDS.items()
        for file, batch in batches(run, table, ["lane", *kind._fields])
    ]


def batches(run: RunDirectory, table: str, names: Sequence[str]) -> Iterator[tuple[Path, pa.RecordBatch]]:
    """These columns of a table, piece by piece, each with its file. Columns that a file lacks are null."""
    known = {column.name: column for column in TABLES[table]}
    for file in run.tables[table].files if run.has(table) else ():
        assert isinstance(file, Path)
        for batch in batches_of([file], [known[name] for name in names]):
            yield file, batch


def values_of(column: pa.Array) -> list[Any]:
    """The values of a column, None for null; much faster than PyArrow's own way. Equal texts are one object."""
    if pa.types.is_string(column.type):
        coded = column.dictionary_encode()
        names = coded.dictionary.to_pylist()
        return [None if at is None else names[at] for at in values_of(coded.indices)]
    if not column.null_count:
        return column.to_numpy().tolist()  # type: ignore[no-any-return]
    found: list[Any] = column.fill_null(0).to_numpy().tolist()
    for at in column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
        found[at] = None
    return found


def histories_of(run: RunDirectory, parts: Sequence[Part]) -> dict[str, oracle.LaneHistory]:
    """The rows of all lanes, and what metadata says of them."""
    found = empty_histories(run, (lane.lane for lane in run.lanes))
    for part in parts:
        kind = KINDS[part.table]
        into = {lane: getattr(history, part.table) for lane, history in found.items()}
        for lane, row in zip(part.columns["lane"], map(kind._make, part.rows(*kind._fields)), strict=True):
            into[lane].append(row)
    add_metadata(run, found)
    return found


def empty_histories(run: RunDirectory, lanes: Iterable[str]) -> dict[str, oracle.LaneHistory]:
    """These lanes without rows."""
    log: list[oracle.Stored] | None = [] if run.has_log else None
    return {lane: oracle.LaneHistory(log=copy(log), has_replicas=run.has("replicas")) for lane in lanes}


def add_metadata(run: RunDirectory, histories: Mapping[str, oracle.LaneHistory]) -> None:
    """Add the content of lanes.json, checkpoints.json and events.jsonl about these lanes."""
    for (lane, partition), marks in run.checkpoints.high_watermarks.items():
        known = {broker: mark for broker, mark in marks.items() if mark is not None}
        if lane in histories and known:
            histories[lane].high_watermarks[partition] = min(known.values())
            histories[lane].marks[partition] = known
        least, sizes = run.lane(lane).retention_bytes, run.checkpoints.sizes[lane, partition].values()
        if least is not None:
            retained = histories[lane].retained = histories[lane].retained or {}
            if starts := [start or 0 for start, size in sizes if 10 * (size or 0) >= 9 * least]:
                retained[partition] = max(starts)
    lanes = documents.tables(run)["lanes"]
    of_lanes = zip(run.lanes, lanes["kept_ns"].to_pylist(), lanes["lossless"].to_pylist(), strict=True)
    for entry, kept, lossless in of_lanes:
        if (history := histories.get(entry.lane)) is None:
            continue
        history.is_cleaned, history.is_lossless = entry.cleanup_policy is not None, bool(lossless)
        history.is_idempotent = entry.idempotence
        if entry.cleanup_policy == "compact":
            history.is_compacted, history.kept_ns = True, kept
        if entry.share is not None:
            history.is_share_committed = entry.share.isolation == "read_committed"
        if entry.transactional is not None:
            healed = [fault.healed[-1] for fault in run.events.concerning(entry.lane) if fault.healed]
            history.timeout_ms, history.healed_ns = entry.transactional.timeout_ms, max(healed, default=0)
