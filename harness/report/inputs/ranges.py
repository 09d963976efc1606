"""Findings joined into ranges: where in a partition, or in a producer's sequence, an anomaly occurs.

Guarantee: every finding that has an offset, or a producer and a sequence number, is counted in exactly one range;
the number of ranges is bounded by the number of partitions with findings, never by that of findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from kafka_chaos.contract.columns import FINDINGS
from kafka_chaos.harness.report.inputs.slots import Totals, pieces
from kafka_chaos.harness.report.pages import label

RANGES = 200
"""Findings of an anomaly in a partition that lie closer than this part of their spread form one range."""
MOST_PIECES = 20_000
"""Most pieces of ranges that are joined, the fullest ones."""


@dataclass(frozen=True)
class FindingRange:
    """`count` findings of one anomaly between two offsets, or, where records have none, two sequence numbers.

    `partition` None: unknown. `producer_id` is set where `first` and `last` are sequence numbers. `cause` is that of
    the first finding, as the verification recorded it.
    """

    lane: str
    anomaly: str
    partition: int | None
    producer_id: int | None
    first: int
    last: int
    count: int
    cause: str | None = None

    @property
    def by_sequence(self) -> bool:
        """Whether `first` and `last` are sequence numbers."""
        return self.producer_id is not None

    @property
    def where(self) -> str:
        """The range in words."""
        last = "" if self.first == self.last else f" to {self.last:,}"
        return f"{'seq' if self.by_sequence else 'offset'} {self.first:,}{last}"

    @property
    def words(self) -> str:
        """The anomaly, how often it was found, and where."""
        return f"{label(self.anomaly)}: {self.count:,} at {self.where}"

    def joined(self, other: FindingRange) -> FindingRange:
        """This one and another of the same anomaly and place as one."""
        first = self if (self.first, self.cause is None) <= (other.first, other.cause is None) else other
        return replace(first, last=max(self.last, other.last), count=self.count + other.count)


_GROUP = ("lane", "anomaly", "partition", "producer")
_COLUMNS = ("lane", "anomaly", "partition", "offset", "producer_id", "seq", "cause")


def find_ranges(files: Sequence[Path]) -> list[FindingRange]:
    """The ranges of `findings/` in the order of lane, anomaly and place."""
    spread = Totals(_GROUP, ("at", "min"), ("at", "max"))
    for piece in pieces(files, FINDINGS, _COLUMNS):
        spread.add(_placed(piece))
    table = spread.table()
    if table is None:
        return []
    # Each group's spread has so many parts; what lies no further apart than the length of one is joined.
    length = pc.add(pc.divide(pc.subtract(table["at_max"], table["at_min"]), RANGES), 1)
    parts: dict[tuple[Any, ...], FindingRange] = {}
    for piece in pieces(files, FINDINGS, _COLUMNS):
        placed = _placed(piece).join(table.append_column("length", length), list(_GROUP))
        for key, part in _parts(placed):
            parts[key] = part.joined(parts[key]) if key in parts else part
    fullest = sorted(parts.items(), key=lambda entry: (-entry[1].count, entry[0]))[:MOST_PIECES]
    return _joined(sorted(fullest))


def _placed(findings: Any) -> Any:
    """Findings with one number each, `at`: the offset, or without one the sequence number of a producer.

    A missing partition or producer is -1, so rows compare by equality.
    """
    producer = pc.if_else(pc.is_null(findings["offset"]), findings["producer_id"], -1)
    placed = findings.select(["lane", "anomaly", "cause"]).append_column(
        "partition", pc.coalesce(findings["partition"], -1)
    )
    placed = placed.append_column("producer", producer)
    placed = placed.append_column("at", pc.coalesce(findings["offset"], findings["seq"]))
    return placed.filter(pc.and_(pc.is_valid(placed["at"]), pc.is_valid(placed["producer"])))


def _parts(placed: Any) -> Iterable[tuple[tuple[Any, ...], FindingRange]]:
    """The findings in each part of a group's spread, by the group, the part's length and its number."""
    part = pc.divide(pc.subtract(placed["at"], placed["at_min"]), placed["length"])
    # Of several findings at the first place, one that has a cause comes first.
    ordered = placed.append_column("part", part).sort_by([("at", "ascending"), ("cause", "ascending")])
    keys = [*_GROUP, "length", "part"]
    of_first = ("cause", "first", pc.ScalarAggregateOptions(skip_nulls=False))
    sums = [("at", "min"), ("at", "max"), ("at", "count"), of_first]
    for row in ordered.group_by(keys, use_threads=False).aggregate(sums).to_pylist():
        yield (
            tuple(row[key] for key in keys),
            FindingRange(
                lane=row["lane"],
                anomaly=row["anomaly"],
                partition=None if row["partition"] == -1 else row["partition"],
                producer_id=None if row["producer"] == -1 else row["producer"],
                first=row["at_min"],
                last=row["at_max"],
                count=row["at_count"],
                cause=row["cause_first"],
            ),
        )


def _joined(parts: Iterable[tuple[tuple[Any, ...], FindingRange]]) -> list[FindingRange]:
    ranges: list[FindingRange] = []
    group: tuple[Any, ...] = ()
    for (*key, length, _), part in parts:
        if tuple(key) == group and part.first - ranges[-1].last <= length:
            ranges[-1] = ranges[-1].joined(part)
        else:
            ranges.append(part)
        group = tuple(key)
    return ranges
