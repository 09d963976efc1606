"""Findings joined into ranges: where in a partition, or in a producer's sequence, an anomaly occurs.

Guarantee: every finding that has an offset, or a producer and a sequence number, is counted in exactly one range;
the number of ranges is bounded by the number of partitions with findings, never by that of findings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.columns import FINDINGS
from kafka_chaos.harness.report.inputs.asking import ask
from kafka_chaos.harness.report.pages import label

RANGES = 200
"""Findings of an anomaly in a partition that lie closer than this part of their spread form one range."""
MOST_RANGES = 20_000
"""Most ranges that are kept, the fullest ones."""

# `spot`: the offset of a finding, or without one the sequence number of its producer. Of several findings at the first
# place of a range, one that has a cause counts as the first.
_JOINED = """
WITH placed AS (
  SELECT lane, anomaly, partition, CASE WHEN "offset" IS NULL THEN producer_id END AS producer_id,
    coalesce("offset", seq) AS spot, count(*) AS count, min(cause) AS cause
  FROM entries WHERE "offset" IS NOT NULL OR (producer_id IS NOT NULL AND seq IS NOT NULL) GROUP BY ALL
), spread AS (
  SELECT *, lag(spot) OVER in_order AS previous,
    (max(spot) OVER place - min(spot) OVER place) // $ranges + 1 AS length
  FROM placed
  WINDOW place AS (PARTITION BY lane, anomaly, partition, producer_id),
    in_order AS (PARTITION BY lane, anomaly, partition, producer_id ORDER BY spot)
), numbered AS (
  SELECT *, count(*) FILTER (spot - previous > length) OVER
    (PARTITION BY lane, anomaly, partition, producer_id ORDER BY spot) AS range
  FROM spread
), fullest AS (
  SELECT lane, anomaly, partition, producer_id, min(spot) AS first, max(spot) AS last, sum(count)::BIGINT AS count,
    first(cause ORDER BY spot) AS cause
  FROM numbered GROUP BY lane, anomaly, partition, producer_id, range ORDER BY count DESC LIMIT $most
)
SELECT * FROM fullest ORDER BY lane, anomaly, partition NULLS FIRST, producer_id NULLS FIRST, first
"""


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


def find_ranges(files: Sequence[Path]) -> list[FindingRange]:
    """The ranges of `findings/` in the order of lane, anomaly and place."""
    return [FindingRange(**row) for row in ask(_JOINED, files, FINDINGS, ranges=RANGES, most=MOST_RANGES)]
