"""Queries a run's tables, which are Parquet files, in SQL; a chart's time is divided into buckets and slots.

Guarantee: DuckDB reads the files in pieces, and spills to disk what exceeds `MEMORY`. A nullable column that a file
lacks is null.
"""

import atexit
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kafka_chaos.contract.columns import Column
from kafka_chaos.verification.engines.duckdb_engine import parquet, selected

MEMORY = "1GB"  # the limit of DuckDB's memory
SLOTS_PER_BUCKET = 3
"""A bucket of a chart's time is divided into this many slots. In the chart, times in one slot look the same."""

Grids = Mapping[str, tuple[int, int]]
"""By lane, the grid of its chart's time: when the first bucket begins, and the width of a bucket, in nanoseconds."""


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The database of this process, opened once: opening takes longer than most statements on a usual run."""
    spill_folder = tempfile.TemporaryDirectory(prefix="kafka-chaos-report-")
    atexit.register(spill_folder.cleanup)
    database = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": spill_folder.name})
    slot_width = f"greatest(width // {SLOTS_PER_BUCKET}, 1)"
    database.execute(f"CREATE MACRO slot(moment, start, width) AS (moment - start) // {slot_width}")
    return database


def ask(
    statement: str,
    files: Sequence[Path],
    columns: tuple[Column, ...],
    grids: Grids | None = None,
    **parameters: int | float | Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """The rows that a statement selects from `entries`, a table with these columns; none if there are no files.

    With `grids`, `entries` has only the lanes that have a grid, and two more columns: the grid's `start` and `width`.
    Then `slot(TIME, start, width)` is the slot of a time. The statement has `parameters` as `$name`.
    """
    if not files or (grids is not None and not grids):
        return []
    with _database().cursor() as connection:
        source = parquet(map(str, files))
        existing = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        values = selected(columns, existing)
        if grids is not None:
            starts, widths = zip(*grids.values(), strict=True)
            connection.register("grids", pa.table({"lane": list(grids), "start": starts, "width": widths}))
            values, source = f"{values}, start, width", f"{source} JOIN grids USING (lane)"
        connection.execute(f"CREATE TEMP VIEW entries AS SELECT {values} FROM {source}")
        result = connection.execute(statement, parameters or None)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
