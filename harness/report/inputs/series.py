"""Condenses a run's tables into what a page can show.

Guarantee: the length of the run, its lanes and its partitions with findings bound what is kept; the number of records
does not. Counts, maxima and gaps are exact, p50 and p99 are within `LATENCY_STEP` of the true value.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_chaos.contract.columns import LOG, PRODUCED
from kafka_chaos.harness.report.inputs.groups import GroupOverTime, read_groups
from kafka_chaos.harness.report.inputs.ranges import FindingRange, find_ranges
from kafka_chaos.harness.report.inputs.slots import Frames, Totals, framed_pieces, pieces, slot
from kafka_chaos.harness.report.inputs.transactions import TransactionalId, read_transactions

BUCKETS = 160
"""Most buckets of time per lane."""
GAPS = 12
"""Most availability gaps per lane, the longest ones."""
ERRORS = 8
"""Most different errors per lane."""
SLOT_NS = 10_000_000
"""Gaps between acknowledgements are exact from this length on; buckets are whole numbers of slots."""
SHORTEST_GAP_NS = 500_000_000
"""A shorter pause is no availability gap."""
LATENCY_STEP = 0.01
"""Relative width of the steps that latencies are counted in."""


@dataclass(frozen=True)
class Bucket:
    """Records that completed within one bucket of time. Latencies: of acknowledged records, in nanoseconds."""

    index: int
    ok: int = 0
    fail: int = 0
    info: int = 0
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


@dataclass(frozen=True)
class Gap:
    """No acknowledgement arrived between these two."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class ErrorCount:
    """How many records ended with one outcome and one error."""

    outcome: str
    error: str
    count: int


@dataclass(frozen=True)
class LaneSeries:
    """One lane over time. `start_ns` and `width_ns` place the buckets; `longest_gap_ns` None: fewer than two
    acknowledgements, or none of their gaps as long as `SLOT_NS`.
    """

    start_ns: int
    width_ns: int
    buckets: tuple[Bucket, ...] = ()
    gaps: tuple[Gap, ...] = ()
    longest_gap_ns: int | None = None
    errors: tuple[ErrorCount, ...] = ()

    def total(self, outcome: str) -> int:
        """Records with this outcome."""
        return sum(int(getattr(bucket, outcome)) for bucket in self.buckets)

    def per_second(self, bucket: Bucket) -> float:
        """Acknowledgements per second in a bucket."""
        return bucket.ok * 1e9 / self.width_ns

    @property
    def runs(self) -> list[list[Bucket]]:
        """Buckets without a hole between them, those with acknowledgements only."""
        runs: list[list[Bucket]] = []
        for bucket in self.buckets:
            if bucket.ok and runs and bucket.index == runs[-1][-1].index + 1:
                runs[-1].append(bucket)
            elif bucket.ok:
                runs.append([bucket])
        return runs


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
class Span:
    """The time that a lane's phase covers, as far as events show it."""

    start_ns: int | None = None
    end_ns: int | None = None
    group: str = ""


def condense(tables: Mapping[str, Sequence[Path]], spans: Mapping[str, Span]) -> Series:
    """Aggregate the tables; `spans` names the lanes and their phases (`group`)."""
    produced = tables.get("produced", ())
    frames = _frames(_extents(produced), spans)
    ranges = find_ranges(tables.get("findings", ()))
    concerned = {one.lane for one in ranges}
    return Series(
        lanes=_over_time(produced, frames),
        ranges=ranges,
        ends=_ends(tables.get("log", ()) if ranges else (), concerned),
        transactions=read_transactions(tables.get("transactions", ()), frames),
        groups=read_groups(tables.get("assignments", ()), tables.get("commits", ()), frames),
    )


def bucket_width(span_ns: int, buckets: int) -> int:
    """The smallest round width (1, 2 or 5 times a power of ten, at least a slot) that needs no more buckets."""
    power = SLOT_NS
    while True:
        for step in (1, 2, 5):
            if step * power * buckets >= span_ns:
                return step * power
        power *= 10


def _extents(files: Sequence[Path]) -> dict[str, tuple[int, int]]:
    """By lane, the first send and the last completion (or send of what never completed), in nanoseconds."""
    extents = Totals(["lane"], ("invoke_ns", "min"), ("done", "max"))
    for piece in pieces(files, PRODUCED, ("lane", "invoke_ns", "complete_ns")):
        extents.add(_with_done(piece))
    return {row["lane"]: (row["invoke_ns_min"], row["done_max"]) for row in extents.rows()}


def _with_done(piece: Any) -> Any:
    return piece.append_column("done", pc.coalesce(piece["complete_ns"], piece["invoke_ns"]))


