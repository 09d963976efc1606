"""Reads the rows of tables in pieces, and sums up groups of them; a slot is a fraction of a bucket of a lane's chart.

Guarantee: no more than `PIECE` rows and one batch are held at a time; a nullable column that a file lacks is null.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from kafka_chaos.contract.columns import Column, arrow_schema

PIECE = 1_000_000
"""Most rows of a piece, but for the last batch that completes it."""
BATCH = 131_072
"""Most rows of a batch."""
PER_BUCKET = 3
"""Slots of a bucket: what is closer together than these can't be told apart in a picture."""

Frames = Mapping[str, tuple[int, int]]
"""By lane: where its chart begins, and the width of its buckets, in nanoseconds."""


def pieces(files: Sequence[Path], columns: tuple[Column, ...], names: Sequence[str]) -> Iterator[Any]:
    """The columns `names` of all rows, in pieces."""
    if not files:
        return
    found = dataset.dataset([str(file) for file in files], schema=arrow_schema(columns), format="parquet")
    pending: list[Any] = []
    rows = 0
    for batch in found.to_batches(columns=list(names), batch_size=BATCH):
        pending.append(batch)
        rows += batch.num_rows
        if rows >= PIECE:
            yield pa.Table.from_batches(pending)
            pending, rows = [], 0
    if rows:
        yield pa.Table.from_batches(pending)


def framed_pieces(
    files: Sequence[Path], columns: tuple[Column, ...], names: Sequence[str], frames: Frames
) -> Iterator[Any]:
    """The same of the rows whose lane has a frame, with the columns `start` and `width` of it."""
    lanes = pa.array(list(frames), pa.string())
    starts = pa.array([start for start, _ in frames.values()], pa.int64())
    widths = pa.array([width for _, width in frames.values()], pa.int64())
    for piece in pieces(files, columns, names) if frames else ():
        place = pc.index_in(piece["lane"], value_set=lanes)
        framed = piece.append_column("start", pc.take(starts, place)).append_column("width", pc.take(widths, place))
        yield framed.filter(pc.is_valid(place))


def slot(table: Any, column: str, *, per_bucket: int = PER_BUCKET) -> Any:
    """The slots of a column of times, `per_bucket` of them in a bucket; null where the time is."""
    width = pc.max_element_wise(pc.divide(table["width"], per_bucket), 1)
    return pc.divide(pc.subtract(table[column], table["start"]), width)


class Totals:
    """The totals of pieces of rows, by the columns `keys`; `sums`: columns, each with `min`, `max` or `count`."""

    def __init__(self, keys: Sequence[str], *sums: tuple[str, str]) -> None:
        self._keys = list(keys)
        self._sums = sums
        self._parts: list[Any] = []

    def add(self, piece: Any) -> None:
        """Add the rows of a piece."""
        self._parts.append(piece.group_by(self._keys).aggregate(list(self._sums)))

    def table(self) -> Any:
        """A row for each group, with columns such as `begin_ns_min`; None where there were no pieces."""
        if not self._parts:
            return None
        again = [(f"{name}_{how}", "sum" if how == "count" else how) for name, how in self._sums]
        summed = pa.concat_tables(self._parts).group_by(self._keys).aggregate(again)
        return summed.rename_columns({f"{name}_{how}": name for name, how in again})

    def rows(self) -> list[dict[str, Any]]:
        """The same as a list."""
        table = self.table()
        return [] if table is None else list(table.to_pylist())
