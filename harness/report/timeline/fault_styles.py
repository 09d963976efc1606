"""How faults look in the report: a style sheet and SVG patterns from the appearance that each installed kind declares.

Guarantee: a kind that is not installed where the report is written has the neutral style, never none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from markupsafe import Markup

from kafka_chaos.faults.fault import Appearance, Pattern
from kafka_chaos.faults.registry import appearances
from kafka_chaos.harness.report.svg import element

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
