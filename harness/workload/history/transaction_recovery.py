"""What a killed harness could not write of transactions and assignments, as far as its other rows show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import ASSIGNMENTS, TRANSACTIONS, arrow_schema
from kafka_chaos.contract.transactions import IN_DOUBT, ISOLATION_LEVELS


def missing_transactions(run_directory: Path, transactional_ids: Mapping[tuple[str, int], str]) -> pa.Table:
    """A row for every transaction that has records and no row: its outcome is not known.

    `transactional_ids` are those of the producers, by lane and producer_id.
    """
    key = ["lane", "producer_id", "transaction"]
    known = _known(run_directory / "transactions", key)
    rows = [
        {
            **{name: row[name] for name in key},
            "transactional_id": transactional_ids[row["lane"], row["producer_id"]],
            "begin_ns": row["invoke_ns_min"],
            "outcome": IN_DOUBT,
            "error": "the harness died",
        }
        for row in _first(run_directory / "produced", key, "invoke_ns")
        if row["transaction"] is not None and tuple(row[name] for name in key) not in known
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(TRANSACTIONS))


def missing_assignments(run_directory: Path, assigned: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A row for every partition that a consumer with an isolation level in its name read, and that has no row.

    The same of those that were `assigned` to members of groups.
    """
    key = ["lane", "consumer", "partition"]
    known = _known(run_directory / "assignments", key)
    rows = [dict(row) for row in assigned if tuple(row[name] for name in key) not in known]
    for row in _first(run_directory / "consumed", key, "poll_ns"):
        member = row["consumer"].rpartition("-")[0]
        isolation = next((level for level in ISOLATION_LEVELS if member == f"{row['lane']}-{level}"), None)
        if isolation is not None and tuple(row[name] for name in key) not in known:
            named = {name: row[name] for name in key}
            rows.append({**named, "member": member, "isolation": isolation, "start_ns": row["poll_ns_min"]})
    return pa.Table.from_pylist(rows, schema=arrow_schema(ASSIGNMENTS))


def _known(folder: Path, key: list[str]) -> set[tuple[Any, ...]]:
    return {tuple(row.values()) for row in _first(folder, key)}


def _first(folder: Path, key: list[str], time: str | None = None) -> list[dict[str, Any]]:
    """The keys that a table has, each with its earliest `time`."""
    files = [
        pq.read_table(path, columns=[*key, *([time] if time else [])]) for path in sorted(folder.glob("*.parquet"))
    ]
    if not files:
        return []
    grouped = pa.concat_tables(files).group_by(key).aggregate([(time, "min")] if time else [])
    rows: list[dict[str, Any]] = grouped.to_pylist()
    return rows
