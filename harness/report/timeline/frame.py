"""The parts that all pictures over time share: the axis of time, faults as bands behind rows, and events in words.

A fault kind that is not installed on the report's machine is drawn in the neutral style. Every picture has a title and
a description that say in words what it shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from markupsafe import Markup

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.registry import appearances
from kafka_chaos.harness.report.inputs.series import Bucket, LaneSeries
from kafka_chaos.harness.report.pages import shapes
from kafka_chaos.harness.report.svg import Scale, duration, lines_apart, run_time, time_ticks
from kafka_chaos.harness.report.timeline.events import FaultSpan

LEFT, RIGHT = 132, 992  # the ends of the axis of time, in pixels
OTHER = "other"  # stands for all fault kinds that are not installed
_NEUTRAL = Appearance("#5a606b", "#a7adb7", Pattern.BACK_DIAGONALS)
GRAVE, NOTABLE, ORDINARY = range(3)
"""The ranks of events. If not all fit, ordinary events are left out first, and grave events last."""
EventText = tuple[int, int, str]
"""An event's time in nanoseconds, its rank, and the event in words."""


class FaultLabel(NamedTuple):
    """A fault's `words` in a picture: their `anchor`, start or end, is at pixel `x`; `line` counts from the top."""

    words: str
    style: str
    x: float
    anchor: str
    line: int | None = None


@dataclass(frozen=True)
class Frame:
    """The time of a lane's phase, and the faults in it. Pictures count time from `start_ns` on."""

    lane: str
    start_ns: int
    end_ns: int
    faults: Sequence[FaultSpan]

    @property
    def seconds(self) -> float:
        """The length of the phase in seconds."""
        return max((self.end_ns - self.start_ns) / 1e9, 1e-3)

    def seconds_at(self, ts_ns: int) -> float:
        """The time in seconds since the phase began; negative before it."""
        return (ts_ns - self.start_ns) / 1e9

    def clock(self, ts_ns: int) -> str:
        """The time since the phase began, in words; an earlier time counts as the phase's start."""
        return run_time(max(0.0, self.seconds_at(ts_ns)))

    def x(self, ts_ns: int) -> float:
        """The pixel of a time, counted from the left."""
        return Scale(0, self.seconds, LEFT, RIGHT)(self.seconds_at(ts_ns))

    def edges(self, series: LaneSeries, bucket: Bucket) -> tuple[float, float]:
        """The pixels of a bucket's beginning and end."""
        left = series.start_ns + bucket.index * series.width_ns
        return self.x(left), self.x(left + series.width_ns)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The pixels of round times, each with its time in words."""
        return [(Scale(0, self.seconds, LEFT, RIGHT)(tick), run_time(tick)) for tick in time_ticks(self.seconds)]

    @property
    def bands(self) -> list[tuple[float, float, str]]:
        """For each fault, the pixels of its beginning and end, and its style."""
        bands = []
        for fault in self.faults:
            end = RIGHT if fault.healed_ns is None else self.x(fault.healed_ns)
            bands.append((self.x(fault.request.ts_ns), end, kind_class(fault.request.kind)))
        return bands

    @property
    def labels(self) -> list[FaultLabel]:
        """The names of the faults above their bands, on different lines where they would overlap."""
        labels, spans = [], []
        for fault in self.faults:
            start, words = self.x(fault.request.ts_ns), f"{fault.name} {', '.join(fault.request.resolved)}".strip()
            if fault.healed_ns is not None:
                words += f" · {duration(fault.healed_ns - fault.request.ts_ns)}"
            if not fault.proven:
                words += " · no proof"
            width = 6.4 * len(words) + 14  # in pixels, estimated
            fits = start + width <= RIGHT
            spans.append((start, start + width) if fits else (RIGHT - width, RIGHT))
            x, anchor = (start, "start") if fits else (RIGHT, "end")
            labels.append(FaultLabel(words, kind_class(fault.request.kind), x, anchor))
        return [label._replace(line=line) for label, line in zip(labels, lines_apart(spans), strict=True)]

    @property
    def label_lines(self) -> int:
        """How many lines the names of the faults take."""
        return max((label.line or 0 for label in self.labels), default=-1) + 1


@dataclass(frozen=True)
class Row:
    """One row of a picture: its height in pixels, and its shapes, whose coordinates begin at the row's top."""

    height: float
    picture: Markup


def compose(frame: Frame, rows: Sequence[Row], *, name: str, title: str, description: str) -> Markup:
    """The picture of these rows; `name` makes its ids unique in the page."""
    return Markup(shapes("timeline").timeline(frame, rows, name, title, description).strip())


def describe_faults(frame: Frame) -> list[str]:
    """The faults in words, for the description of a picture."""
    sentences = []
    for fault in frame.faults:
        hit = ", ".join(fault.request.resolved) or fault.request.target
        end = ", not healed" if fault.healed_ns is None else f" to {run_time(frame.seconds_at(fault.healed_ns))}"
        sentences.append(f"{fault.name} of {hit} from {run_time(frame.seconds_at(fault.request.ts_ns))}{end}")
    return sentences


@cache
def _styles() -> Mapping[str, Appearance]:
    return {**appearances(), OTHER: _NEUTRAL}


def kind_class(kind: str) -> str:
    """The CSS class, and the id of the pattern, of a fault kind."""
    return f"kind-{kind if kind in _styles() else OTHER}"


def style_sheet() -> Markup:
    """The CSS classes of all fault kinds, for light and dark pages."""
    return Markup(shapes("timeline").style_sheet(_styles()))


def patterns() -> Markup:
    """The SVG patterns of all fault kinds, to be defined once in the page."""
    return Markup(shapes("timeline").patterns(_styles()))


@dataclass(frozen=True)
class Activity:
    """A picture with its heading, summary and events as (time, words). `left_out` counts the events without room."""

    heading: str
    summary: str
    picture: Markup
    events: Sequence[tuple[str, str]]
    left_out: int


def gravest(frame: Frame, events: Sequence[EventText], most: int) -> tuple[list[tuple[str, str]], int]:
    """The `most` gravest events in order of time, each as (time, words), and how many events are left out."""
    kept = sorted(sorted(events, key=lambda event: (event[1], event[0]))[:most])
    return [(f"{frame.seconds_at(ts_ns):+.2f} s", text) for ts_ns, _, text in kept], len(events) - len(kept)
