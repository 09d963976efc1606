"""Computes the coordinates and the texts of the report's pictures; their shapes are in `templates/*.svg.j2`.

Guarantee: no text has characters that XML forbids; coordinates are rounded to a tenth of a pixel; equal input gives
equal text.
"""

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_TICK_GAPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)


def coordinate(value: float) -> str:
    """A coordinate with at most one decimal; from 100,000 on with none, since `g` shows six digits at most."""
    return f"{round(value, 1):g}" if abs(value) < 1e5 else f"{value:.0f}"


def xml_text(text: str) -> str:
    """The text with `�` for control characters except line breaks, and for all other characters that XML forbids."""
    if text.isprintable():
        return text
    refused = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs", "Cn") and letter != "\n"}
    return "".join("�" if letter in refused else letter for letter in text)


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` to pixels from `start` to `end`; values beyond are at the nearer end."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high = self._on_axis(self.low), self._on_axis(self.high)
        share = (self._on_axis(value) - low) / ((high - low) or 1)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def _on_axis(self, value: float) -> float:
        return math.log10(max(value, 1e-9)) if self.logarithmic else value


def round_up(value: float) -> float:
    """`value` rounded up to 1, 2, 2.5 or 5 times a power of ten. An excess of up to a millionth counts as rounding."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999999)


def time_ticks(seconds: float) -> list[float]:
    """At most eleven round times for an axis from 0 to `seconds`."""
    step = next((step for step in _TICK_GAPS_S if seconds / step <= 10), seconds / 10)
    return [index * step for index in range(int(seconds / step) + 1)]


def count_ticks(high: int) -> list[int]:
    """About eight round whole numbers for an axis from 0 to `high`."""
    return list(range(0, high + 1, max(1, int(round_up(high / 8)))))


def lines_apart(spans: Iterable[tuple[float, float]], most: float = math.inf) -> list[int | None]:
    """For each (left, right) span of a text, the first line on which it overlaps no earlier span; None if it overlaps
    one on each of `most` lines. The spans come in the order of their left ends."""
    ends: list[float] = []
    lines: list[int | None] = []
    for left, right in spans:
        line = next((index for index, end in enumerate(ends) if end <= left), len(ends))
        if line < most:
            ends[line : line + 1] = [right]  # appended, if the line is new
        lines.append(line if line < most else None)
    return lines


def run_time(seconds: float) -> str:
    """The time since a run began, or how long the run took: `12.5 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 120:
        return f"{round(seconds, 2 if seconds < 10 else 1):g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def duration(nanoseconds: float) -> str:
    """Nanoseconds in the largest unit that they reach: `1.5 ms`, `150 µs`."""
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
