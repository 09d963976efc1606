"""Writes generated lanes as a run directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from generated_histories.lanes import Columns, LaneShape, LaneTables, Longs
from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.columns import OUTCOMES, TABLES, arrow_type
from kafka_chaos.contract.lane.groups import COMMIT_OUTCOMES, group_of
from kafka_chaos.contract.lane.transactions import (
    ISOLATION_LEVELS,
    RECORD_KINDS,
    TRANSACTION_OUTCOMES,
    transactional_id,
)
from kafka_chaos.contract.run_directory import GROUPS_FILE, LANES_FILE, PREDICTION_FILE

_CODES: Mapping[tuple[str, str], Sequence[str]] = {
    ("produced", "outcome"): OUTCOMES,
    ("transactions", "outcome"): TRANSACTION_OUTCOMES,
    ("replicas", "kind"): RECORD_KINDS,
    ("assignments", "isolation"): ISOLATION_LEVELS,
    ("commits", "outcome"): COMMIT_OUTCOMES,
}
"""The texts that the numbers in a column stand for."""
_NAMES: Mapping[str, Callable[[str, int], str]] = {
    "consumer": lambda lane, number: f"{lane}/c{number}",
    "member": lambda lane, number: f"{lane}/m{number}",
    "transactional_id": transactional_id,
    "group": lambda lane, _: group_of(lane),
}
"""Columns whose numbers become names."""


def write_run(
    folder: Path, lanes: Iterable[LaneTables], *, rows_per_file: int = 1_000_000, final_log: bool = True
) -> Path:
    """Write the run directory: one file per lane and `rows_per_file` rows, as a recorder that flushes does.

    One lane after the other is asked for, so that `lanes` may make each of them when its turn comes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    statuses: dict[str, Any] = {}
    committed: dict[str, dict[str, int]] = {}
    for tables in lanes:
        entries.append({**_lane_entry(tables.shape), **tables.clients})
        if not tables.clients:
            statuses[tables.shape.lane] = _prediction(tables.shape)
        if tables.committed:
            committed |= _committed(tables)
        found = {"produced": tables.produced, "consumed": tables.consumed, **tables.others}
        if final_log:
            found["log"] = tables.log
        for table, columns in found.items():
            _write_table(folder / table, tables.shape.lane, columns, rows_per_file)
    version = 2 if len(statuses) < len(entries) else 1
    _write_json(folder / LANES_FILE, {"format_version": version, "lanes": entries})
    _write_json(folder / PREDICTION_FILE, {"format_version": 1, "lanes": statuses})
    if committed:
        _write_json(folder / GROUPS_FILE, {"groups": committed})
    return folder


def _write_table(folder: Path, lane: str, columns: Columns, rows_per_file: int) -> None:
    folder.mkdir(exist_ok=True)
    size = next(iter(columns.values())).size
    for index, first in enumerate(range(0, max(size, 1), rows_per_file)):
        rows = _arrow(folder.name, lane, columns, slice(first, first + rows_per_file))
        pq.write_table(rows, folder / f"{lane}-{index:05d}.parquet", compression="zstd", compression_level=1)


def _arrow(table: str, lane: str, columns: Columns, rows: slice) -> pa.Table:
    kinds = {column.name: column for column in TABLES[table]}
    arrays: dict[str, pa.Array] = {}
    for name, values in columns.items():
        if name not in kinds:
            continue
        part = values[rows]
        if (table, name) in _CODES:
            arrays[name] = _named(part, _CODES[table, name])
        elif name in _NAMES:
            arrays[name] = _numbered(lane, part, _NAMES[name])
        else:
            may_be_missing = kinds[name].nullable and kinds[name].type != "string"
            arrays[name] = pa.array(part, type=arrow_type(kinds[name]), mask=part < 0 if may_be_missing else None)
    count = len(next(iter(arrays.values())))
    return pa.table({"lane": _named(np.zeros(count, np.int64), [lane]), **arrays})


def _named(codes: Longs, names: Sequence[str]) -> pa.Array:
    """The names that the codes stand for; −1 stands for null."""
    missing = codes < 0 if (codes < 0).any() else None
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=missing), list(names)).cast(pa.string())


def _numbered(lane: str, numbers: Longs, name: Callable[[str, int], str]) -> pa.Array:
    """Names made of the lane's and the numbers; a negative number is null."""
    used, index = np.unique(numbers, return_inverse=True)
    return _named(np.where(numbers < 0, -1, index), [name(lane, int(number)) for number in used])


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1))


def _committed(tables: LaneTables) -> dict[str, dict[str, int]]:
    lane = tables.shape.lane
    return {group_of(lane): {f"{lane}/{partition}": offset for partition, offset in tables.committed.items()}}


def _lane_entry(shape: LaneShape) -> dict[str, Any]:
    # The model permits nothing to a lane without faults.
    faults = ["pause", "kill"] if shape.permitted else []
    entry = {"lane": shape.lane, "partitions": shape.partitions, "acks": shape.acks, "faults": faults}
    return entry | ({"replication_factor": shape.replicas} if shape.replicas else {})


def _prediction(shape: LaneShape) -> dict[str, Any]:
    def status(anomaly: Anomaly) -> str:
        return (Status.PERMITTED if anomaly.value in shape.permitted else Status.FORBIDDEN).value

    return {"anomalies": {anomaly.value: {"status": status(anomaly), "why": []} for anomaly in Anomaly}}
