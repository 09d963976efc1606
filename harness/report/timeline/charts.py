"""Draws the lanes of a run over time: acknowledgements, latencies, outcomes, elections, leaders and ISR, with faults as
bands, and describes each picture in words.

Guarantee: a page shows no more than `Detail` allows, and counts what it leaves out. No meaning is carried by colour
alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from markupsafe import Markup

from kafka_chaos.contract.lane.groups import loop_group_of
from kafka_chaos.harness.report import matrix
from kafka_chaos.harness.report.inputs.series import ErrorCount, LaneSeries, Series
from kafka_chaos.harness.report.pages import shapes, short
from kafka_chaos.harness.report.svg import Scale, compact, duration, round_up
from kafka_chaos.harness.report.timeline.activities import draw_group, draw_transactions
from kafka_chaos.harness.report.timeline.events import ByPartition, Change, Timeline, election_states
from kafka_chaos.harness.report.timeline.frame import (
    ORDINARY,
    Activity,
    EventText,
    Frame,
    Row,
    compose,
    describe_faults,
    gravest,
)

T = TypeVar("T")
_STRIP_HEIGHT = 28  # pixels
_MOST_BURSTS = 40
_BURST_WIDTH = 64  # pixels that the rate of a burst takes in words


@dataclass(frozen=True)
class Detail:
    """The most that is shown of a run.

    `charts`, `partitions` per chart, rows of `activity` (transactional ids, partitions of a group) per picture,
    `panels` of offsets, `lines` of ranges per panel, `findings` with their stories, `events` per picture, `rows` of
    tables, and characters of `text`.
    """

    charts: int
    partitions: int
    activity: int
    panels: int
    lines: int
    findings: int
    events: int
    rows: int
    text: int


@dataclass(frozen=True)
class Chart:
    """A lane's picture over time, its events (time, words), its errors, and pictures of its transactions and groups."""

    row: matrix.Row
    picture: Markup
    events: Sequence[tuple[str, str]]
    left_out: int
    errors: Sequence[ErrorCount]
    activities: Sequence[Activity]


@dataclass(frozen=True)
class Strip:
    """A row of states: its name, who reports it, and when each value began."""

    name: str
    source: str
    changes: Sequence[Change]


def draw_charts(table: Sequence[matrix.Row], timeline: Timeline, series: Series, detail: Detail) -> list[Chart]:
    """The charts of the first lanes of `table`; lanes without a known beginning and end have none."""
    spans = [(row, _span(row.lane, timeline, series)) for row in table]
    drawn = [(row, span) for row, span in spans if span is not None]
    charts: list[Chart] = []
    for number, (row, (start, end)) in enumerate(drawn[: detail.charts]):
        over_time = series.lanes.get(row.lane)
        concerned = (fault for fault in timeline.faults if fault.concerns(row.lane))
        faults = [fault for fault in concerned if start <= fault.request.ts_ns <= end]
        frame = Frame(short(row.lane), start, end, faults[: detail.events])
        events, left_out = gravest(frame, events_of(row.lane, timeline, frame), detail.events)
        chart = Chart(
            row=row,
            picture=_draw_lane(frame, over_time, _strips(row.lane, timeline, detail.partitions, end), number),
            events=events,
            left_out=left_out,
            errors=over_time.errors if over_time else (),
            activities=_activities(row.lane, frame, timeline, series, detail, number),
        )
        charts.append(chart)
    return charts


def _activities(
    lane: str, frame: Frame, timeline: Timeline, series: Series, detail: Detail, number: int
) -> list[Activity]:
    """The lane's transactions, the groups that read it, and the group that feeds its loop."""
    activities: list[Activity] = []
    limits = {"rows": detail.activity, "events": detail.events}
    if lane in series.transactions:
        offsets = sorted(timeline.offsets.get(lane, {}).items())[: detail.partitions]
        activities.append(draw_transactions(frame, series.transactions[lane], offsets, number=number, **limits))
    loop_groups = {loop_group_of(name) for name in series.lanes}
    lane_groups = [
        group
        for (read_lane, name), group in series.groups.items()
        if (read_lane == lane and name not in loop_groups) or name == loop_group_of(lane)
    ]
    for index, group in enumerate(lane_groups[: detail.activity]):
        members = timeline.members.get(group.group, ())
        activities.append(draw_group(frame, group, members, name=f"group-{number}-{index}", **limits))
    return activities


def _span(lane: str, timeline: Timeline, series: Series) -> tuple[int, int] | None:
    """When a lane's chart begins and ends: it covers the lane's phase and records. None if neither is known."""
    phase, over_time = timeline.phase_of(lane), series.lanes.get(lane)
    edges = [edge for edge in (phase.start_ns, phase.end_ns) if edge is not None] if phase else []
    if over_time is not None and over_time.buckets:
        edges += [over_time.start_ns, over_time.start_ns + (over_time.buckets[-1].index + 1) * over_time.width_ns]
    return (min(edges), max(edges)) if len(edges) >= 2 else None


def _strips(lane: str, timeline: Timeline, most: int, end_ns: int) -> list[Strip]:
    """For `most` partitions, the elections that brokers log, and the leaders and ISRs that clients see, to `end_ns`."""
    leaders, isrs = timeline.leaders.get(lane, {}), timeline.isrs.get(lane, {})
    elections = timeline.elections.get(lane, {})
    partitions_of_lane = sorted(leaders.keys() | isrs.keys() | elections.keys())
    strips = []
    for partition in partitions_of_lane[:most]:
        suffix = f" {partition}" if len(partitions_of_lane) > 1 else ""
        for name, source, changes in (
            ("elections", "as brokers log them", election_states(elections.get(partition, ()))),
            ("leader", "as clients see it", leaders.get(partition, ())),
            ("ISR", "as clients see it", isrs.get(partition, ())),
        ):
            shown = [change for change in changes if change.ts_ns <= end_ns]
            if shown:
                strips.append(Strip(f"{name}{suffix}", source, shown))
    return strips


