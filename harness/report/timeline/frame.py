"""Shared by all pictures of a lane over time: the axis of time, and the faults as bands behind the rows, each
in the style that its kind declares.

Guarantee: a kind that is not installed where the report is written has the neutral style, never none. Every
picture has a title and a description that say in words what it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.registry import appearances
from kafka_chaos.harness.report.svg import Scale, axis, clock, duration, element, picture, time_ticks
from kafka_chaos.harness.report.timeline.events import FaultSpan

WIDTH = 1000
LEFT, RIGHT = 132, 992


@dataclass(frozen=True)
class Frame:
    """A lane's phase and the faults in it. Times are those of the events; `start_ns` is the phase's zero."""

    lane: str
    start_ns: int
    end_ns: int
    faults: Sequence[FaultSpan]

    @property
    def seconds(self) -> float:
        """Length of the phase."""
        return max((self.end_ns - self.start_ns) / 1e9, 1e-3)

    def at(self, ts_ns: int) -> float:
        """Seconds since the phase began."""
        return (ts_ns - self.start_ns) / 1e9

    def clock(self, ts_ns: int) -> str:
        """The same in words; what was there before the phase began counts as its start."""
        return clock(max(0.0, self.at(ts_ns)))

    def x(self, ts_ns: int) -> float:
        """The pixel of a time."""
        return Scale(0, self.seconds, LEFT, RIGHT)(self.at(ts_ns))


@dataclass(frozen=True)
class Row:
    """One row of a picture: what it takes of the height, and how it is drawn from its top on."""

    height: float
    draw: Callable[[float], list[Markup]]


def compose(frame: Frame, rows: Sequence[Row], *, name: str, title: str, description: str) -> Markup:
    """The picture of these rows; `name` makes its ids unique in the page."""
    labels, lines = _label_lines(frame)
    top = 8.0 + 15 * lines
    body: list[Markup] = []
    y = top
    for row in rows:
        body += row.draw(y)
        y += row.height
    bottom = y + 2
    marks = [(Scale(0, frame.seconds, LEFT, RIGHT)(tick), clock(tick)) for tick in time_ticks(frame.seconds)]
    body += axis(marks, LEFT, RIGHT, WIDTH, bottom)
    drawn = (*_bands(frame, top, bottom), *labels, *body)
    return picture(*drawn, name=name, title=title, description=description, width=WIDTH, height=bottom + 22)


def describe_faults(frame: Frame) -> list[str]:
    """The faults in words, one part of a description each."""
    return [
        f"{fault.name} of {', '.join(fault.resolved) or fault.target} from {clock(frame.at(fault.requested_ns))}"
        + (f" to {clock(frame.at(fault.healed_ns))}" if fault.healed_ns is not None else ", not healed")
        for fault in frame.faults
    ]


def row_name(words: str, source: str, top: float) -> list[Markup]:
    """The name of a row, and below it where its data come from."""
    return [
        element("text", words, x=LEFT - 8, y=top + 11, class_="row-name", text_anchor="end"),
        element("text", source, x=LEFT - 8, y=top + 22, class_="tick source", text_anchor="end"),
    ]


def _bands(frame: Frame, top: float, bottom: float) -> list[Markup]:
    bands = []
    for fault in frame.faults:
        start = frame.x(fault.requested_ns)
        end = frame.x(fault.healed_ns) if fault.healed_ns is not None else RIGHT
        style = kind_class(fault.kind)
        width, height = max(2.0, end - start), bottom - top
        bands.append(element("rect", x=start, y=top, width=width, height=height, class_=f"band {style}"))
        bands.append(
            element("rect", x=start, y=top, width=width, height=height, class_="pattern", fill=f"url(#{style})")
        )
        bands.append(element("path", d=f"M{start:.1f} {top:.1f}V{bottom:.1f}", class_=f"edge {style}"))
    return bands


def _label_lines(frame: Frame) -> tuple[list[Markup], int]:
    """The faults' names above their bands, on as many lines as keep them apart."""
    ends: list[float] = []
    labels = []
    for fault in frame.faults:
        start = frame.x(fault.requested_ns)
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


OTHER = "other"
_NEUTRAL = Appearance("#5a606b", "#a7adb7", Pattern.BACK_DIAGONALS)
_SHAPES: Mapping[Pattern, tuple[int, Mapping[str, str], Mapping[str, int | str]]] = {
    Pattern.CROSSES: (8, {}, {"d": "M0 0L8 8M8 0L0 8"}),
    Pattern.LINES: (8, {}, {"d": "M0 4H8"}),
    Pattern.DIAGONALS: (8, {"patternTransform": "rotate(45)"}, {"d": "M0 0V8"}),
    Pattern.BACK_DIAGONALS: (8, {"patternTransform": "rotate(-45)"}, {"d": "M0 0V8"}),
    Pattern.DOTS: (7, {}, {"cx": 2, "cy": 2, "r": 1}),
}
"""Per pattern the side of its tile, the tile's attributes, and those of the path or circle in it."""


@cache
def _styles() -> Mapping[str, Appearance]:
    return {**appearances(), OTHER: _NEUTRAL}


def kind_class(kind: str) -> str:
    """The CSS class, and the id of the pattern, of a fault kind."""
    return f"kind-{kind if kind in _styles() else OTHER}"


def style_sheet() -> Markup:
    """The classes of all kinds, for light and dark pages."""
    light = "".join(f"--fault-{kind}:{one.light};" for kind, one in _styles().items())
    dark = "".join(f"--fault-{kind}:{one.dark};" for kind, one in _styles().items())
    rules = "".join(
        f".kind-{kind}{{fill:var(--fault-{kind});stroke:var(--fault-{kind})}}"
        f"svg .fault-name.kind-{kind}{{fill:var(--fault-{kind})}}"
        for kind in _styles()
    )
    return Markup(f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}{rules}")


def patterns() -> Markup:
    """The SVG patterns of all kinds, to be defined once in the page."""
    drawn = []
    for kind, appearance in _styles().items():
        side, tile, shape = _SHAPES[appearance.pattern]
        style = f"kind-{kind}"
        is_dot = appearance.pattern == Pattern.DOTS
        inner = element("circle" if is_dot else "path", class_=f"{style} dot" if is_dot else style, **shape)
        drawn.append(
            element("pattern", inner, id=style, width=side, height=side, patternUnits="userSpaceOnUse", **tile)
        )
    return Markup("").join(drawn)
