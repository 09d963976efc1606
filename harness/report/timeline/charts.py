"""Selects the lanes that are drawn over time, and describes each picture in words.

Guarantee: shows no more than `Detail` allows, and counts everything that it leaves out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from kafka_chaos.contract.lane.groups import loop_group_of
from kafka_chaos.harness.report import matrix
from kafka_chaos.harness.report.inputs.series import ErrorCount, Series
from kafka_chaos.harness.report.pages import short
from kafka_chaos.harness.report.timeline import elections
from kafka_chaos.harness.report.timeline.activity import ORDINARY, Activity, EventText, gravest
from kafka_chaos.harness.report.timeline.events import TimelineEvents
from kafka_chaos.harness.report.timeline.frame import Frame
from kafka_chaos.harness.report.timeline.members import draw_group
from kafka_chaos.harness.report.timeline.picture import Strip, draw
from kafka_chaos.harness.report.timeline.transactions import draw_transactions
from kafka_chaos.verification.inputs.documents.events import Place


@dataclass(frozen=True)
class Detail:
    """The most that is shown of a run.

    `charts`, `partitions` per chart, rows of `activity` (transactional ids, partitions of a group) per picture,
    `panels` of offsets, `lines` of ranges per panel, `events` per picture, `rows` of tables, and characters of `text`.
    """

    charts: int
    partitions: int
    activity: int
    panels: int
    lines: int
    events: int
    rows: int
    text: int


@dataclass(frozen=True)
class Chart:
    """A lane's picture over time with its events and errors in words, and those of its transactions and groups."""

    row: matrix.Row
    picture: Markup
    events: Sequence[tuple[str, str]]
    left_out: int
    errors: Sequence[ErrorCount]
    skipped_epochs: Sequence[str]
    activities: Sequence[Activity]


def draw_charts(
    table: Sequence[matrix.Row],
    timeline_events: TimelineEvents,
    series: Series,
    detail: Detail,
    *,
    first: int = 0,
    least_ns: int = 0,
) -> list[Chart]:
    """The charts of the first lanes of `table` whose time is known.

    They are numbered from `first` on, and each covers at least `least_ns`.
    """
    spans = [(row, _span(row.lane, timeline_events, series)) for row in table]
    known = [(row, span) for row, span in spans if span is not None]
    charts: list[Chart] = []
    for number, (row, (start, last)) in enumerate(known[: detail.charts], first):
        end = max(last, start + least_ns)
        over_time = series.lanes.get(row.lane)
        concerned = (fault for fault in timeline_events.faults if fault.concerns(row.lane))
        faults = [fault for fault in concerned if start <= fault.requested_ns <= end]
        frame = Frame(short(row.lane), start, end, faults[: detail.events])
        events, left_out = gravest(frame, _events(row.lane, timeline_events, frame), detail.events)
        chart = Chart(
            row=row,
            picture=draw(frame, over_time, _strips(row.lane, timeline_events, detail.partitions, end), number),
            events=events,
            left_out=left_out,
            errors=over_time.errors if over_time else (),
            skipped_epochs=elections.explain_skipped_epochs(row.lane, timeline_events, start, end, detail.lines),
            activities=_activities(row.lane, frame, timeline_events, series, detail, number),
        )
        charts.append(chart)
    return charts


def longest_ns(timeline_events: TimelineEvents, series: Series) -> int:
    """How long the longest of a run's lanes took; 0 where the time of none is known."""
    lanes = {*series.lanes, *(lane for phase in timeline_events.phases for lane in phase.lanes)}
    spans = [_span(lane, timeline_events, series) for lane in lanes]
    return max((span[1] - span[0] for span in spans if span is not None), default=0)


