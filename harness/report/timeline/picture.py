"""A lane over time: acknowledgements, latencies, outcomes, elections, leaders and ISR, with the faults as bands.

Guarantee: every picture has a title and a description that say in words what it shows; no meaning is carried by
colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from kafka_chaos.harness.report.inputs.series import LaneSeries
from kafka_chaos.harness.report.svg import duration, state
from kafka_chaos.harness.report.timeline import curves
from kafka_chaos.harness.report.timeline.events import Change
from kafka_chaos.harness.report.timeline.frame import LEFT, Frame, Row, compose, describe_faults, row_name

_ROW = 25
STATES_SHOWN = 400
"""Most states drawn per row."""


@dataclass(frozen=True)
class Strip:
    """A row of states: its name, who reports it, and when each value began."""

    name: str
    source: str
    changes: Sequence[Change]


def draw(frame: Frame, series: LaneSeries | None, strips: Sequence[Strip], number: int) -> Markup:
    """The picture of one lane; `number` makes its ids unique in the page."""
    rows: list[Row] = []
    if series is not None and series.buckets:
        rows.append(Row(curves.RATE_HEIGHT + 12, partial(curves.rates, series, frame.x)))
        if series.total("fail") or series.total("info"):
            rows.append(Row(curves.OTHER_HEIGHT + 10, partial(curves.others, series, frame.x)))
        if any(bucket.max_ns is not None for bucket in series.buckets):
            rows.append(Row(curves.LATENCY_HEIGHT + 12, partial(curves.latencies, series, frame.x)))
    rows += [Row(_ROW + 3, partial(_strip, frame, strip)) for strip in strips]
    return compose(
        frame,
        rows,
        name=f"timeline-{number}",
        title=f"{frame.lane} over time",
        description=_describe(frame, series, strips),
    )


def _describe(frame: Frame, series: LaneSeries | None, strips: Sequence[Strip]) -> str:
    parts = describe_faults(frame)
    for gap in series.gaps if series else ():
        parts.append(f"no acknowledgement for {duration(gap.end_ns - gap.start_ns)} from {frame.clock(gap.start_ns)}")
    for strip in strips:
        states = [f"{change.value} from {frame.clock(change.ts_ns)}" for change in strip.changes[:8]]
        if states:
            parts.append(f"{strip.name} {strip.source}: " + ", ".join(states))
    return "; ".join(parts) or "nothing but load"


def _strip(frame: Frame, strip: Strip, top: float) -> list[Markup]:
    drawn = row_name(strip.name, strip.source, top)
    changes = strip.changes[:STATES_SHOWN]
    edges = [LEFT, *(frame.x(change.ts_ns) for change in changes[1:]), frame.x(frame.end_ns)]
    for index, change in enumerate(changes):
        nobody = " nobody" if change.value == "nobody" else ""
        words = f"{strip.name}: {change.value} from {frame.clock(change.ts_ns)}, {strip.source}"
        names = (change.value, change.short)
        drawn += state(edges[index], edges[index + 1], top, _ROW - 2, words, names, f"state state-{index % 2}{nobody}")
    return drawn
