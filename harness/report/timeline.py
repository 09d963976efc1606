"""A lane over time: acknowledgements, latency, outcomes, leaders and ISR, under the bands of the faults.

Guarantee: every picture has a title and a description that say in words what it shows; no meaning is carried by
colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kafka_chaos.harness.report.happenings import Change, FaultSpan
from kafka_chaos.harness.report.series import Bucket, LaneSeries
from kafka_chaos.harness.report.svg import Scale, area, clock, compact, duration, element, line, round_up, time_ticks

WIDTH = 1000
LEFT, RIGHT = 64, 992
_ROW = 17
_RATE, _LATENCY, _OTHER = 78, 74, 26
KNOWN_KINDS = ("kill", "stop", "pause", "partition")
"""Fault kinds with a colour and a pattern of their own."""
STATES_SHOWN = 400
"""Most leader or ISR changes drawn per partition."""


@dataclass(frozen=True)
class Strip:
    """A row of states: what it shows, and from when on which value held."""

    name: str
    changes: Sequence[Change]


@dataclass(frozen=True)
class LaneTimeline:
    """All that one lane's picture needs. Times are those of the events; `start_ns` is the phase's zero."""

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
    overlaid, lines = _label_lines(timeline, x)
    top = 8.0 + 15 * lines
    body: list[Markup] = []
    y = top
    series = timeline.series
    if series is not None and series.buckets:
        body += _rates(timeline, series, x, y)
        y += _RATE + 12
        if series.total("fail") or series.total("info"):
            body += _others(timeline, series, x, y)
            y += _OTHER + 10
        if any(bucket.max_ns is not None for bucket in series.buckets):
            body += _latencies(timeline, series, x, y)
            y += _LATENCY + 12
    for strip in timeline.strips:
        body += _strip(timeline, strip, x, y)
        y += _ROW + 3
    bottom = y + 2
    body += _axis(timeline, x, top, bottom)
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
    told = [
        f"{fault.kind} of {', '.join(fault.resolved) or fault.target} from {clock(timeline.at(fault.requested_ns))}"
        + (f" to {clock(timeline.at(fault.healed_ns))}" if fault.healed_ns is not None else ", not healed")
        for fault in timeline.faults
    ]
    for gap in timeline.series.gaps if timeline.series else ():
        told.append(
            f"no acknowledgement for {duration(gap.end_ns - gap.start_ns)} from {clock(timeline.at(gap.start_ns))}"
        )
    for strip in timeline.strips:
        states = [f"{change.value} from {clock(max(0.0, timeline.at(change.ts_ns)))}" for change in strip.changes[:8]]
        if states:
            told.append(f"{strip.name}: " + ", ".join(states))
    return "; ".join(told) or "nothing but load"


def kind_class(kind: str) -> str:
    """The style of a fault kind."""
    return f"kind-{kind}" if kind in KNOWN_KINDS else "kind-other"


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
        words = f"{fault.kind} {', '.join(fault.resolved)}".strip()
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


def _rates(timeline: LaneTimeline, series: LaneSeries, x: Scale, top: float) -> list[Markup]:
    per_second = 1e9 / series.width_ns
    highest = _rate_ceiling(series) * per_second
    y = Scale(0, highest, top + _RATE, top)
    floor = top + _RATE
    drawn = _frame(top, _RATE, "acks/s", [(y(highest), compact(highest)), (y(highest / 2), compact(highest / 2))])
    for run in _runs(series):
        points = []
        for bucket in run:
            left, right = _edges(timeline, series, bucket, x)
            points += [(left, y(bucket.ok * per_second)), (right, y(bucket.ok * per_second))]
        drawn.append(element("path", d=area(points, floor), class_="rate"))
    drawn += _bursts(timeline, series, x, top, highest / per_second)
    for gap in series.gaps:
        start, end = x(timeline.at(gap.start_ns)), x(timeline.at(gap.end_ns))
        words = duration(gap.end_ns - gap.start_ns)
        drawn.append(element("path", d=f"M{start:.1f} {floor - 9:.1f}v9H{end:.1f}v-9", class_="gap"))
        if end - start > 6.2 * len(words):
            centre = (start + end) / 2
            drawn.append(element("text", words, x=centre, y=floor - 5, class_="gap-name", text_anchor="middle"))
    return drawn


def _rate_ceiling(series: LaneSeries) -> float:
    """Where the axis of acknowledgements ends, in records per bucket: lone bursts do not flatten all the rest."""
    amounts = sorted(bucket.ok for bucket in series.buckets if bucket.ok) or [1]
    usual = amounts[len(amounts) // 2]
    per_second = 1e9 / series.width_ns
    return round_up(min(amounts[-1], 4 * usual) * per_second) / per_second


def _bursts(timeline: LaneTimeline, series: LaneSeries, x: Scale, top: float, ceiling: float) -> list[Markup]:
    """The true height, in words, of what reaches beyond the axis; near ones share the highest one's."""
    drawn: list[Markup] = []
    beyond = sorted((bucket for bucket in series.buckets if bucket.ok > ceiling), key=lambda bucket: -bucket.ok)
    taken: list[float] = []
    for bucket in beyond[:40]:
        left, right = _edges(timeline, series, bucket, x)
        centre = (left + right) / 2
        drawn.append(element("path", d=f"M{centre - 4:.1f} {top + 1:.1f}l4 -5l4 5z", class_="burst"))
        if all(abs(centre - other) > 64 for other in taken):
            taken.append(centre)
            words = compact(bucket.ok * 1e9 / series.width_ns)
            at_right = centre < RIGHT - 50
            anchor, place = ("start", right + 4) if at_right else ("end", left - 4)
            drawn.append(element("text", words, x=place, y=top + 10, class_="burst-name", text_anchor=anchor))
    return drawn


