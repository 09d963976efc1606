"""Histories on disk: each row is in a complete Parquet file at most a second after its outcome, in bounded memory.

A file gets its name only when it is complete, so everything that a killed harness left behind can be read. Once all
rows are there, the many small files become few (`gather_parts`), since an engine opens each of them for each query.

Once all evidence of a run is there, `complete_history` writes manifest.json: the rows and the SHA-256 of each file. The
manifest does not cover the verdict, the findings and the report, which are made later, from the files that it names,
nor the last lines of events.jsonl, which report the verification: it covers the bytes that the file has by then.
"""

import json
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import CONSUMED, PRODUCED, TABLES, arrow_schema
from kafka_chaos.contract.command.files import appearing_whole, write_whole
from kafka_chaos.contract.run_directory import DOCUMENTS, EVENTS_FILE, FORMAT_VERSION, MANIFEST_FILE, sha256_of
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS
from kafka_chaos.harness.workload.worker import Worker

PRODUCED_SCHEMA = arrow_schema(PRODUCED)
CONSUMED_SCHEMA = arrow_schema(CONSUMED, without=("reading_producer_id", "reading_transaction"))
READ_IN_TRANSACTION_SCHEMA = arrow_schema(CONSUMED)

_FILE_INTERVAL_S = 0.5  # With the time that it takes to write a file, less than a second.
ROWS_PER_FILE = 100_000
_MAX_QUEUED_TABLES = 16
_MAX_SINGLE_ROWS = 16_384
_LAST = None  # In the queue: no table follows.

Source = Callable[[], pa.Table | None]
"""Returns the rows that have come since the last call; None if there are none."""


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a file that is either whole under `path` or not there."""
    with appearing_whole(path) as part:
        pq.write_table(table, part, compression="zstd", compression_level=1)


class HistoryWriter:
    """Writes the rows of one table of the history, such as `produced`, for all lanes, in a thread of its own.

    Rows of all lanes share files, so the number of files grows with time, not with lanes. The queue is bounded: a slow
    disk slows the load instead of filling the memory. The next `write`, or `close`, raises an error of the thread.
    `schema`: the columns of rows that come by `add`. With `keeps_empty`, a table without any row has a file of these
    columns, so that readers don't take the table for a lost one.
    """

    def __init__(self, folder: Path, schema: pa.Schema | None = None, *, keeps_empty: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._schema, self._keeps_empty = folder, schema, keeps_empty
        self._number = last_number(folder)
        self._tables: queue.Queue[pa.Table | None] = queue.Queue(maxsize=_MAX_QUEUED_TABLES)
        self._rows: list[dict[str, Any]] = []
        self._rows_lock = threading.Lock()
        self.sources: list[Source] = [self._take_rows]
        """Called for more rows at least every half second, and once at the end. They must not wait."""
        self._worker = Worker(self._run, name=f"history-{folder.name}")
        self._worker.start()

    def write(self, table: pa.Table) -> None:
        """Queue rows; waits while the queue is full."""
        self._worker.raise_error()
        if table.num_rows:
            self._tables.put(table)

    def add(self, row: dict[str, Any]) -> None:
        """Add a single row, which is written together with others; columns that it lacks are null."""
        with self._rows_lock:
            self._rows.append(row)
            is_full = len(self._rows) >= _MAX_SINGLE_ROWS
        # Not under the lock: `write` may wait for the writer's thread, which takes the lock, too.
        if is_full and (table := self._take_rows()) is not None:
            self.write(table)

    def _take_rows(self) -> pa.Table | None:
        with self._rows_lock:
            rows, self._rows = self._rows, []
        return pa.Table.from_pylist(rows, schema=self._schema) if rows else None

    def close(self) -> None:
        """Write the remaining rows and end the thread."""
        self._tables.put(_LAST)
        self._worker.join()
        self._worker.raise_error()
        if self._keeps_empty and self._schema is not None and self._number == 0:
            self._write_file([self._schema.empty_table()])

    def _run(self) -> None:
        is_over = False
        while not is_over:
            # The tables of one file: all that come within its interval.
            tables, rows, deadline = list[pa.Table](), 0, time.monotonic() + _FILE_INTERVAL_S
            with suppress(queue.Empty):
                while rows < ROWS_PER_FILE and not is_over:
                    queued = self._tables.get(timeout=max(0.0, deadline - time.monotonic()))
                    is_over = queued is _LAST
                    if queued is not None:
                        tables.append(queued)
                        rows += queued.num_rows
            if self._worker.error is None:
                try:
                    tables += [table for source in list(self.sources) if (table := source()) is not None]
                    if tables:
                        self._write_file(tables)
                except Exception as error:  # noqa: BLE001 - the next `write`, or `close`, raises it
                    self._worker.error = error

    def _write_file(self, tables: list[pa.Table]) -> None:
        self._number += 1
        table = pa.concat_tables(tables, promote_options="default")
        write_parquet(table, self._folder / f"part-{self._number:06d}.parquet")


def last_number(folder: Path) -> int:
    """The number of the newest file that a writer left in `folder`, from which the next phase's writer counts on."""
    return max((last for _, last in parts_in(folder).values()), default=0)


