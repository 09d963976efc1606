"""Histories on disk: each row is in a complete Parquet file at most a second after its outcome, in bounded memory.

A file gets its name only when it is complete, so everything that a killed harness left behind can be read. Once all
rows are there, the many small files become few (`gather_parts`), since an engine opens each of them for each query.

Once all evidence of a run is there, the history is completed: manifest.json names the rows and the SHA-256 of each
file. The verdict, the findings and the report come later, since they follow from the files that the manifest names. So
do the last lines of events.jsonl, which tell of the verification: the manifest names as many bytes of it as there were.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import CONSUMED, PRODUCED, TABLES, arrow_schema
from kafka_chaos.contract.command.files import appearing_whole, write_whole
from kafka_chaos.contract.run_directory import DOCUMENTS, EVENTS_FILE, FORMAT_VERSION, MANIFEST_FILE, sha256_of
from kafka_chaos.harness.workload.history.reservations import RESERVATIONS

PRODUCED_SCHEMA = arrow_schema(PRODUCED, without=("key",))
CONSUMED_SCHEMA = arrow_schema(CONSUMED)

_GATHER_INTERVAL = 0.5
"""How many seconds a writer gathers rows: with the time to write a file, less than a second."""
ROWS_PER_FILE = 100_000
_QUEUED_TABLES = 16
_MOST_BUFFERED = 16_384
_STOP = None

Take = Callable[[], pa.Table | None]


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a file that is either whole under `path` or not there."""
    with appearing_whole(path) as part:
        pq.write_table(table, part, compression="zstd", compression_level=1)


def consumed_rows(
    lane: str,
    consumer: str,
    first_ns: int,
    *,
    partition: Sequence[int],
    offset: Sequence[int],
    producer_id: Sequence[int],
    seq: Sequence[int],
    leader_epoch: Sequence[int | None] | None = None,
) -> pa.Table:
    """Rows of `consumed/` for one batch of one consumer; their times are a nanosecond apart, from `first_ns` on."""
    count = len(offset)
    columns = [
        pa.array([lane] * count, pa.string()),
        pa.array([consumer] * count, pa.string()),
        pa.array(partition, pa.int32()),
        pa.array(offset, pa.int64()),
        pa.array(producer_id, pa.int32()),
        pa.array(seq, pa.int64()),
        pa.nulls(count, pa.int32()) if leader_epoch is None else pa.array(leader_epoch, pa.int32()),
        pa.array(np.arange(first_ns, first_ns + count, dtype=np.int64)),
    ]
    return pa.Table.from_arrays(columns, schema=CONSUMED_SCHEMA)


class HistoryWriter:
    """Writes the rows of one kind of history (`produced` or `consumed`) of all lanes, in its own thread.

    Rows of all lanes share files, so the number of files grows with time, not with lanes. The queue is bounded: a slow
    disk slows the load instead of filling the memory. The next `write`, or `close`, raises an error of the thread.
    `schema`: the columns of single rows. With `keeps_empty`, a history without any row has a file of these columns, so
    that readers don't take it for a lost one.
    """

    def __init__(self, folder: Path, schema: pa.Schema | None = None, *, keeps_empty: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._schema, self._keeps_empty = folder, schema, keeps_empty
        self._number = last_number(folder)
        self._tables: queue.Queue[pa.Table | None] = queue.Queue(maxsize=_QUEUED_TABLES)
        self._rows: list[dict[str, Any]] = []
        self._adding = threading.Lock()
        self._sources: list[Take] = [self._take]
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"history-{folder.name}", daemon=True)
        self._thread.start()

    def write(self, table: pa.Table) -> None:
        """Queue rows; waits while the queue is full."""
        self._raise_error()
        if table.num_rows:
            self._tables.put(table)

    def add(self, row: dict[str, Any]) -> None:
        """Add a single row, which is written together with others; columns that it lacks are null."""
        with self._adding:
            self._rows.append(row)
            is_full = len(self._rows) >= _MOST_BUFFERED
        # Not under the lock, which the writer's thread also takes.
        if is_full and (table := self._take()) is not None:
            self.write(table)

    def _take(self) -> pa.Table | None:
        with self._adding:
            rows, self._rows = self._rows, []
        return pa.Table.from_pylist(rows, schema=self._schema) if rows else None

    def add_source(self, take: Take) -> None:
        """Call `take` for more rows at least every half second, and once at the end. It must not wait."""
        self._sources.append(take)

    def close(self) -> None:
        """Write the remaining rows and end the thread."""
        self._tables.put(_STOP)
        self._thread.join()
        self._raise_error()
        if self._keeps_empty and self._schema is not None and self._number == 0:
            self._write_file([self._schema.empty_table()])

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
        while rows < ROWS_PER_FILE:
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


def last_number(folder: Path) -> int:
    """The number of the newest file that a writer left in `folder`: the next phase continues from it."""
    return max((last for _, last in parts_in(folder).values()), default=0)


def parts_in(folder: Path) -> dict[Path, tuple[int, int]]:
    """A writer's files in `folder`, in order, each with the first and the last number of the files that it holds."""
    numbers = {path: path.stem.split("-")[1:] for path in sorted(folder.glob("part-*.parquet"))}
    return {path: (int(own[0]), int(own[-1])) for path, own in numbers.items() if all(map(str.isdecimal, own))}


def gather_parts(folder: Path) -> None:
    """Gather the files of a folder that nobody writes to any more, in order, each up to `ROWS_PER_FILE` rows."""
    parts, groups, rows = parts_in(folder), [list[Path]()], 0
    for path in parts:
        more = pq.read_metadata(path).num_rows
        if rows + more > ROWS_PER_FILE:
            groups.append([])
            rows = 0
        groups[-1].append(path)
        rows += more
    for paths in groups:
        if len(paths) > 1:
            table = pa.concat_tables([pq.ParquetFile(path).read() for path in paths], promote_options="default")
            first, last = parts[paths[0]][0], parts[paths[-1]][1]
            write_parquet(table, folder / f"part-{first:06d}-{last:06d}.parquet")
            for path in paths:
                path.unlink()


def delete_gathered(folder: Path) -> None:
    """Delete the files that another one holds: a harness that died while it gathered them has left both."""
    parts = parts_in(folder)
    spans = [(start, end) for start, end in parts.values() if start < end]
    for path, (first, last) in parts.items():
        if any(start <= first and last <= end and (start, end) != (first, last) for start, end in spans):
            path.unlink()


def complete_history(run_directory: Path) -> None:
    """Gather the small files of a run whose evidence is complete, write its manifest and delete the journal.

    From now on there is nothing to recover.
    """
    for table in TABLES:
        gather_parts(run_directory / table)
    write_manifest(run_directory)
    (run_directory / RESERVATIONS).unlink(missing_ok=True)


def write_manifest(run_directory: Path) -> None:
    """Write the manifest."""
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
        # Another thread may be about to write a line.
        size = file.read_bytes()[:size].rfind(b"\n") + 1
    with file.open("rb") as content:
        entry: dict[str, Any] = {"bytes": size, "sha256": sha256_of(content, size)}
    return entry if file.suffix != ".parquet" else {"rows": pq.read_metadata(file).num_rows, **entry}