def _others(timeline: LaneTimeline, series: LaneSeries, x: Scale, top: float) -> list[Markup]:
    highest = max(bucket.fail + bucket.info for bucket in series.buckets)
    y = Scale(0, highest, 0, _OTHER)
    drawn = _frame(top, _OTHER, "fail, info", [(top + 4, compact(highest))])
    for bucket in series.buckets:
        left, right = _edges(timeline, series, bucket, x)
        floor = top + _OTHER
        for amount, style in ((bucket.info, "info"), (bucket.fail, "fail")):
            if amount:
                height = max(1.5, y(amount))
                floor -= height
                shape = {"x": left, "y": floor, "width": max(1.5, right - left), "height": height}
                drawn.append(
                    element("rect", element("title", f"{amount:,} {style}"), **shape, class_=f"outcome {style}")
                )
    return drawn


def _latencies(timeline: LaneTimeline, series: LaneSeries, x: Scale, top: float) -> list[Markup]:
    known = [bucket for bucket in series.buckets if bucket.max_ns is not None]
    low = 10.0 ** len(str(max(1, min(bucket.p50_ns or 1 for bucket in known)))) / 10
    high = max(10.0 * low, 10.0 ** len(str(max(bucket.max_ns or 1 for bucket in known))))
    y = Scale(low, high, top + _LATENCY, top, logarithmic=True)
    marks, value = [], low
    while value <= high:
        if value in (low, high) or round(_log(high / low)) <= 4 or round(_log(value / low)) % 2 == 0:
            marks.append((y(value), duration(value).replace(".0", "")))
        value *= 10
    drawn = _frame(top, _LATENCY, "latency", marks)
    for name in ("max_ns", "p99_ns", "p50_ns"):
        lines = []
        for run in _runs(series):
            measured = [(bucket, getattr(bucket, name)) for bucket in run]
            points = [(sum(_edges(timeline, series, b, x)) / 2, y(value)) for b, value in measured if value is not None]
            lines.append(points)
        drawn.append(element("path", d=line(lines), class_=f"latency {name.removesuffix('_ns')}"))
    return drawn


def _log(value: float) -> int:
    return len(str(int(value))) - 1


def _strip(timeline: LaneTimeline, strip: Strip, x: Scale, top: float) -> list[Markup]:
    drawn = [element("text", strip.name, x=LEFT - 8, y=top + 12, class_="row-name", text_anchor="end")]
    changes = list(strip.changes[:STATES_SHOWN])
    for index, change in enumerate(changes):
        following = changes[index + 1].ts_ns if index + 1 < len(changes) else timeline.end_ns
        left = LEFT if index == 0 else x(timeline.at(change.ts_ns))
        right = x(timeline.at(following))
        nobody = "nobody" if change.value == "nobody" else ""
        words = f"{strip.name}: {change.value} from {clock(max(0.0, timeline.at(change.ts_ns)))}"
        shape = {"x": left, "y": top, "width": max(1.0, right - left - 1), "height": _ROW}
        style = f"state state-{index % 2} {nobody}"
        drawn.append(element("rect", element("title", words), **shape, class_=style))
        if right - left > 7 * len(change.value) + 4:
            drawn.append(element("text", change.value, x=left + 5, y=top + 12, class_="state-name"))
    return drawn


def _axis(timeline: LaneTimeline, x: Scale, top: float, bottom: float) -> list[Markup]:
    drawn = []
    for tick in time_ticks(timeline.seconds):
        place = x(tick)
        drawn.append(element("path", d=f"M{place:.1f} {bottom:.1f}v4", class_="axis"))
        drawn.append(element("text", clock(tick), x=place, y=bottom + 16, class_="tick", text_anchor="middle"))
    drawn.append(element("path", d=f"M{LEFT} {bottom:.1f}H{RIGHT}", class_="axis"))
    return drawn


def _frame(top: float, height: float, name: str, marks: Sequence[tuple[float, str]]) -> list[Markup]:
    drawn = [element("path", d=f"M{LEFT} {top + height:.1f}H{RIGHT}", class_="base")]
    for y, words in marks:
        drawn.append(element("path", d=f"M{LEFT} {y:.1f}H{RIGHT}", class_="grid"))
        drawn.append(element("text", words, x=LEFT - 8, y=y + 4, class_="tick", text_anchor="end"))
    drawn.append(element("text", name, x=LEFT + 6, y=top + 11, class_="row-name inside"))
    return drawn


def _runs(series: LaneSeries) -> list[list[Bucket]]:
    """Buckets without a hole between them, those with acknowledgements only."""
    runs: list[list[Bucket]] = []
    for bucket in series.buckets:
        if not bucket.ok:
            continue
        if not runs or bucket.index != runs[-1][-1].index + 1:
            runs.append([])
        runs[-1].append(bucket)
    return runs


def _edges(timeline: LaneTimeline, series: LaneSeries, bucket: Bucket, x: Scale) -> tuple[float, float]:
    left = series.start_ns + bucket.index * series.width_ns
    return x(timeline.at(left)), x(timeline.at(left + series.width_ns))