def parts_in(folder: Path) -> dict[Path, tuple[int, int]]:
    """A writer's files in `folder`, in order, each with the first and the last number in its name.

    A file has one number, such as part-000007, or two if files were gathered in it: part-000001-000006.
    """
    numbers = {path: path.stem.split("-")[1:] for path in sorted(folder.glob("part-*.parquet"))}
    return {path: (int(own[0]), int(own[-1])) for path, own in numbers.items() if all(map(str.isdecimal, own))}


def gather_parts(folder: Path) -> None:
    """Replace the files of a folder that nobody writes to any more by fewer, of up to `ROWS_PER_FILE` rows each."""
    parts, groups, rows = parts_in(folder), [list[Path]()], 0
    for path in parts:
        rows_of_part = pq.read_metadata(path).num_rows
        if rows + rows_of_part > ROWS_PER_FILE:
            groups.append([])
            rows = 0
        groups[-1].append(path)
        rows += rows_of_part
    for paths in groups:
        if len(paths) > 1:
            table = pa.concat_tables([pq.ParquetFile(path).read() for path in paths], promote_options="default")
            first, last = parts[paths[0]][0], parts[paths[-1]][1]
            write_parquet(table, folder / f"part-{first:06d}-{last:06d}.parquet")
            for path in paths:
                path.unlink()


def delete_gathered_parts(folder: Path) -> None:
    """Delete files whose rows are also in a gathered file: a harness that died while it gathered them left both."""
    parts = parts_in(folder)
    gathered = [(start, end) for start, end in parts.values() if start < end]
    for path, (first, last) in parts.items():
        if any(start <= first and last <= end and (start, end) != (first, last) for start, end in gathered):
            path.unlink()


def complete_history(run_directory: Path) -> None:
    """Gather the small files of a run whose evidence is complete, write its manifest, and delete reservations.jsonl."""
    for table in TABLES:
        gather_parts(run_directory / table)
    write_manifest(run_directory)
    (run_directory / RESERVATIONS).unlink(missing_ok=True)


def write_manifest(run_directory: Path) -> None:
    """Write manifest.json, with an entry for each file of evidence."""
    files = [run_directory / name for name in DOCUMENTS if (run_directory / name).exists()]
    for table in TABLES:
        files += sorted((run_directory / table).glob("*.parquet"))
    names = [file.relative_to(run_directory).as_posix() for file in files]
    with ThreadPoolExecutor() as threads:
        entries = dict(zip(names, threads.map(_entry, files), strict=True))
    document = {"format_version": FORMAT_VERSION, "files": entries}
    write_whole(run_directory / MANIFEST_FILE, json.dumps(document, indent=1) + "\n")


def _entry(file: Path) -> dict[str, Any]:
    size = file.stat().st_size
    if file.name == EVENTS_FILE:
        # Another thread may be writing a line: only whole lines count.
        size = file.read_bytes()[:size].rfind(b"\n") + 1
    with file.open("rb") as content:
        entry: dict[str, Any] = {"bytes": size, "sha256": sha256_of(content, size)}
    return entry if file.suffix != ".parquet" else {"rows": pq.read_metadata(file).num_rows, **entry}
