"""Writes an imported history into a run directory.

Guarantee: the run directory appears whole or not at all; memory is bounded by `ROWS_PER_FILE` rows per table, plus
the importer's own state.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import TABLES, arrow_type
from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.run_directory import LANES_FILE, lanes_document
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, remove, rename, run_path

ROWS_PER_FILE = 200_000


class HistoryError(UsageFailure, ValueError):
    """A line that an importer can't use: the message names the file, the line and what was expected."""

    def __init__(self, path: RunPath, line: int | None, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}: {problem}" if line is None else f"{path}, line {line}: {problem}")


class RunWriter:
    """Takes rows of produced/ and consumed/ as tuples in the order of the contract's columns."""

    def __init__(self, folder: RunPath) -> None:
        self._folder = folder
        self._rows: dict[str, list[Sequence[Any]]] = {"produced": [], "consumed": []}
        self._files = 0
        for table in self._rows:
            (folder / table).mkdir(parents=True)

    def produced(
        self,
        lane: str,
        producer_id: int,
        seq: int,
        *,
        key: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        invoke_ns: int,
        complete_ns: int | None = None,
        outcome: str,
        error: str | None = None,
    ) -> None:
        """One produced record and its outcome."""
        row = (lane, producer_id, seq, key, partition, offset, invoke_ns, complete_ns, outcome, error)
        self._add("produced", row)

    def consumed(
        self, lane: str, consumer: str, partition: int, offset: int, producer_id: int, seq: int, poll_ns: int
    ) -> None:
        """One record that a consumer read."""
        self._add("consumed", (lane, consumer, partition, offset, producer_id, seq, None, poll_ns))

    def finish(self, lanes: Sequence[Lane]) -> None:
        """Write what is left, and lanes.json."""
        for table in self._rows:
            self._flush(table)
        (self._folder / LANES_FILE).write_bytes((json.dumps(lanes_document(lanes), indent=2) + "\n").encode())

    def _add(self, table: str, row: Sequence[Any]) -> None:
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= ROWS_PER_FILE:
            self._flush(table)

    def _flush(self, table: str) -> None:
        rows = self._rows[table]
        if not rows:
            return
        columns = TABLES[table][: len(rows[0])]
        arrays = [
            pa.array(values, arrow_type(column))
            for column, values in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        whole = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
        content = io.BytesIO()
        pq.write_table(whole, content, compression="zstd")
        (self._folder / table / f"part-{self._files:05d}.parquet").write_bytes(content.getvalue())
        self._files += 1
        rows.clear()


@contextmanager
def new_run(out: str | RunPath) -> Iterator[RunWriter]:
    """A writer whose run directory is renamed to `out` if the block succeeds, and removed otherwise.

    `out`: a local path, or one with a scheme that Hadoop knows. Raises `HistoryError` if it exists.
    """
    out = run_path(out)
    if out.exists():
        raise HistoryError(out, None, "exists already, expected a new directory")
    fresh = out.with_name(f".{out.name}-{uuid.uuid4().hex}")
    try:
        yield RunWriter(fresh)
        rename(fresh, out)
    finally:
        remove(fresh)


class Clock:
    """Poll times that strictly increase per consumer, although the tool's clock is coarser."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def next(self, consumer: str, at_ns: int) -> int:
        """`at_ns`, or just after the consumer's last time if that is later."""
        stamp = max(at_ns, self._last.get(consumer, at_ns - 1) + 1)
        self._last[consumer] = stamp
        return stamp
