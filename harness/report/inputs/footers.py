"""Reads from the footers of produced/, without reading rows: their number, their time span, and whether all are ok.

Guarantee: the values are exact, or None if the footers lack them and the rows have to be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Extent:
    """A lane's first send and last completion (or send of what never completed), in nanoseconds."""

    first_ns: int
    last_ns: int


@dataclass(frozen=True)
class Footers:
    """`rows` of all tables; `extents` by lane; `all_ok`: every produced record was acknowledged."""

    rows: int
    extents: Mapping[str, Extent] | None
    all_ok: bool


def read_footers(tables: Mapping[str, Sequence[Path]]) -> Footers:
    """Read the footers of a run's tables."""
    import pyarrow.parquet as pq

    rows = 0
    extents: dict[str, Extent] | None = {}
    all_ok = True
    for name, files in tables.items():
        for file in files:
            metadata = pq.read_metadata(file)
            rows += metadata.num_rows
            for index in range(metadata.num_row_groups if name == "produced" else 0):
                group = _statistics(metadata.row_group(index))
                all_ok = all_ok and _all_ok(group)
                found = _extent(group)
                if found is None or extents is None:
                    extents = None
                    continue
                lane, extent = found
                before = extents.get(lane, extent)
                extents[lane] = Extent(min(before.first_ns, extent.first_ns), max(before.last_ns, extent.last_ns))
    return Footers(rows, extents, all_ok)


def _statistics(group: Any) -> dict[str, Any]:
    columns = (group.column(index) for index in range(group.num_columns))
    return {
        column.path_in_schema: column.statistics
        for column in columns
        if column.statistics is not None and column.statistics.has_min_max
    }


def _extent(group: Mapping[str, Any]) -> tuple[str, Extent] | None:
    lane, invoked, completed = group.get("lane"), group.get("invoke_ns"), group.get("complete_ns")
    if lane is None or invoked is None or lane.min != lane.max:
        return None
    last = invoked.max if completed is None else max(invoked.max, completed.max)
    return str(lane.min), Extent(invoked.min, last)


def _all_ok(group: Mapping[str, Any]) -> bool:
    outcome = group.get("outcome")
    return outcome is not None and outcome.min == outcome.max == "ok"
