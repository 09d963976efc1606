"""SVG as text, for the report's charts and for the pictures of scenarios.

Guarantee: text and attributes of any origin come out escaped and without characters that XML lacks; coordinates are
rounded to a tenth of a unit; equal input gives equal text.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

Number = float | int
_TIME_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)


def element(name: str, *children: Markup | str, **attributes: Number | str | None) -> Markup:
    """An element. `class_` becomes class, other underscores become hyphens; None leaves an attribute out."""
    parts = [
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(clean(trim(value)))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    inside = "".join(one if isinstance(one, Markup) else html.escape(clean(one), quote=False) for one in children)
    return Markup(f"<{name}{''.join(parts)}>{inside}</{name}>" if inside else f"<{name}{''.join(parts)} />")


def picture(*children: Markup, name: str, title: str, description: str, width: float, height: float) -> Markup:
    """A picture with its title and its description in words; `name` makes their ids unique in the page."""
    return element(
        "svg",
        element("title", title, id=name),
        element("desc", description, id=f"{name}-description"),
        *children,
        viewBox=f"0 0 {trim(width)} {round(height)}",
        role="img",
        aria_labelledby=f"{name} {name}-description",
    )


def trim(value: Number | str) -> str:
    """A number without digits that nobody can see."""
    return value if isinstance(value, str) else f"{round(value, 1):g}" if abs(value) < 1e5 else f"{value:.0f}"


def clean(words: str) -> str:
    """Words without the characters that XML lacks."""
    if words.isprintable():
        return words
    return "".join("�" if unicodedata.category(one) in ("Cc", "Cs", "Cn") and one != "\n" else one for one in words)


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` on pixels from `start` to `end`, linear or logarithmic, clamped to the ends."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high = self._turn(self.low), self._turn(self.high)
        share = (self._turn(value) - low) / ((high - low) or 1)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _turn(self, value: float) -> float:
        return math.log10(max(value, 1e-9)) if self.logarithmic else value


def round_up(value: float) -> float:
    """The next number that is 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)


def time_ticks(seconds: float, most: int = 10) -> list[float]:
    """Round moments from 0 on, in seconds."""
    step = next((step for step in _TIME_STEPS if seconds / step <= most), seconds / most)
    return [index * step for index in range(int(seconds / step) + 1)]


def even_ticks(low: int, high: int, most: int = 8) -> list[int]:
    """Round whole numbers between two, both included in the range."""
    step = max(1, int(round_up((high - low) / most)))
    first = -(-low // step) * step
    return list(range(first, high + 1, step))


def axis(marks: Sequence[tuple[float, str]], left: float, right: float, width: float, y: float) -> list[Markup]:
    """A line at `y` with a tick and a label at each mark; no label exceeds the picture's `width`."""
    drawn = []
    for place, words in marks:
        fits = place + 3.3 * len(words) <= width
        at, anchor = (place, "middle") if fits else (width, "end")
        drawn.append(element("path", d=f"M{place:.1f} {y:.1f}v4", class_="axis"))
        drawn.append(element("text", words, x=at, y=y + 16, class_="tick", text_anchor=anchor))
    drawn.append(element("path", d=f"M{trim(left)} {y:.1f}H{trim(right)}", class_="axis"))
    return drawn


def state(
    left: float, right: float, top: float, height: float, title: str, names: Iterable[str], class_: str
) -> list[Markup]:
    """A bar for what held from `left` to `right`, with the first of its `names` that fits inside."""
    width = max(1.0, right - left - 1)
    drawn = [element("rect", element("title", title), x=left, y=top, width=width, height=height, class_=class_)]
    fitting = [name for name in names if name and width > 6.3 * len(name) + 8]
    drawn += [element("text", name, x=left + 5, y=top + height / 2 + 5, class_="state-name") for name in fitting[:1]]
    return drawn


def clock(seconds: float) -> str:
    """A moment of a run: `12.5 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 120:
        return f"{round(seconds, 2 if seconds < 10 else 1):g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def duration(nanoseconds: float) -> str:
    """A latency or a gap, with a unit that fits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            value = nanoseconds / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{nanoseconds:.0f} ns"


def compact(value: float) -> str:
    """A count on an axis: `950`, `2.5k`, `1M`."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def area(points: Sequence[tuple[float, float]], floor: float) -> str:
    """Path data of the surface under a line."""
    if not points:
        return ""
    return f"M{trim(points[0][0])} {trim(floor)}L{_joined(points)}L{trim(points[-1][0])} {trim(floor)}Z"


def line(runs: Iterable[Sequence[tuple[float, float]]]) -> str:
    """Path data of a line that is broken between the runs; a lone point becomes a short stroke."""
    drawn = []
    for points in runs:
        if len(points) == 1:
            x, y = points[0]
            drawn.append(f"M{trim(x - 1)} {trim(y)}h2")
        elif points:
            drawn.append(f"M{_joined(points)}")
    return "".join(drawn)


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{trim(x)} {trim(y)}" for x, y in points)
