"""A lane over time: acknowledgements, latencies, outcomes, elections, leaders and ISR, with the faults as bands.

Guarantee: every picture has a title and a description that say in words what it shows; no meaning is carried by
colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from kafka_chaos.harness.report.inputs.series import Bucket, LaneSeries
from kafka_chaos.harness.report.svg import Scale, area, compact, duration, element, line, round_up, state
from kafka_chaos.harness.report.timeline.events import Change
from kafka_chaos.harness.report.timeline.frame import LEFT, RIGHT, Frame, Row, compose, describe_faults, row_name

RATE_HEIGHT, LATENCY_HEIGHT, OTHER_HEIGHT = 78, 74, 26
Place = Callable[[int], float]
"""From a time in nanoseconds to its pixel."""


def rates(series: LaneSeries, x: Place, top: float) -> list[Markup]:
    """Acknowledgements per second, with the gaps between them."""
    per_second = 1e9 / series.width_ns
    highest = _rate_ceiling(series) * per_second
    y = Scale(0, highest, top + RATE_HEIGHT, top)
    floor = top + RATE_HEIGHT
    drawn = _frame(top, RATE_HEIGHT, "acks/s", [(y(highest), compact(highest)), (y(highest / 2), compact(highest / 2))])
    for run in _runs(series):
        points = []
        for bucket in run:
            left, right = _edges(series, bucket, x)
            points += [(left, y(bucket.ok * per_second)), (right, y(bucket.ok * per_second))]
        drawn.append(element("path", d=area(points, floor), class_="rate"))
    drawn += _bursts(series, x, top, highest / per_second)
    for gap in series.gaps:
        start, end = x(gap.start_ns), x(gap.end_ns)
        words = duration(gap.end_ns - gap.start_ns)
        drawn.append(element("path", d=f"M{start:.1f} {floor - 9:.1f}v9H{end:.1f}v-9", class_="gap"))
        if end - start > 6.2 * len(words):
            centre = (start + end) / 2
            drawn.append(element("text", words, x=centre, y=floor - 5, class_="gap-name", text_anchor="middle"))
    return drawn


def _rate_ceiling(series: LaneSeries) -> float:
    """Where the axis of acknowledgements ends, in records per bucket: a lone burst does not flatten all the rest."""
    amounts = sorted(bucket.ok for bucket in series.buckets if bucket.ok) or [1]
    usual = amounts[len(amounts) // 2]
    per_second = 1e9 / series.width_ns
    return round_up(min(amounts[-1], 4 * usual) * per_second) / per_second


def _bursts(series: LaneSeries, x: Place, top: float, ceiling: float) -> list[Markup]:
    """The true height, in words, of what exceeds the axis; of several close together, the highest."""
    drawn: list[Markup] = []
    beyond = sorted((bucket for bucket in series.buckets if bucket.ok > ceiling), key=lambda bucket: -bucket.ok)
    taken: list[float] = []
    for bucket in beyond[:40]:
        left, right = _edges(series, bucket, x)
        centre = (left + right) / 2
        drawn.append(element("path", d=f"M{centre - 4:.1f} {top + 1:.1f}l4 -5l4 5z", class_="burst"))
        if all(abs(centre - other) > 64 for other in taken):
            taken.append(centre)
            words = compact(bucket.ok * 1e9 / series.width_ns)
            at_right = centre < RIGHT - 50
            anchor, place = ("start", right + 4) if at_right else ("end", left - 4)
            drawn.append(element("text", words, x=place, y=top + 10, class_="burst-name", text_anchor=anchor))
    return drawn


def others(series: LaneSeries, x: Place, top: float) -> list[Markup]:
    """Records with the outcomes fail and info."""
    highest = max(bucket.fail + bucket.info for bucket in series.buckets)
    y = Scale(0, highest, 0, OTHER_HEIGHT)
    drawn = _frame(top, OTHER_HEIGHT, "fail, info", [(top + 4, compact(highest))])
    for bucket in series.buckets:
        left, right = _edges(series, bucket, x)
        floor = top + OTHER_HEIGHT
        for amount, style in ((bucket.info, "info"), (bucket.fail, "fail")):
            if amount:
                height = max(1.5, y(amount))
                floor -= height
                shape = {"x": left, "y": floor, "width": max(1.5, right - left), "height": height}
                drawn.append(
                    element("rect", element("title", f"{amount:,} {style}"), **shape, class_=f"outcome {style}")
                )
    return drawn


def latencies(series: LaneSeries, x: Place, top: float) -> list[Markup]:
    """Latencies of acknowledged records on a logarithmic scale."""
    known = [bucket for bucket in series.buckets if bucket.max_ns is not None]
    low = 10.0 ** len(str(max(1, min(bucket.p50_ns or 1 for bucket in known)))) / 10
    high = max(10.0 * low, 10.0 ** len(str(max(bucket.max_ns or 1 for bucket in known))))
    y = Scale(low, high, top + LATENCY_HEIGHT, top, logarithmic=True)
    marks, value = [], low
    while value <= high:
        if value in (low, high) or round(_log(high / low)) <= 4 or round(_log(value / low)) % 2 == 0:
            marks.append((y(value), duration(value).replace(".0", "")))
        value *= 10
    drawn = _frame(top, LATENCY_HEIGHT, "latency", marks)
    for name in ("max_ns", "p99_ns", "p50_ns"):
        lines = []
        for run in _runs(series):
            measured = [(bucket, getattr(bucket, name)) for bucket in run]
            points = [(sum(_edges(series, b, x)) / 2, y(value)) for b, value in measured if value is not None]
            lines.append(points)
        drawn.append(element("path", d=line(lines), class_=f"latency {name.removesuffix('_ns')}"))
    return drawn


def _log(value: float) -> int:
    return len(str(int(value))) - 1


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


def _edges(series: LaneSeries, bucket: Bucket, x: Place) -> tuple[float, float]:
    left = series.start_ns + bucket.index * series.width_ns
    return x(left), x(left + series.width_ns)


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
        rows.append(Row(RATE_HEIGHT + 12, partial(rates, series, frame.x)))
        if series.total("fail") or series.total("info"):
            rows.append(Row(OTHER_HEIGHT + 10, partial(others, series, frame.x)))
        if any(bucket.max_ns is not None for bucket in series.buckets):
            rows.append(Row(LATENCY_HEIGHT + 12, partial(latencies, series, frame.x)))
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
