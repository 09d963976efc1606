"""Histories on disk: each row is in a complete Parquet file at most a second after its outcome, in bounded memory.

A file gets its name only when it is complete. So everything that a killed harness left behind can be read, and a reader
may follow the folder during the run. A file never changes and is never replaced: a reader that follows files by name
neither misses nor doubles a row. A producer reserves seqs in `reservations.jsonl` before it sends the first of them.
After a crash, a reserved seq without a row counts as `info` (`recover`), never as a phantom.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import ASSIGNMENTS, COMMITS, CONSUMED, PRODUCED, TABLES, TRANSACTIONS, arrow_schema
from kafka_chaos.contract.files import UNFINISHED, appearing_whole
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS, reservations_in
from kafka_chaos.harness.workload.history.transaction_recovery import missing_assignments, missing_transactions

PRODUCED_SCHEMA = arrow_schema(PRODUCED, without=("key", "source_producer_id", "source_seq"))
OUTPUTS_SCHEMA = arrow_schema(PRODUCED, without=("key",))
CONSUMED_SCHEMA = arrow_schema(CONSUMED)
TRANSACTIONS_SCHEMA = arrow_schema(TRANSACTIONS)
ASSIGNMENTS_SCHEMA = arrow_schema(ASSIGNMENTS)
COMMITS_SCHEMA = arrow_schema(COMMITS)

FLUSH_INTERVAL = 0.2
"""How many seconds a recorder may keep rows before it passes them on."""
_GATHER_INTERVAL = 0.5
"""How many seconds a writer gathers rows. Both, plus the time to write a file, are less than a second."""
_ROWS_PER_FILE = 100_000
_QUEUED_TABLES = 16
_STOP = None

Take = Callable[[], pa.Table | None]


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a file that is either whole under `path` or not there."""
    with appearing_whole(path) as part:
        pq.write_table(table, part, compression="zstd", compression_level=1)


class HistoryWriter:
    """Writes the rows of one kind of history (`produced` or `consumed`) of all lanes, in its own thread.

    Rows of all lanes share files, so the number of files grows with time, not with lanes. The queue is bounded: a slow
    disk slows the load instead of filling the memory. The next `write`, or `close`, raises an error of the thread.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._number = _last_number(folder)
        self._tables: queue.Queue[pa.Table | None] = queue.Queue(maxsize=_QUEUED_TABLES)
        self._sources: list[Take] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"history-{folder.name}", daemon=True)
        self._thread.start()

    def write(self, table: pa.Table) -> None:
        """Queue rows; waits while the queue is full."""
        self._raise_error()
        if table.num_rows:
            self._tables.put(table)

    def follow(self, take: Take) -> None:
        """Call `take` for more rows at least every half second, and once at the end. It must not wait."""
        self._sources.append(take)

    def close(self) -> None:
        """Write the remaining rows and end the thread."""
        self._tables.put(_STOP)
        self._thread.join()
        self._raise_error()

    def _run(self) -> None:
        ended = False
        while not ended:
            pending, ended = self._gather()
            if self._error is None:
                try:
                    taken = [table for take in list(self._sources) if (table := take()) is not None]
                    if pending or taken:
                        self._write_file([*pending, *taken])
                except Exception as error:  # noqa: BLE001 - handed to the thread that writes next
                    self._error = error

    def _gather(self) -> tuple[list[pa.Table], bool]:
        """The rows of one file, and whether they are the last."""
        pending: list[pa.Table] = []
        rows, until = 0, time.monotonic() + _GATHER_INTERVAL
        while rows < _ROWS_PER_FILE:
            try:
                table = self._tables.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return pending, False
            if table is _STOP:
                return pending, True
            pending.append(table)
            rows += table.num_rows
        return pending, False

    def _write_file(self, tables: list[pa.Table]) -> None:
        self._number += 1
        write_parquet(
            pa.concat_tables(tables, promote_options="default"), self._folder / f"part-{self._number:06d}.parquet"
        )

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class RowBuffer:
    """Single rows on their way to a writer, which takes them when it next writes. Threads may share it."""

    def __init__(self, schema: pa.Schema, writer: HistoryWriter) -> None:
        self._schema = schema
        self._rows: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        writer.follow(self._take)

    def add(self, row: dict[str, Any]) -> None:
        """Add a row; columns that it lacks are null."""
        with self._lock:
            self._rows.append(row)

    def _take(self) -> pa.Table | None:
        with self._lock:
            rows, self._rows = self._rows, []
        return pa.Table.from_pylist(rows, schema=self._schema) if rows else None


def _last_number(folder: Path) -> int:
    """The number of the newest file that a writer left in `folder`: the next phase continues from it."""
    numbers = [path.stem.removeprefix("part-") for path in folder.glob("part-*.parquet")]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def recover(run_directory: Path) -> int:
    """Give every reserved seq without a row the outcome `info`; returns the number of added rows in `produced/`.

    Transactions and assignments without a row get theirs, too. For run directories whose harness died. Does nothing
    without a journal, since then the run ended in order.
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
    number = _last_number(folder)
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
    journal.unlink()
    return added


def _append(table: pa.Table, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if table.num_rows:
        write_parquet(table, folder / f"part-{_last_number(folder) + 1:06d}.parquet")


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
        for batch in rows.to_batches(max_chunksize=_ROWS_PER_FILE):
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
