"""Condenses a run's tables into what a page can show.

Guarantee: what is kept grows with the run's length, its lanes and its partitions with findings, but not with its
records. Counts, maxima and gaps are exact; p50 and p99 are within `LATENCY_STEP` of the true value.

Findings are joined into ranges: where in a partition, or in a producer's sequence, an anomaly occurs. Every finding
that has an offset, or a producer and a sequence number, is counted in exactly one range; the number of ranges is
bounded by the number of partitions with findings, however many findings there are.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from pathlib import Path
from typing import Any

import numpy as np

from kafka_chaos.contract.columns import FINDINGS, LOG, PRODUCED
from kafka_chaos.harness.report.inputs.groups import GroupOverTime, read_groups
from kafka_chaos.harness.report.inputs.table_queries import Grids, ask
from kafka_chaos.harness.report.inputs.transactions import TransactionalId, read_transactions
from kafka_chaos.harness.report.pages import label

RANGES_PER_PARTITION = 200
"""In a partition, findings of an anomaly join if their distance is at most 1/200 of that from the first to the last."""
MOST_RANGES = 20_000  # the most ranges that are kept: those with the most findings

# Findings are counted by `spot`, which is their offset, or, without one, their sequence number. A range ends where the
# next spot is further away than `length`; so `range`, which counts such ends so far, numbers the ranges. Of
# several findings at the first spot of a range, one with a cause counts as the first.
_JOINED = """
WITH placed AS (
  SELECT lane, anomaly, partition, CASE WHEN "offset" IS NULL THEN producer_id END AS producer_id,
    coalesce("offset", seq) AS spot, count(*) AS count, min(cause) AS cause,
    min({'producer_id': producer_id, 'seq': seq}) AS record
  FROM entries WHERE "offset" IS NOT NULL OR (producer_id IS NOT NULL AND seq IS NOT NULL) GROUP BY ALL
), spread AS (
  SELECT *, lag(spot) OVER in_order AS previous,
    (max(spot) OVER unordered - min(spot) OVER unordered) // $ranges + 1 AS length
  FROM placed
  WINDOW unordered AS (PARTITION BY lane, anomaly, partition, producer_id),
    in_order AS (PARTITION BY lane, anomaly, partition, producer_id ORDER BY spot)
), numbered AS (
  SELECT *, count(*) FILTER (spot - previous > length) OVER
    (PARTITION BY lane, anomaly, partition, producer_id ORDER BY spot) AS range
  FROM spread
), fullest AS (
  SELECT lane, anomaly, partition, producer_id, min(spot) AS first, max(spot) AS last, sum(count)::BIGINT AS count,
    first(cause ORDER BY spot) AS cause, first(record ORDER BY spot) AS record
  FROM numbered GROUP BY lane, anomaly, partition, producer_id, range ORDER BY count DESC LIMIT $most
)
SELECT * FROM fullest ORDER BY lane, anomaly, partition NULLS FIRST, producer_id NULLS FIRST, first
"""
MOST_BUCKETS = 160  # the most buckets of time per lane
MOST_GAPS = 12  # the most availability gaps per lane: the longest ones
MOST_ERRORS = 8  # the most different errors per lane: the most frequent ones
GRAIN_NS = 10_000_000
"""Gaps of this length or longer are exact. A chart's start and the width of its buckets are multiples of it."""
SHORTEST_GAP_NS = 500_000_000  # a shorter pause is no availability gap
LATENCY_STEP = 0.01  # the relative width of the steps in which latencies are counted
# In the statements about time, `start` and `width` are a lane's grid: when its chart begins, and its buckets' width.
_EXTENTS = """
SELECT lane, min(invoke_ns) AS first, max(coalesce(complete_ns, invoke_ns)) AS last FROM entries GROUP BY lane
"""
_COUNTS = """
WITH done AS (
  SELECT *, coalesce(complete_ns, invoke_ns) AS done,
    CASE WHEN outcome = 'ok' THEN complete_ns - invoke_ns END AS latency
  FROM entries
)
SELECT lane, (done - start) // width AS bucket, outcome, max(latency) AS latency, count(*) AS count,
  CASE WHEN latency IS NOT NULL THEN round(ln(greatest(latency, 1)) / $step)::INTEGER END AS step
FROM done GROUP BY lane, bucket, outcome, step ORDER BY lane, bucket, step NULLS FIRST
"""
_ERRORS = """
SELECT lane, outcome, error, count(*) AS count FROM entries WHERE outcome <> 'ok' GROUP BY lane, outcome, error
QUALIFY row_number() OVER (PARTITION BY lane ORDER BY count(*) DESC, outcome, error NULLS FIRST) <= $most
ORDER BY lane, count DESC, outcome, error NULLS FIRST
"""
# Two acknowledgements in one grain of time are closer than `$grain`: only gaps between two grains can be that long.
_GAPS = """
WITH grains AS (
  SELECT lane, min(complete_ns) AS first, max(complete_ns) AS last
  FROM entries WHERE outcome = 'ok' AND complete_ns IS NOT NULL GROUP BY lane, complete_ns // $grain
), gaps AS (
  SELECT lane, lag(last) OVER (PARTITION BY lane ORDER BY first) AS start_ns, first AS end_ns FROM grains
)
SELECT lane, start_ns, end_ns FROM gaps WHERE end_ns - start_ns >= $grain
QUALIFY row_number() OVER (PARTITION BY lane ORDER BY end_ns - start_ns DESC, start_ns) <= $most
ORDER BY lane, start_ns
"""
_ENDS = 'SELECT lane, partition, max("offset") AS last FROM entries GROUP BY ALL'