def _frames(extents: Mapping[str, tuple[int, int]], spans: Mapping[str, Span]) -> Frames:
    """Start and bucket width per lane: lanes of one phase share both, so that their charts can be compared."""
    edges: defaultdict[str, list[int]] = defaultdict(list)
    of_lane = {lane: spans[lane] for lane in extents if lane in spans}
    for lane, span in of_lane.items():
        edges[span.group] += [edge for edge in (span.start_ns, span.end_ns, *extents[lane]) if edge is not None]
    starts = {group: min(of_group) // SLOT_NS * SLOT_NS for group, of_group in edges.items()}
    return {
        lane: (starts[span.group], bucket_width(max(edges[span.group]) - starts[span.group] + 1, BUCKETS))
        for lane, span in of_lane.items()
    }


def _over_time(files: Sequence[Path], frames: Frames) -> dict[str, LaneSeries]:
    """Everything over time, from one pass over the records."""
    counts = Totals(("lane", "bucket", "outcome", "step"), ("done", "count"), ("latency", "max"))
    errors = Totals(("lane", "outcome", "error"), ("done", "count"))
    busy: defaultdict[str, list[_Spans]] = defaultdict(list)
    for piece in framed_pieces(files, PRODUCED, ("lane", "outcome", "error", "invoke_ns", "complete_ns"), frames):
        done = _with_done(piece)
        is_ok = pc.equal(done["outcome"], "ok")
        latency = pc.if_else(is_ok, pc.subtract(done["complete_ns"], done["invoke_ns"]), None)
        steps = pc.divide(pc.ln(pc.cast(pc.max_element_wise(latency, 1), pa.float64())), math.log1p(LATENCY_STEP))
        step = pc.if_else(pc.is_valid(latency), pc.cast(pc.round(steps), pa.int32()), None)
        placed = done.append_column("bucket", slot(done, "done", per_bucket=1))
        counts.add(placed.append_column("latency", latency).append_column("step", step))
        errors.add(done.filter(pc.invert(is_ok)))
        for lane, times in _by_lane(done.filter(is_ok)):
            busy[lane].append(_apart([(times, times)]))
    buckets = _buckets(counts.rows())
    most_errors = _errors(errors.rows())
    return {
        lane: LaneSeries(start, width, buckets.get(lane, ()), *_gaps(busy[lane]), most_errors.get(lane, ()))
        for lane, (start, width) in frames.items()
    }


_Times = npt.NDArray[np.int64]
_Spans = tuple[_Times, _Times]
"""When spans of time begin and end."""


def _by_lane(acknowledged: Any) -> Iterable[tuple[str, _Times]]:
    """The times of acknowledgements by lane, each in order."""
    lanes = acknowledged["lane"].combine_chunks().dictionary_encode()
    codes, done = lanes.indices.to_numpy(), acknowledged["done"].to_numpy()
    order = np.lexsort((done, codes))
    starts = np.searchsorted(codes[order], np.arange(len(lanes.dictionary)))
    # In front of the first lane's start, 0, is nothing; where no record was acknowledged, there is no lane either.
    return zip(lanes.dictionary.to_pylist(), np.split(done[order], starts)[1:], strict=True)


def _apart(spans: Sequence[_Spans]) -> _Spans:
    """These spans, joined where less than `SLOT_NS` lies between them."""
    starts, ends = (np.concatenate(edges) for edges in zip(*spans, strict=True))
    order = np.argsort(starts)
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    begin = np.flatnonzero(starts[1:] - reached[:-1] >= SLOT_NS) + 1
    return starts[np.r_[0, begin]], reached[np.r_[begin - 1, -1]]


def _gaps(busy: Sequence[_Spans]) -> tuple[tuple[Gap, ...], int | None]:
    """The longest availability gaps in time order, and the longest gap of any length from `SLOT_NS` on."""
    if not busy:
        return (), None
    starts, ends = _apart(busy)
    gaps = sorted(
        (Gap(start, end) for start, end in zip(ends[:-1].tolist(), starts[1:].tolist(), strict=True)),
        key=lambda gap: (gap.start_ns - gap.end_ns, gap.start_ns),
    )[:GAPS]
    shown = [gap for gap in gaps if gap.end_ns - gap.start_ns >= SHORTEST_GAP_NS]
    longest = gaps[0].end_ns - gaps[0].start_ns if gaps else None
    return tuple(sorted(shown, key=lambda gap: gap.start_ns)), longest


def _buckets(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Bucket, ...]]:
    lanes: defaultdict[str, tuple[Bucket, ...]] = defaultdict(tuple)
    ordered = sorted(rows, key=lambda row: (row["lane"], row["bucket"], -1 if row["step"] is None else row["step"]))
    for (lane, index), group in groupby(ordered, key=lambda row: (row["lane"], row["bucket"])):
        of_bucket, counts = list(group), Counter[str]()
        for row in of_bucket:
            counts[row["outcome"]] += row["done_count"]
        steps = [(row["step"], row["done_count"]) for row in of_bucket if row["step"] is not None]
        longest = max((row["latency_max"] for row in of_bucket if row["latency_max"] is not None), default=None)
        p50, p99 = (min(_latency(steps, share), longest) if longest is not None else None for share in (0.5, 0.99))
        lanes[lane] += (Bucket(index, counts["ok"], counts["fail"], counts["info"], p50, p99, longest),)
    return lanes


def _latency(steps: Sequence[tuple[int, int]], share: float) -> int:
    """The latency that this share is below, of so many records in each step; between two of them by interpolation."""
    rank, reached = share * (sum(count for _, count in steps) - 1), np.cumsum([count for _, count in steps])
    low, high = (
        steps[int(np.searchsorted(reached, at, side="right"))][0] for at in (math.floor(rank), math.ceil(rank))
    )
    return round(math.exp((low + (high - low) * (rank % 1)) * math.log1p(LATENCY_STEP)))


def _errors(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[ErrorCount, ...]]:
    lanes: defaultdict[str, tuple[ErrorCount, ...]] = defaultdict(tuple)
    for row in sorted(rows, key=lambda row: (-row["done_count"], row["outcome"], row["error"] or "")):
        if len(lanes[row["lane"]]) < ERRORS:
            lanes[row["lane"]] += (ErrorCount(row["outcome"], row["error"] or "no error given", row["done_count"]),)
    return lanes


def _ends(files: Sequence[Path], lanes: set[str]) -> dict[tuple[str, int], int]:
    """The last offset of each partition of these lanes."""
    ends = Totals(("lane", "partition"), ("offset", "max"))
    for piece in pieces(files, LOG, ("lane", "partition", "offset")):
        ends.add(piece)
    return {(row["lane"], row["partition"]): row["offset_max"] for row in ends.rows() if row["lane"] in lanes}
