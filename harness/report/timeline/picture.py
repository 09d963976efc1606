"""A lane over time: acknowledgements, latencies, outcomes, elections, leaders and ISR, with the faults as bands.

Guarantee: every picture has a title and a description that say in words what it shows; no meaning is carried by
colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kafka_chaos.harness.report.inputs.series import LaneSeries
from kafka_chaos.harness.report.svg import Scale, axis, clock, duration, element, time_ticks
from kafka_chaos.harness.report.timeline import curves
from kafka_chaos.harness.report.timeline.curves import LEFT, RIGHT
from kafka_chaos.harness.report.timeline.events import Change, FaultSpan
from kafka_chaos.harness.report.timeline.fault_styles import kind_class

WIDTH = 1000
_ROW = 25
STATES_SHOWN = 400
"""Most states drawn per row."""


@dataclass(frozen=True)
class Strip:
    """A row of states: its name, who reports it, and when each value began."""

    name: str
    source: str
    changes: Sequence[Change]


@dataclass(frozen=True)
class LaneTimeline:
    """The data of one lane's picture. Times are those of the events; `start_ns` is the phase's zero."""

    lane: str
    start_ns: int
    end_ns: int
    series: LaneSeries | None
    faults: Sequence[FaultSpan]
    strips: Sequence[Strip]

    @property
    def seconds(self) -> float:
        """Length of the phase."""
        return max((self.end_ns - self.start_ns) / 1e9, 1e-3)

    def at(self, ts_ns: int) -> float:
        """Seconds since the phase began."""
        return (ts_ns - self.start_ns) / 1e9


def draw(timeline: LaneTimeline, number: int) -> Markup:
    """The picture of one lane; `number` makes its ids unique in the page."""
    x = Scale(0, timeline.seconds, LEFT, RIGHT)

    def place(ts_ns: int) -> float:
        return x(timeline.at(ts_ns))

    overlaid, lines = _label_lines(timeline, x)
    top = 8.0 + 15 * lines
    body: list[Markup] = []
    y = top
    series = timeline.series
    if series is not None and series.buckets:
        body += curves.rates(series, place, y)
        y += curves.RATE_HEIGHT + 12
        if series.total("fail") or series.total("info"):
            body += curves.others(series, place, y)
            y += curves.OTHER_HEIGHT + 10
        if any(bucket.max_ns is not None for bucket in series.buckets):
            body += curves.latencies(series, place, y)
            y += curves.LATENCY_HEIGHT + 12
    for strip in timeline.strips:
        body += _strip(timeline, strip, x, y)
        y += _ROW + 3
    bottom = y + 2
    body += axis([(x(tick), clock(tick)) for tick in time_ticks(timeline.seconds)], LEFT, RIGHT, WIDTH, bottom)
    title, description = f"timeline-{number}", f"timeline-{number}-description"
    return element(
        "svg",
        element("title", f"{timeline.lane} over time", id=title),
        element("desc", describe(timeline), id=description),
        *_bands(timeline, x, top, bottom),
        *overlaid,
        *body,
        viewBox=f"0 0 {WIDTH} {round(bottom + 22)}",
        role="img",
        aria_labelledby=f"{title} {description}",
    )


def describe(timeline: LaneTimeline) -> str:
    """The picture in words."""
    parts = [
        f"{fault.name} of {', '.join(fault.resolved) or fault.target} from {clock(timeline.at(fault.requested_ns))}"
        + (f" to {clock(timeline.at(fault.healed_ns))}" if fault.healed_ns is not None else ", not healed")
        for fault in timeline.faults
    ]
    for gap in timeline.series.gaps if timeline.series else ():
        parts.append(
            f"no acknowledgement for {duration(gap.end_ns - gap.start_ns)} from {clock(timeline.at(gap.start_ns))}"
        )
    for strip in timeline.strips:
        states = [f"{change.value} from {clock(max(0.0, timeline.at(change.ts_ns)))}" for change in strip.changes[:8]]
        if states:
            parts.append(f"{strip.name} {strip.source}: " + ", ".join(states))
    return "; ".join(parts) or "nothing but load"


def _bands(timeline: LaneTimeline, x: Scale, top: float, bottom: float) -> list[Markup]:
    bands = []
    for fault in timeline.faults:
        start = x(timeline.at(fault.requested_ns))
        end = x(timeline.at(fault.healed_ns)) if fault.healed_ns is not None else RIGHT
        style = kind_class(fault.kind)
        width, height = max(2.0, end - start), bottom - top
        bands.append(element("rect", x=start, y=top, width=width, height=height, class_=f"band {style}"))
        bands.append(
            element("rect", x=start, y=top, width=width, height=height, class_="pattern", fill=f"url(#{style})")
        )
        bands.append(element("path", d=f"M{start:.1f} {top:.1f}V{bottom:.1f}", class_=f"edge {style}"))
    return bands


def _label_lines(timeline: LaneTimeline, x: Scale) -> tuple[list[Markup], int]:
    """The faults' names above their bands, on as many lines as keep them apart."""
    ends: list[float] = []
    labels = []
    for fault in timeline.faults:
        start = x(timeline.at(fault.requested_ns))
        words = f"{fault.name} {', '.join(fault.resolved)}".strip()
        if fault.healed_ns is not None:
            words += f" · {duration(fault.healed_ns - fault.requested_ns)}"
        if not fault.proven:
            words += " · no proof"
        reach = 6.4 * len(words) + 14
        anchor = "start" if start + reach <= RIGHT else "end"
        left = start if anchor == "start" else RIGHT - reach
        row = next((index for index, end in enumerate(ends) if end <= left), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = left + reach
        place = start if anchor == "start" else RIGHT
        labels.append(
            element("text", words, x=place, y=15 + 15 * row, class_=f"fault-name {kind_class(fault.kind)}",
                    text_anchor=anchor)
        )  # fmt: skip
    return labels, len(ends)


def _strip(timeline: LaneTimeline, strip: Strip, x: Scale, top: float) -> list[Markup]:
    drawn = [
        element("text", strip.name, x=LEFT - 8, y=top + 11, class_="row-name", text_anchor="end"),
        element("text", strip.source, x=LEFT - 8, y=top + 22, class_="tick source", text_anchor="end"),
    ]
    changes = list(strip.changes[:STATES_SHOWN])
    for index, change in enumerate(changes):
        following = changes[index + 1].ts_ns if index + 1 < len(changes) else timeline.end_ns
        left = LEFT if index == 0 else x(timeline.at(change.ts_ns))
        width = max(1.0, x(timeline.at(following)) - left - 1)
        nobody = " nobody" if change.value == "nobody" else ""
        words = f"{strip.name}: {change.value} from {clock(max(0.0, timeline.at(change.ts_ns)))}, {strip.source}"
        shape = {"x": left, "y": top, "width": width, "height": _ROW - 2}
        drawn.append(element("rect", element("title", words), **shape, class_=f"state state-{index % 2}{nobody}"))
        fitting = next((text for text in (change.value, change.short) if text and width > 6.2 * len(text) + 8), "")
        if fitting:
            drawn.append(element("text", fitting, x=left + 5, y=top + 16, class_="state-name"))
    return drawn