@dataclass(frozen=True)
class FindingRange:
    """`count` findings of one anomaly in a partition, from offset `first` to offset `last`.

    For records without offsets, `first` and `last` are sequence numbers of the producer `producer_id`, which is None
    otherwise. `partition` None: unknown. `cause`: the recorded cause of the first finding. `record`: its `producer_id`
    and `seq`, each None where the finding has none.
    """

    lane: str
    anomaly: str
    partition: int | None
    producer_id: int | None
    first: int
    last: int
    count: int
    cause: str | None = None
    record: Mapping[str, int | None] = field(default_factory=dict, compare=False)

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


@dataclass(frozen=True)
class Bucket:
    """Records that completed within one bucket of time, by outcome. Latencies: of acknowledged ones, in nanoseconds."""

    index: int
    ok: int = 0
    fail: int = 0
    info: int = 0
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


@dataclass(frozen=True)
class Gap:
    """The time from one acknowledgement to the next."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class ErrorCount:
    """How many records of a lane have one outcome and one error."""

    outcome: str
    error: str
    count: int


@dataclass(frozen=True)
class LaneSeries:
    """One lane over time: its buckets begin at `start_ns`, and each is `width_ns` long.

    `longest_gap_ns` None: there are fewer than two acknowledgements, or all gaps are shorter than `GRAIN_NS`.
    """

    start_ns: int
    width_ns: int
    buckets: tuple[Bucket, ...] = ()
    gaps: tuple[Gap, ...] = ()
    longest_gap_ns: int | None = None
    errors: tuple[ErrorCount, ...] = ()

    def total(self, outcome: str) -> int:
        """The number of records with this outcome."""
        return sum(int(getattr(bucket, outcome)) for bucket in self.buckets)

    def per_second(self, bucket: Bucket) -> float:
        """Acknowledgements per second in a bucket."""
        return bucket.ok * 1e9 / self.width_ns

    @property
    def stretches(self) -> list[list[Bucket]]:
        """The buckets with acknowledgements, in stretches of consecutive buckets."""
        stretches: list[list[Bucket]] = []
        for bucket in self.buckets:
            if bucket.ok and stretches and bucket.index == stretches[-1][-1].index + 1:
                stretches[-1].append(bucket)
            elif bucket.ok:
                stretches.append([bucket])
        return stretches


@dataclass(frozen=True)
class Series:
    """The report's data from a run's tables. `ends` maps lane and partition to the last offset of the final log.

    `transactions`: by lane. `groups`: by the lane that a group reads, and the group.
    """

    lanes: Mapping[str, LaneSeries] = field(default_factory=dict)
    ranges: Sequence[FindingRange] = ()
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    transactions: Mapping[str, Sequence[TransactionalId]] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], GroupOverTime] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """A phase of the run: load on `lanes` from `start_ns` to `end_ns`, which are None if no event tells them."""

    name: str
    lanes: tuple[str, ...]
    start_ns: int | None = None
    end_ns: int | None = None


def condense(tables: Mapping[str, Sequence[Path]], phases: Sequence[Phase]) -> Series:
    """Aggregate the tables of a run. `tables`: by a table's name, its files. Lanes without a phase have no series."""
    produced = tables.get("produced", ())
    extents = {row["lane"]: (row["first"], row["last"]) for row in ask(_EXTENTS, produced, PRODUCED)}
    grids = _grids(extents, phases)
    findings = ask(_JOINED, tables.get("findings", ()), FINDINGS, ranges=RANGES_PER_PARTITION, most=MOST_RANGES)
    ranges = [FindingRange(**row) for row in findings]
    lanes_with_findings = {finding.lane for finding in ranges}
    return Series(
        lanes=_lane_series(produced, grids),
        ranges=ranges,
        ends={
            (row["lane"], row["partition"]): row["last"]
            for row in ask(_ENDS, tables.get("log", ()) if ranges else (), LOG)
            if row["lane"] in lanes_with_findings
        },
        transactions=read_transactions(tables.get("transactions", ()), grids),
        groups=read_groups(tables.get("assignments", ()), tables.get("commits", ()), grids),
    )


