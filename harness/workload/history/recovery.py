"""Completes the history of a harness that died.

A producer reserves seqs in `reservations.jsonl` before it sends the first of them. After a crash, a reserved seq
without a row counts as `info`, never as a phantom. Of transactions and assignments, what other rows show is completed.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import ASSIGNMENTS, TABLES, TRANSACTIONS, arrow_schema
from kafka_chaos.contract.command.files import UNFINISHED
from kafka_chaos.contract.lane.transactions import IN_DOUBT, ISOLATION_LEVELS
from kafka_chaos.harness.workload.history.manifest import write_manifest
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS, reservations_in
from kafka_chaos.harness.workload.history.writer import PRODUCED_SCHEMA, ROWS_PER_FILE, last_number, write_parquet


def recover(run_directory: Path) -> int:
    """Give every reserved seq without a row the outcome `info`; returns the number of added rows in `produced/`.

    Transactions and assignments without a row get theirs, too; then the manifest is written. For run directories whose
    harness died. Does nothing without a journal, since then the run ended in order.
    """
    journal = run_directory / RESERVATIONS
    if not journal.exists():
        return 0
    folder = run_directory / "produced"
    folder.mkdir(exist_ok=True)
    entries = list(reservations_in(journal))
    missing = _Missing(entry for entry in entries if "first_seq" in entry)
    assigned = [row for entry in entries for row in entry.get("assigned", ())]
    for path in sorted(folder.glob("*.parquet")):
        missing.remove(pq.read_table(path, columns=["lane", "producer_id", "seq"]))
    added = 0
    number = last_number(folder)
    for table in missing.tables():
        number += 1
        write_parquet(table, folder / f"part-{number:06d}.parquet")
        added += table.num_rows
    ids = {
        (entry["lane"], entry["producer_id"]): entry["transactional_id"]
        for entry in entries
        if "transactional_id" in entry
    }
    if ids:
        _append(missing_transactions(run_directory, ids), run_directory / "transactions")
    if ids or assigned:
        _append(missing_assignments(run_directory, assigned), run_directory / "assignments")
    for name in TABLES:
        for unfinished in (run_directory / name).glob(UNFINISHED):
            unfinished.unlink()
    write_manifest(run_directory)
    journal.unlink()
    return added


def _append(table: pa.Table, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if table.num_rows:
        write_parquet(table, folder / f"part-{last_number(folder) + 1:06d}.parquet")


class _Missing:
    """Which reserved seqs have no row yet: per lane and producer, one byte per seq."""

    def __init__(self, reservations: Iterable[Mapping[str, Any]]) -> None:
        ranges: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
        for entry in reservations:
            producer = (entry["lane"], entry["producer_id"])
            ranges.setdefault(producer, []).append((entry["first_seq"], entry["count"], entry["ns"]))
        self._ranges = ranges
        self._is_missing: dict[tuple[str, int], npt.NDArray[np.bool_]] = {}
        for producer, reserved in ranges.items():
            missing = np.zeros(max(first + count for first, count, _ in reserved), dtype=np.bool_)
            for first, count, _ in reserved:
                missing[first : first + count] = True
            self._is_missing[producer] = missing

    def remove(self, rows: pa.Table) -> None:
        """Remove the seqs that have a row."""
        for batch in rows.to_batches(max_chunksize=ROWS_PER_FILE):
            lanes = batch.column("lane").dictionary_encode()
            codes = lanes.indices.to_numpy(zero_copy_only=False)
            producer_ids = batch.column("producer_id").to_numpy()
            seqs = batch.column("seq").to_numpy()
            for (lane, producer_id), missing in self._is_missing.items():
                code = lanes.dictionary.index(lane).as_py()
                own = seqs[(codes == code) & (producer_ids == producer_id)]
                missing[own[own < missing.size]] = False

    def tables(self) -> Iterator[pa.Table]:
        """The missing rows, by producer; the time of the reservation counts as the time of sending."""
        for (lane, producer_id), missing in self._is_missing.items():
            seqs = np.flatnonzero(missing)
            if not seqs.size:
                continue
            ranges = sorted(self._ranges[lane, producer_id])
            firsts = np.array([first for first, _, _ in ranges])
            reserved_ns = np.array([ns for _, _, ns in ranges])
            rows = len(seqs)
            columns = [
                pa.array([lane] * rows, pa.string()),
                pa.array(np.full(rows, producer_id, np.int32)),
                pa.array(seqs.astype(np.int64)),
                pa.nulls(rows, pa.int32()),
                pa.nulls(rows, pa.int64()),
                pa.array(reserved_ns[np.searchsorted(firsts, seqs, side="right") - 1]),
                pa.nulls(rows, pa.int64()),
                pa.array(["info"] * rows, pa.string()),
                pa.array(["the harness died"] * rows, pa.string()),
                pa.nulls(rows, pa.int64()),
            ]
            yield pa.Table.from_arrays(columns, schema=PRODUCED_SCHEMA)


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