def events_of(lane: str, timeline: Timeline, frame: Frame, partition: int | None = None) -> list[EventText]:
    """A lane's elections, truncations, and changes that clients saw, in words; of one partition, or of all if None."""
    events: list[EventText] = []

    def lane_entries(by_lane: ByPartition[T]) -> Iterator[tuple[int, T]]:
        for number, entries in by_lane.get(lane, {}).items():
            if partition in (None, number):
                yield from ((number, entry) for entry in entries)

    for number, change in lane_entries(timeline.leaders):
        leader = "no leader" if change.value == "nobody" else f"broker {change.value} as leader"
        events.append((change.ts_ns, ORDINARY, f"clients see {leader} of partition {number}"))
    for number, change in lane_entries(timeline.isrs):
        events.append((change.ts_ns, ORDINARY, f"clients see the ISR {change.value} of partition {number}"))
    for number, election in lane_entries(timeline.elections):
        led = f"partition {number} in leader epoch {election.leader_epoch} from offset {election.start_offset:,}"
        events.append((election.ts_ns, ORDINARY, f"broker {election.broker} logs that it leads {led}"))
    for number, cut in lane_entries(timeline.truncations):
        truncated = f"truncates partition {number} to offset {cut.offset:,}"
        events.append((cut.ts_ns, ORDINARY, f"broker {cut.broker} {truncated}"))
    for before, after in pairwise(timeline.controllers):
        if before.value != after.value and frame.start_ns <= after.ts_ns <= frame.end_ns:
            controller = "no controller" if after.value == "nobody" else f"broker {after.value} as controller"
            events.append((after.ts_ns, ORDINARY, f"clients see {controller}"))
    return events


def _draw_lane(frame: Frame, series: LaneSeries | None, strips: Sequence[Strip], number: int) -> Markup:
    """The picture of one lane; `number` makes its ids unique in the page."""
    rows = list(_record_rows(frame, series)) if series is not None and series.buckets else []
    rows += [Row(_STRIP_HEIGHT, shapes("timeline").states(frame, strip)) for strip in strips]
    return compose(
        frame,
        rows,
        name=f"timeline-{number}",
        title=f"{frame.lane} over time",
        description=_describe_lane(frame, series, strips),
    )


def _record_rows(frame: Frame, series: LaneSeries) -> Iterator[Row]:
    """The rows (height in pixels, and picture) of acknowledgements, of other outcomes, and of latencies."""
    rates = sorted(series.per_second(bucket) for bucket in series.buckets if bucket.ok)
    rates = rates or [1e9 / series.width_ns]  # for an empty chart, the rate of one record in a bucket
    # A lone burst exceeds the axis: an axis up to it would flatten all other rates.
    macros, highest = shapes("timeline"), round_up(min(rates[-1], 4 * rates[len(rates) // 2]))
    yield Row(90, macros.rates(frame, series, highest, list(_bursts(frame, series, highest))))
    if others := max(bucket.fail + bucket.info for bucket in series.buckets):
        yield Row(36, macros.others(frame, series, others))
    if any(bucket.max_ns is not None for bucket in series.buckets):
        yield Row(86, macros.latencies(frame, series, *_latency_axis(series)))


def _bursts(frame: Frame, series: LaneSeries, highest: float) -> Iterator[tuple[float, float, str]]:
    """The edges of each bucket that exceeds the axis, and its true rate in words, or no words where they lack room."""
    beyond = [bucket for bucket in series.buckets if series.per_second(bucket) > highest]
    taken: list[float] = []
    for bucket in sorted(beyond, key=lambda bucket: -bucket.ok)[:_MOST_BURSTS]:
        left, right = frame.edges(series, bucket)
        centre, words = (left + right) / 2, ""
        if all(abs(centre - other) > _BURST_WIDTH for other in taken):
            taken.append(centre)
            words = compact(series.per_second(bucket))
        yield left, right, words


def _latency_axis(series: LaneSeries) -> tuple[Scale, list[tuple[float, str]]]:
    """A logarithmic scale between two powers of ten, with marks at both, and at the powers between that have room."""
    measured = [bucket for bucket in series.buckets if bucket.max_ns is not None]
    # A number of n digits is at least 10 to the power of n - 1, and less than 10 to the power of n.
    low = len(str(max(1, min(bucket.p50_ns or 1 for bucket in measured)))) - 1
    high = max(low + 1, len(str(max(bucket.max_ns or 1 for bucket in measured))))
    y = Scale(10.0**low, 10.0**high, 74, 0, logarithmic=True)
    shown = [
        power for power in range(low, high + 1) if power in (low, high) or high - low <= 4 or (power - low) % 2 == 0
    ]
    return y, [(y(10.0**power), duration(10.0**power).replace(".0", "")) for power in shown]


def _describe_lane(frame: Frame, series: LaneSeries | None, strips: Sequence[Strip]) -> str:
    parts = describe_faults(frame)
    for gap in series.gaps if series else ():
        parts.append(f"no acknowledgement for {duration(gap.end_ns - gap.start_ns)} from {frame.clock(gap.start_ns)}")
    for strip in strips:
        states = [f"{change.value} from {frame.clock(change.ts_ns)}" for change in strip.changes[:8]]
        if states:
            parts.append(f"{strip.name} {strip.source}: " + ", ".join(states))
    return "; ".join(parts) or "nothing but load"
