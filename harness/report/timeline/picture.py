"""A lane over time: acknowledgements, latencies, outcomes, elections, leaders and ISR, with the faults as bands.

Guarantee: every picture has a title and a description that say in words what it shows; no meaning is carried by
colour alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kafka_chaos.harness.report.inputs.series import LaneSeries
from kafka_chaos.harness.report.pages import shapes
from kafka_chaos.harness.report.svg import Scale, compact, duration, round_up
from kafka_chaos.harness.report.timeline.events import Change
from kafka_chaos.harness.report.timeline.frame import Frame, Row, compose, describe_faults

STRIP_HEIGHT = 28
_BURSTS = 40
_BURST_NAME = 64
"""Pixels that the name of a burst takes."""


@dataclass(frozen=True)
class Strip:
    """A row of states: its name, who reports it, and when each value began."""

    name: str
    source: str
    changes: Sequence[Change]


def draw(frame: Frame, series: LaneSeries | None, strips: Sequence[Strip], number: int) -> Markup:
    """The picture of one lane; `number` makes its ids unique in the page."""
    rows = list(_of_records(frame, series)) if series is not None and series.buckets else []
    rows += [Row(STRIP_HEIGHT, shapes("timeline").states(frame, strip)) for strip in strips]
    return compose(
        frame,
        rows,
        name=f"timeline-{number}",
        title=f"{frame.lane} over time",
        description=_describe(frame, series, strips),
    )


def _of_records(frame: Frame, series: LaneSeries) -> Iterator[Row]:
    draws, highest = shapes("timeline"), _highest_rate(series)
    yield Row(90, draws.rates(frame, series, highest, list(_bursts(frame, series, highest))))
    if others := max(bucket.fail + bucket.info for bucket in series.buckets):
        yield Row(36, draws.others(frame, series, others))
    if any(bucket.max_ns is not None for bucket in series.buckets):
        yield Row(86, draws.latencies(frame, series, *_latency_axis(series)))


def _highest_rate(series: LaneSeries) -> float:
    """Where the axis of acknowledgements per second ends: a lone burst does not flatten all the rest."""
    rates = sorted(series.per_second(bucket) for bucket in series.buckets if bucket.ok) or [1e9 / series.width_ns]
    return round_up(min(rates[-1], 4 * rates[len(rates) // 2]))


def _bursts(frame: Frame, series: LaneSeries, highest: float) -> Iterator[tuple[float, float, str]]:
    """The edges of what exceeds the axis, and its true height in words; of several close together, the highest's."""
    beyond = [bucket for bucket in series.buckets if series.per_second(bucket) > highest]
    taken: list[float] = []
    for bucket in sorted(beyond, key=lambda bucket: -bucket.ok)[:_BURSTS]:
        left, right = frame.edges(series, bucket)
        centre, words = (left + right) / 2, ""
        if all(abs(centre - other) > _BURST_NAME for other in taken):
            taken.append(centre)
            words = compact(series.per_second(bucket))
        yield left, right, words


def _latency_axis(series: LaneSeries) -> tuple[Scale, list[tuple[float, str]]]:
    """A logarithmic scale from a power of ten to another, and the marks of those between them that have room."""
    known = [bucket for bucket in series.buckets if bucket.max_ns is not None]
    low = len(str(max(1, min(bucket.p50_ns or 1 for bucket in known)))) - 1
    high = max(low + 1, len(str(max(bucket.max_ns or 1 for bucket in known))))
    y = Scale(10.0**low, 10.0**high, 74, 0, logarithmic=True)
    shown = [
        power for power in range(low, high + 1) if power in (low, high) or high - low <= 4 or (power - low) % 2 == 0
    ]
    return y, [(y(10.0**power), duration(10.0**power).replace(".0", "")) for power in shown]


def _describe(frame: Frame, series: LaneSeries | None, strips: Sequence[Strip]) -> str:
    parts = describe_faults(frame)
    for gap in series.gaps if series else ():
        parts.append(f"no acknowledgement for {duration(gap.end_ns - gap.start_ns)} from {frame.clock(gap.start_ns)}")
    for strip in strips:
        states = [f"{change.value} from {frame.clock(change.ts_ns)}" for change in strip.changes[:8]]
        if states:
            parts.append(f"{strip.name} {strip.source}: " + ", ".join(states))
    return "; ".join(parts) or "nothing but load"
