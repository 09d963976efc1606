"""Findings joined into ranges: where in a partition, or in a producer's sequence, an anomaly stands.

Guarantee: every finding that has an offset, or a producer and a sequence number, is counted in exactly one range;
the number of ranges is bounded by the number of partitions with findings, never by that of findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGES = 200
"""Findings of an anomaly in a partition that lie closer than this part of their spread form one range."""
MOST_ROWS = 20_000
"""Most pieces of ranges that leave Spark, the fullest ones."""
CAUSES = 400
"""Most ranges whose first cause is looked up, the largest ones."""


@dataclass(frozen=True)
class FindingRange:
    """`count` findings of one anomaly between two offsets, or, where records have none, two sequence numbers.

    `partition` None: unknown. `producer_id` is set where `first` and `last` are sequence numbers. `cause`: what the
    verification says of the first one.
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


def find_ranges(spark: SparkSession, findings: DataFrame) -> list[FindingRange]:
    """The ranges of FINDINGS in the order of lane, anomaly and place."""
    placed = _placed(findings)
    pieces = _pieces(placed)
    if not pieces:
        return []
    return _with_causes(spark, placed, _joined(pieces))


def _placed(findings: DataFrame) -> DataFrame:
    """Findings with one number each, `at`: the offset, or without one the sequence number of a producer.

    Where there is no partition or no producer to name, -1 stands for it, so that rows compare by equality.
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

    numbers = placed.select(*_GROUP, "at")
    spread = numbers.groupBy(*_GROUP).agg(F.min("at").alias("low"), F.max("at").alias("high"))
    reach = F.expr(f"(high - low) div {RANGES} + 1").alias("reach")
    spread = spread.select(*_GROUP, "low", reach)
    parts = (
        numbers.join(F.broadcast(spread), list(_GROUP))
        .groupBy(*_GROUP, "reach", F.expr("(at - low) div reach").alias("part"))
        .agg(F.min("at").alias("first"), F.max("at").alias("last"), F.count("*").alias("count"))
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
            ranges[-1] = replace(ranges[-1], last=piece.last, count=ranges[-1].count + piece.count)
        else:
            ranges.append(piece)
    return ranges


def _with_causes(spark: SparkSession, placed: DataFrame, ranges: Sequence[FindingRange]) -> list[FindingRange]:
    """The ranges, the largest ones with what the verification says of their first finding."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    from kafka_chaos.verification.history import local_frame

    types = [StringType(), StringType(), IntegerType(), IntegerType(), LongType()]
    schema = StructType([StructField(name, kind) for name, kind in zip((*_GROUP, "at"), types, strict=True)])
    largest = sorted(ranges, key=lambda found: -found.count)[:CAUSES]
    wanted = local_frame(spark, schema, [(*_key(found), found.first) for found in largest])
    known = placed.where(F.col("cause").isNotNull()).join(F.broadcast(wanted), [*_GROUP, "at"])
    causes = {
        ((row.lane, row.anomaly, row.partition, row.producer), row.at): row.cause
        for row in known.limit(CAUSES).collect()
    }
    return [replace(found, cause=causes.get((_key(found), found.first))) for found in ranges]