def _activities(
    lane: str, frame: Frame, timeline_events: TimelineEvents, series: Series, detail: Detail, number: int
) -> list[Activity]:
    """The lane's transactions, the groups that read it, and the group that feeds its loop."""
    found: list[Activity] = []
    if lane in series.transactions:
        offsets = [(place[1], known) for place, known in sorted(timeline_events.offsets.items()) if place[0] == lane]
        found.append(
            draw_transactions(
                frame,
                series.transactions[lane],
                offsets[: detail.partitions],
                number=number,
                rows=detail.activity,
                events=detail.events,
            )
        )
    loops = {loop_group_of(name) for name in series.lanes}
    own = [
        group
        for (read, name), group in series.groups.items()
        if (read == lane and name not in loops) or name == loop_group_of(lane)
    ]
    for index, group in enumerate(own[: detail.activity]):
        found.append(
            draw_group(
                frame,
                group,
                timeline_events.members.get(group.group, ()),
                name=f"group-{number}-{index}",
                rows=detail.activity,
                events=detail.events,
            )
        )
    return found


def _span(lane: str, timeline_events: TimelineEvents, series: Series) -> tuple[int, int] | None:
    """From the phase's start (or the first record) to its end, the last acknowledgement included."""
    phase, over_time = timeline_events.phase_of(lane), series.lanes.get(lane)
    edges = [edge for edge in (phase.start_ns, phase.end_ns) if edge is not None] if phase else []
    if over_time is not None and over_time.buckets:
        edges += [over_time.start_ns, over_time.start_ns + (over_time.buckets[-1].index + 1) * over_time.width_ns]
    return (min(edges), max(edges)) if len(edges) >= 2 else None


def _strips(lane: str, timeline_events: TimelineEvents, partitions: int, end_ns: int) -> list[Strip]:
    """Per partition the brokers' own elections and what clients see, until the phase ends."""
    known = sorted(
        partition
        for name, partition in timeline_events.leaders.keys()
        | timeline_events.isrs.keys()
        | timeline_events.elections.keys()
        if name == lane
    )
    strips = []
    for partition in known[:partitions]:
        place = (lane, partition)
        suffix = f" {partition}" if len(known) > 1 else ""
        won = elections.states(timeline_events.elections.get(place, ()))
        for name, source, changes in (
            ("elections", "as brokers log them", won),
            ("leader", "as clients see it", timeline_events.leaders.get(place, ())),
            ("ISR", "as clients see it", timeline_events.isrs.get(place, ())),
        ):
            shown = [change for change in changes if change.ts_ns <= end_ns]
            if shown:
                strips.append(Strip(f"{name}{suffix}", source, shown))
    return strips


def _events(lane: str, timeline_events: TimelineEvents, frame: Frame) -> list[EventText]:
    """Elections, truncations, and changes as clients saw them, in words."""
    found: list[EventText] = []

    def of_lane(by_place: Mapping[Place, Sequence[Any]]) -> Iterator[tuple[int, Any]]:
        for (name, partition), entries in by_place.items():
            if name == lane:
                yield from ((partition, entry) for entry in entries)

    for partition, change in of_lane(timeline_events.leaders):
        leader = "no leader" if change.value == "nobody" else f"broker {change.value} as leader"
        found.append((change.ts_ns, ORDINARY, f"clients see {leader} of partition {partition}"))
    for partition, change in of_lane(timeline_events.isrs):
        found.append((change.ts_ns, ORDINARY, f"clients see the ISR {change.value} of partition {partition}"))
    for partition, won in of_lane(timeline_events.elections):
        place = f"partition {partition} in leader epoch {won.leader_epoch} from offset {won.start_offset:,}"
        found.append((won.ts_ns, ORDINARY, f"broker {won.broker} logs that it leads {place}"))
    for partition, cut in of_lane(timeline_events.truncations):
        found.append(
            (cut.ts_ns, ORDINARY, f"broker {cut.broker} truncates partition {partition} to offset {cut.offset:,}")
        )
    for before, after in pairwise(timeline_events.controllers):
        if before.value != after.value and frame.start_ns <= after.ts_ns <= frame.end_ns:
            controller = "no controller" if after.value == "nobody" else f"broker {after.value} as controller"
            found.append((after.ts_ns, ORDINARY, f"clients see {controller}"))
    return found
