"""Writes an imported history into a run directory.

Guarantee: the run directory appears whole or not at all; of each table, `ROWS_PER_FILE` rows are in memory at most.
"""

import io
import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_chaos.contract.columns import TABLES, TABLES_OF_TRANSACTIONS, arrow_schema
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import LANES_FILE, lanes_document
from kafka_chaos.verification.inputs.storage import RunPath, remove, rename, run_path

ROWS_PER_FILE = 200_000


class HistoryError(UsageFailure, ValueError):
    """A line that an importer can't use: the message names the file, the line and what was expected."""

    def __init__(self, path: RunPath, line: int | None, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}: {problem}" if line is None else f"{path}, line {line}: {problem}")


class RunWriter:
    """Writes the tables of a run directory from rows that come one by one."""

    def __init__(self, folder: RunPath) -> None:
        self._folder = folder
        self._rows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self._files: Counter[str] = Counter()

    def row(self, table: str, **columns: Any) -> None:
        """One row of a table; what is not among the contract's `columns` is null."""
        self._rows[table].append(columns)
        if len(self._rows[table]) >= ROWS_PER_FILE:
            self._write(table)

    def finish(self, lanes: Sequence[Lane]) -> None:
        """Write what is left, and lanes.json. The tables that the lanes must have are written without rows, too."""
        of_transactions = TABLES_OF_TRANSACTIONS if any(lane.transactional is not None for lane in lanes) else ()
        needed = ("produced", "consumed", *of_transactions)
        for table in {*self._rows, *needed}:
            if self._rows[table] or not self._files[table]:
                self._write(table)
        (self._folder / LANES_FILE).write_bytes((json.dumps(lanes_document(lanes), indent=2) + "\n").encode())

    def _write(self, table: str) -> None:
        (self._folder / table).mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        rows = pa.Table.from_pylist(self._rows.pop(table, []), arrow_schema(TABLES[table]))
        pq.write_table(rows, file, compression="zstd")
        (self._folder / table / f"part-{self._files[table]:05d}.parquet").write_bytes(file.getvalue())
        self._files[table] += 1


@contextmanager
def new_run(out: str | RunPath) -> Iterator[RunWriter]:
    """A writer whose run directory is renamed to `out` if the block succeeds, and removed otherwise.

    `out`: a local path, or one with a scheme that PyArrow knows. Raises `HistoryError` if it exists.
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
