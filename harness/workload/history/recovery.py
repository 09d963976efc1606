"""Completes the history of a harness that died.

A producer reserves seqs in `reservations.jsonl` before it sends the first of them. After a crash, a reserved seq
without a row counts as `info`, never as a phantom. Of transactions and assignments, what other rows show is completed.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import ASSIGNMENTS, TABLES, TRANSACTIONS, arrow_schema
from kafka_chaos.contract.command.files import UNFINISHED
from kafka_chaos.contract.lane.transactions import IN_DOUBT
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS, reservations_in
from kafka_chaos.harness.workload.history.writer import (
    PRODUCED_SCHEMA,
    complete_history,
    delete_gathered,
    last_number,
    write_parquet,
)


def recover(run_directory: Path) -> int:
    """Give every reserved seq without a row the outcome `info`; returns the number of added rows in `produced/`.

    Transactions and assignments without a row get theirs, too; then the manifest is written. For run directories whose
    harness died. Does nothing without a journal, since then the run ended in order.
    """
    journal = run_directory / RESERVATIONS
    if not journal.exists():
        return 0
    for name in TABLES:
        delete_gathered(run_directory / name)
        for unfinished in (run_directory / name).glob(UNFINISHED):
            unfinished.unlink()
    entries = list(reservations_in(journal))
    assigned = [row for entry in entries for row in entry.get("assigned", ())]
    missing = missing_records(run_directory, [entry for entry in entries if "first_seq" in entry])
    _append(missing, run_directory / "produced")
    ids = {
        (entry["lane"], entry["producer_id"]): entry["transactional_id"]
        for entry in entries
        if "transactional_id" in entry
    }
    if ids:
        _append(missing_transactions(run_directory, ids), run_directory / "transactions")
    if assigned:
        # A row for every partition that was `assigned` to a consumer, and that has no row.
        key = ["lane", "consumer", "partition"]
        known = _known(run_directory / "assignments", key)
        rows = [dict(row) for row in assigned if tuple(row[name] for name in key) not in known]
        _append(pa.Table.from_pylist(rows, schema=arrow_schema(ASSIGNMENTS)), run_directory / "assignments")
    complete_history(run_directory)
    return int(missing.num_rows)


def _append(table: pa.Table, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if table.num_rows:
        write_parquet(table, folder / f"part-{last_number(folder) + 1:06d}.parquet")


def missing_records(run_directory: Path, reservations: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A row for every reserved seq that has none; the time of the reservation counts as the time of sending."""
    reserved: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for entry in reservations:
        reserved.setdefault((entry["lane"], entry["producer_id"]), []).append(entry)
    missing: dict[tuple[str, int], npt.NDArray[np.bool_]] = {}
    for producer, entries in reserved.items():
        missing[producer] = np.zeros(max(entry["first_seq"] + entry["count"] for entry in entries), np.bool_)
        for entry in entries:
            missing[producer][entry["first_seq"] : entry["first_seq"] + entry["count"]] = True
    for path in sorted((run_directory / "produced").glob("*.parquet")):
        table = pq.read_table(path, columns=["lane", "producer_id", "seq"])
        for (lane, producer_id), is_missing in missing.items():
            own = pc.and_(pc.equal(table["lane"], lane), pc.equal(table["producer_id"], producer_id))
            seqs = table["seq"].filter(own).to_numpy()
            is_missing[seqs[seqs < is_missing.size]] = False
    died = {"outcome": "info", "error": "the harness died"}
    rows = [
        {"lane": lane, "producer_id": producer_id, "seq": seq, "invoke_ns": entry["ns"], **died}
        for (lane, producer_id), entries in reserved.items()
        for entry in entries
        for seq in range(entry["first_seq"], entry["first_seq"] + entry["count"])
        if missing[lane, producer_id][seq]
    ]
    return pa.Table.from_pylist(rows, schema=PRODUCED_SCHEMA)


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
