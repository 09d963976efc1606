"""The views on the log and on replicas, from sums over the records of each partition, broker, producer and epoch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = Sequence[Any]
Bounds = Mapping[tuple[str, int], int]

PLACE = ["lane", "partition"]
CONTENT = ["below", "low", "high"]
"""Of the records below the bound of their partition: how many, and the sums of both halves of their hashes. Halves, so
that no sum overflows."""

KEYS_OF_REPLICAS = [*PLACE, "broker", "producer_id", "leader_epoch", "marked"]
_WRITER = [*PLACE, "producer_id"]
_EPOCH = [*PLACE, "broker", "leader_epoch"]


def rows_of(table: pa.Table) -> Iterable[Row]:
    """The rows of a table, a value for each column."""
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def grouped(table: pa.Table, keys: list[str], columns: list[tuple[str, str]]) -> Iterable[Row]:
    """A row for each group: the keys, then the columns by their functions."""
    found = table.group_by(keys).aggregate(columns)
    return rows_of(found.select([*keys, *(f"{name}_{function}" for name, function in columns)]))


def views_of(log: pa.Table | None, replicas: pa.Table | None, bounds: Bounds) -> dict[str, Iterable[Row]]:
    """Views of `relations.VIEWS`.

    Both tables have a row for each of their keys (`PLACE`, `KEYS_OF_REPLICAS`; `marked`: the records are markers) with
    `rows`, the `lowest` and the `highest` offset, and `CONTENT`; replicas with the lowest and the highest producer
    epoch. None: the run does not have the table.
    """
    tables = [table.select([*PLACE, "highest"]) for table in (log, replicas) if table is not None]
    found: dict[str, Iterable[Row]] = {}
    if tables:
        found["ends"] = grouped(pa.concat_tables(tables), PLACE, [("highest", "max")])
    if replicas is not None:
        data, markers = replicas.filter(pc.invert(replicas["marked"])), replicas.filter(replicas["marked"])
        found["epochs"] = grouped(replicas, _EPOCH, [("lowest", "min"), ("highest", "max")])
        found["markers"] = grouped(markers, _WRITER, [("rows", "sum"), ("lowest", "min")])
        found["written"] = grouped(data, _WRITER, [("lowest", "min"), ("first_epoch", "min"), ("last_epoch", "max")])
        if log is not None:
            found["unlike"] = _unlike(_contents(log, PLACE), _contents(data, [*PLACE, "broker"]), bounds)
    return found


def _contents(table: pa.Table, keys: list[str]) -> dict[Row, Row]:
    width = len(keys)
    return {row[:width]: row[width:] for row in grouped(table, keys, [(name, "sum") for name in CONTENT])}


def _unlike(logged: Mapping[Row, Row], held: Mapping[Row, Row], bounds: Bounds) -> Iterable[Row]:
    """A row per partition whose log no replica holds as it is."""
    kept: dict[Row, list[Row]] = {}
    for (*place, _), content in held.items():
        kept.setdefault(tuple(place), []).append(content)
    for (lane, partition), contents in sorted(kept.items()):
        if logged.get((lane, partition), (0,) * len(CONTENT)) not in contents:
            yield lane, f"partition {partition}, below offset {bounds.get((lane, partition))}", 1
