"""Findings joined into ranges: where in a partition, or in a producer's sequence, an anomaly occurs.

Guarantee: every finding that has an offset, or a producer and a sequence number, is counted in exactly one range;
the number of ranges is bounded by the number of partitions with findings, never by that of findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGES = 200
"""Findings of an anomaly in a partition that lie closer than this part of their spread form one range."""
MOST_ROWS = 20_000
"""Most pieces of ranges that leave Spark, the fullest ones."""


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


def find_ranges(findings: DataFrame) -> list[FindingRange]:
    """The ranges of FINDINGS in the order of lane, anomaly and place."""
    return _joined(_pieces(_placed(findings)))


def _placed(findings: DataFrame) -> DataFrame:
    """Findings with one number each, `at`: the offset, or without one the sequence number of a producer.

    A missing partition or producer is -1, so rows compare by equality.
    """
    from pyspark.sql import functions as F

    unplaced = F.col("offset").isNull()
    return findings.select(
        "lane",
        "anomaly",
        F.coalesce("partition", F.lit(-1)).alias("partition"),
        F.when(unplaced, F.col("producer_id")).otherwise(-1).alias("producer"),
        F.coalesce("offset", "seq").alias("at"),
        "cause",
    ).where(F.col("at").isNotNull() & F.col("producer").isNotNull())


_GROUP = ("lane", "anomaly", "partition", "producer")


def _pieces(placed: DataFrame) -> list[tuple[FindingRange, int]]:
    """What each of `RANGES` parts of a group's spread holds, and the spread's part: the distance that joins."""
    from pyspark.sql import functions as F

    spread = placed.groupBy(*_GROUP).agg(F.min("at").alias("low"), F.max("at").alias("high"))
    reach = F.expr(f"(high - low) div {RANGES} + 1").alias("reach")
    spread = spread.select(*_GROUP, "low", reach)
    parts = (
        placed.join(F.broadcast(spread), list(_GROUP))
        .groupBy(*_GROUP, "reach", F.expr("(at - low) div reach").alias("part"))
        .agg(
            F.min("at").alias("first"),
            F.max("at").alias("last"),
            F.count("*").alias("count"),
            # Of several findings at the first place, one that has a cause.
            F.min_by("cause", F.when(F.col("cause").isNotNull(), F.col("at"))).alias("cause"),
            F.min(F.when(F.col("cause").isNotNull(), F.col("at"))).alias("caused"),
        )
    )
    rows: Sequence[Any] = parts.orderBy(F.desc("count"), *_GROUP, "part").limit(MOST_ROWS).collect()
    pieces = [
        (
            FindingRange(
                lane=row.lane,
                anomaly=row.anomaly,
                partition=None if row.partition == -1 else row.partition,
                producer_id=None if row.producer == -1 else row.producer,
                first=row.first,
                last=row.last,
                count=row["count"],
                cause=row.cause if row.caused == row.first else None,
            ),
            row.reach,
        )
        for row in rows
    ]
    return sorted(pieces, key=lambda piece: (*_key(piece[0]), piece[0].first))


def _key(found: FindingRange) -> tuple[str, str, int, int]:
    partition = -1 if found.partition is None else found.partition
    return found.lane, found.anomaly, partition, -1 if found.producer_id is None else found.producer_id


def _joined(pieces: Sequence[tuple[FindingRange, int]]) -> list[FindingRange]:
    ranges: list[FindingRange] = []
    for piece, reach in pieces:
        if ranges and _key(ranges[-1]) == _key(piece) and piece.first - ranges[-1].last <= reach:
            last = ranges[-1]
            ranges[-1] = replace(last, last=piece.last, count=last.count + piece.count)
        else:
            ranges.append(piece)
    return ranges
