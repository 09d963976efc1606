"""Queries a run's tables, which are Parquet files, in SQL.

Guarantee: DuckDB reads the files bit by bit, and spills what takes more than `MEMORY`; a nullable column that a file
lacks is null.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import dataset

from kafka_chaos.contract.columns import Column, arrow_schema

MEMORY = "1GB"
PER_BUCKET = 3
"""Slots of a bucket. What is in one slot can't be told apart in a picture."""

Frames = Mapping[str, tuple[int, int]]
"""By lane: where its chart begins, and the width of its buckets, in nanoseconds."""


def ask(
    statement: str,
    files: Sequence[Path],
    columns: tuple[Column, ...],
    frames: Frames | None = None,
    **parameters: int | float,
) -> list[dict[str, Any]]:
    """The rows that a statement selects from `entries`, a table with these columns; none where there are no files.

    With `frames`, `entries` has only the lanes with a frame, and the frame's columns `start` and `width`;
    `slot(TIME, start, width)` is the slot of a time. The statement has `parameters` as `$name`.
    """
    if not files or (frames is not None and not frames):
        return []
    table = dataset.dataset([str(file) for file in files], schema=arrow_schema(columns), format="parquet")
    with (
        tempfile.TemporaryDirectory(prefix="kafka-chaos-report-") as spilled,
        duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": spilled}) as connection,
    ):
        a_slot = f"greatest(width // {PER_BUCKET}, 1)"
        connection.execute(f"CREATE MACRO slot(moment, start, width) AS (moment - start) // {a_slot}")
        if frames is None:
            connection.register("entries", table)
        else:
            starts, widths = zip(*frames.values(), strict=True)
            connection.register("rows_of_files", table)
            connection.register("frames", pa.table({"lane": list(frames), "start": starts, "width": widths}))
            connection.execute("CREATE VIEW entries AS SELECT * FROM rows_of_files JOIN frames USING (lane)")
        selected = connection.execute(statement, parameters or None)
        names = [column[0] for column in selected.description]
        return [dict(zip(names, row, strict=True)) for row in selected.fetchall()]
