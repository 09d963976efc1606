"""Histories on disk: Parquet files that are whole at every moment, written while the run goes on, in bounded memory.

A file gets its name only when it is complete, so that whatever a dead harness left behind can be read. The seqs that a
producer may use are reserved in `reservations.jsonl` before the first of them is sent: what was reserved but has no
row is `info` after a crash (`recover`), never a phantom.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

PRODUCED_SCHEMA = pa.schema(
    [
        pa.field("lane", pa.string(), nullable=False),
        pa.field("producer_id", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("invoke_ns", pa.int64(), nullable=False),
        pa.field("complete_ns", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("error", pa.string()),
    ]
)

CONSUMED_SCHEMA = pa.schema(
    [
        pa.field("lane", pa.string(), nullable=False),
        pa.field("consumer", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("producer_id", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32()),
        pa.field("poll_ns", pa.int64(), nullable=False),
    ]
)

RESERVATIONS = "reservations.jsonl"
_QUEUED_TABLES = 16
_STOP = None


def file_stem(lane: str, *numbers: str) -> str:
    """A file name for rows of a lane: different lanes never share one, and none is hidden from readers.

    Spark passes over files whose names begin with `.` or `_`, and lanes may be named so.
    """
    return "-".join(["lane", quote(lane, safe=""), *numbers])


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a file that is either whole under `path` or not there."""
    part = path.with_name(f".{path.name}.part")
    pq.write_table(table, part, compression="zstd", compression_level=1)
    os.replace(part, path)


class HistoryWriter:
    """Writes the tables of one kind of history (`produced` or `consumed`) from a thread of its own.

    The queue is bounded: a disk that can't keep up slows the load instead of filling the memory. An error of the
    thread is raised from the next `write` or from `close`.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._tables: queue.Queue[tuple[str, pa.Table] | None] = queue.Queue(maxsize=_QUEUED_TABLES)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"history-{folder.name}", daemon=True)
        self._thread.start()

    def write(self, name: str, table: pa.Table) -> None:
        """Queue a table for the file `<name>.parquet`."""
        self._raise_error()
        if table.num_rows:
            self._tables.put((name, table))

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._tables.put(_STOP)
        self._thread.join()
        self._raise_error()

    def _run(self) -> None:
        while (entry := self._tables.get()) is not _STOP:
            if self._error is None:
                try:
                    write_parquet(entry[1], self._folder / f"{entry[0]}.parquet")
                except Exception as error:  # noqa: BLE001 - handed to the thread that writes next
                    self._error = error

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class Reservations:
    """The journal of seqs that producers may use, one JSON line per range, on disk before the first is sent."""

    def __init__(self, run_directory: Path) -> None:
        self._file = (run_directory / RESERVATIONS).open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def reserve(self, *, lane: str, producer_id: int, first_seq: int, count: int, now_ns: int) -> None:
        """Note that `count` seqs from `first_seq` on may be sent from `now_ns` on."""
        entry = {"lane": lane, "producer_id": producer_id, "first_seq": first_seq, "count": count, "ns": now_ns}
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the journal; it stays in the run directory only where rows may be missing."""
        self._file.close()


def recover(run_directory: Path) -> int:
    """Give every reserved seq without a row the outcome `info`; the number of rows added.

    For run directories whose harness died: nothing to do, and nothing touched, where the journal is gone because the
    run ended in order.
    """
    journal = run_directory / RESERVATIONS
    if not journal.exists():
        return 0
    added = 0
    for index, reservation in enumerate(_reservations(journal)):
        missing = _missing_seqs(run_directory / "produced", reservation)
        if missing:
            rows = len(missing)
            table = pa.table(
                {
                    "lane": pa.array([reservation["lane"]] * rows, pa.string()),
                    "producer_id": pa.array([reservation["producer_id"]] * rows, pa.int32()),
                    "seq": pa.array(missing, pa.int64()),
                    "partition": pa.nulls(rows, pa.int32()),
                    "offset": pa.nulls(rows, pa.int64()),
                    "invoke_ns": pa.array([reservation["ns"]] * rows, pa.int64()),
                    "complete_ns": pa.nulls(rows, pa.int64()),
                    "outcome": pa.array(["info"] * rows, pa.string()),
                    "error": pa.array(["the harness died"] * rows, pa.string()),
                },
                schema=PRODUCED_SCHEMA,
            )
            write_parquet(table, run_directory / "produced" / f"recovered-{index}.parquet")
            added += rows
    journal.unlink()
    return added


def _reservations(journal: Path) -> list[dict[str, Any]]:
    """Entries of the journal; a last line that the crash cut short reserved nothing that was sent."""
    entries = []
    for line in journal.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            entries.append(json.loads(line))
    return entries


def _missing_seqs(folder: Path, reservation: Mapping[str, Any]) -> list[int]:
    first, count = reservation["first_seq"], reservation["count"]
    present: set[int] = set()
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
    for path in files:
        table = pq.read_table(
            path,
            columns=["seq"],
            filters=[
                ("lane", "==", reservation["lane"]),
                ("producer_id", "==", reservation["producer_id"]),
                ("seq", ">=", first),
                ("seq", "<", first + count),
            ],
        )
        present.update(table["seq"].to_pylist())
    return [seq for seq in range(first, first + count) if seq not in present]
