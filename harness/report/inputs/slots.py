"""Reads the rows of tables in pieces, and gives each row its slot: a fraction of a bucket of its lane's chart.

Guarantee: no more than `PIECE` rows and one batch are held at a time; a nullable column that a file lacks is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka_chaos.contract.columns import Column, arrow_schema

PIECE = 1_000_000
"""Most rows of a piece, but for the last batch that completes it."""
PER_BUCKET = 3
"""Slots of a bucket: what is closer together than these can't be told apart in a picture."""

Frames = Mapping[str, tuple[int, int]]
"""By lane: where its chart begins, and the width of its buckets, in nanoseconds."""


def pieces(files: Sequence[Path], columns: tuple[Column, ...], names: Sequence[str], frames: Frames) -> Iterator[Any]:
    """The columns `names` and `slot_zero` and `slot_width` of the rows whose lane has a frame, in pieces."""
    import pyarrow as pa
    from pyarrow import dataset

    if not files or not frames:
        return
    found = dataset.dataset([str(file) for file in files], schema=arrow_schema(columns), format="parquet")
    pending: list[Any] = []
    rows = 0
    for batch in found.to_batches(columns=list(names)):
        pending.append(batch)
        rows += batch.num_rows
        if rows >= PIECE:
            yield _framed(pa.Table.from_batches(pending), frames)
            pending, rows = [], 0
    if rows:
        yield _framed(pa.Table.from_batches(pending), frames)


def slot(table: Any, column: str) -> Any:
    """The slots of a column of times; null where the time is."""
    import pyarrow.compute as pc

    return pc.divide(pc.subtract(table[column], table["slot_zero"]), table["slot_width"])


def _framed(table: Any, frames: Frames) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    lanes = list(frames)
    place = pc.index_in(table["lane"], value_set=pa.array(lanes, pa.string()))
    zeros = pa.array([frames[lane][0] for lane in lanes], pa.int64())
    widths = pa.array([max(1, frames[lane][1] // PER_BUCKET) for lane in lanes], pa.int64())
    framed = table.append_column("slot_zero", pc.take(zeros, place)).append_column("slot_width", pc.take(widths, place))
    return framed.filter(pc.is_valid(place))