def bucket_width(span_ns: int, buckets: int) -> int:
    """The smallest bucket width at which `buckets` cover `span_ns`: `GRAIN_NS` times 1, 2 or 5 times a power of ten."""
    widths: Iterator[int] = (step * GRAIN_NS * 10**power for power in count() for step in (1, 2, 5))
    return next(width for width in widths if width * buckets >= span_ns)


def _grids(extents: Mapping[str, tuple[int, int]], phases: Sequence[Phase]) -> Grids:
    """The grid of each lane's chart. Lanes of one phase have the same grid, so that charts can be compared.

    `extents`: by lane, the times of its first and last record.
    """
    grids: dict[str, tuple[int, int]] = {}
    for phase in phases:
        lanes = [lane for lane in phase.lanes if lane in extents]
        records = [edge for lane in lanes for edge in extents[lane]]
        edges = [edge for edge in (phase.start_ns, phase.end_ns, *records) if edge is not None]
        if lanes:
            start = min(edges) // GRAIN_NS * GRAIN_NS
            grids |= dict.fromkeys(lanes, (start, bucket_width(max(edges) - start + 1, MOST_BUCKETS)))
    return grids


def _lane_series(files: Sequence[Path], grids: Grids) -> dict[str, LaneSeries]:
    """The series of each lane that has a grid."""
    buckets = _buckets(ask(_COUNTS, files, PRODUCED, grids, step=math.log1p(LATENCY_STEP)))
    gaps: defaultdict[str, list[Gap]] = defaultdict(list)
    for row in ask(_GAPS, files, PRODUCED, grids, grain=GRAIN_NS, most=MOST_GAPS):
        gaps[row["lane"]].append(Gap(row["start_ns"], row["end_ns"]))
    errors: defaultdict[str, list[ErrorCount]] = defaultdict(list)
    for row in ask(_ERRORS, files, PRODUCED, grids, most=MOST_ERRORS):
        errors[row["lane"]].append(ErrorCount(row["outcome"], row["error"] or "no error given", row["count"]))
    return {
        lane: LaneSeries(
            start,
            width,
            buckets.get(lane, ()),
            tuple(gap for gap in gaps[lane] if gap.end_ns - gap.start_ns >= SHORTEST_GAP_NS),
            max((gap.end_ns - gap.start_ns for gap in gaps[lane]), default=None),
            tuple(errors[lane]),
        )
        for lane, (start, width) in grids.items()
    }


def _buckets(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Bucket, ...]]:
    """The buckets of each lane, from the rows of `_COUNTS`."""
    lanes: defaultdict[str, tuple[Bucket, ...]] = defaultdict(tuple)
    for (lane, index), group in groupby(rows, key=lambda row: (row["lane"], row["bucket"])):
        bucket_rows, counts = list(group), Counter[str]()
        for row in bucket_rows:
            counts[row["outcome"]] += row["count"]
        steps = [(row["step"], row["count"]) for row in bucket_rows if row["step"] is not None]
        longest = max((row["latency"] for row in bucket_rows if row["latency"] is not None), default=None)
        p50, p99 = (min(_percentile(steps, share), longest) if longest is not None else None for share in (0.5, 0.99))
        lanes[lane] += (Bucket(index, counts["ok"], counts["fail"], counts["info"], p50, p99, longest),)
    return lanes


def _percentile(steps: Sequence[tuple[int, int]], share: float) -> int:
    """A percentile of latencies in nanoseconds: `share` of the records are below it.

    `steps`: each logarithmic step of `LATENCY_STEP`, with its number of records. A percentile between two records is
    interpolated.
    """
    rank, records_up_to = share * (sum(count for _, count in steps) - 1), np.cumsum([count for _, count in steps])
    low, high = (
        steps[int(np.searchsorted(records_up_to, record, side="right"))][0]
        for record in (math.floor(rank), math.ceil(rank))
    )
    return round(math.exp((low + (high - low) * (rank % 1)) * math.log1p(LATENCY_STEP)))
