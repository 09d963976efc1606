"""An SVG file that grows downwards: coloured by its own style sheet for light and dark, equal drawings kept once.

Guarantee: whatever is drawn is well-formed; equal input gives equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from markupsafe import Markup

from kafka_chaos.harness.report.svg import element, trim

EPOCH_COLOURS = (
    ("#cfe2f7", "#23496f"),
    ("#fbdcb4", "#6b4310"),
    ("#cdebd0", "#1f5530"),
    ("#e6d5f5", "#4f3474"),
    ("#f8cfd6", "#702a3a"),
    ("#f3ecb0", "#57500f"),
    ("#c8ecec", "#175557"),
    ("#dcdcdc", "#484b50"),
)
"""Backgrounds of records by leader epoch, in light and in dark."""
_STYLE = """
svg{--paper:#fff;--ink:#1b1d21;--soft:#5a606b;--rule:#d5d7db;--off:#f0f0ee;--bad:#b3261e;--lead:#8a5a00;%(light)s}
@media(prefers-color-scheme:dark){svg{--paper:#15171a;--ink:#eceded;--soft:#a7adb7;--rule:#3a3f46;--off:#24282d;
--bad:#ff8a80;--lead:#e8b45a;%(dark)s}}
text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;fill:var(--ink)}
.heading{font-size:14px;font-weight:600}.soft{fill:var(--soft);font-size:11px}.small{font-size:11px}
.tiny{font-size:10px;fill:var(--soft)}.name{text-anchor:middle;font-size:11px}.epoch{font-size:8px}
.paper{fill:var(--paper)}.follower{fill:none;stroke:var(--rule)}.leader{fill:none;stroke:var(--lead);stroke-width:2}
.down{fill:var(--off);stroke:var(--rule);stroke-dasharray:3 3}.differs{fill:none;stroke:var(--bad);stroke-width:2.5}
.crown{fill:var(--lead)}.gone{fill:none;stroke:var(--bad);stroke-dasharray:2 2}
.struck{stroke:var(--bad);stroke-width:1.4}
.line{stroke:var(--ink);stroke-width:2}.flag{fill:var(--ink)}.faded{opacity:.6}%(epochs)s
"""


class Canvas:
    """A picture in the making; coordinates in pixels from its upper left corner."""

    def __init__(self, title: str, description: str) -> None:
        self._title = title
        self._description = description
        self._drawn: list[Markup] = []
        self._shared: list[Markup] = []
        self._ids: dict[Hashable, str] = {}

    def text(self, x: float, y: float, words: str, style: str) -> None:
        """A line of text with its base line at `y`."""
        self._drawn.append(text(x, y, words, style))

    def place(self, key: Hashable, make: Callable[[], Iterable[Markup]], x: float, y: float) -> None:
        """A drawing with its corner at a point."""
        self._drawn.append(self.use(key, make, x, y))

    def use(
        self, key: Hashable, make: Callable[[], Iterable[Markup]], x: float, y: float, *, style: str | None = None
    ) -> Markup:
        """A reference to a drawing, which is made where its key is new."""
        if key not in self._ids:
            parts = Markup("").join(make())
            self._ids[key] = f"d{len(self._ids)}"
            self._shared.append(element("g", parts, class_=style, id=self._ids[key]))
        return element("use", href=f"#{self._ids[key]}", x=x, y=y)

    def finish(self, width: float, height: float) -> str:
        """The file's text, in this size."""
        size = {"width": width, "height": height}
        svg = element(
            "svg",
            element("title", self._title, id="title"),
            element("desc", self._description, id="desc"),
            element("style", _style()),
            element("defs", *self._shared),
            element("rect", class_="paper", rx=6, **size),
            *self._drawn,
            xmlns="http://www.w3.org/2000/svg",
            role="img",
            aria_labelledby="title desc",
            **size,
            viewBox=f"0 0 {trim(width)} {trim(height)}",
        )
        return f"{svg}\n"


def text(x: float, y: float, words: str, style: str) -> Markup:
    """A line of text."""
    return element("text", words, class_=style, x=x, y=y)


def path(style: str, data: str) -> Markup:
    """A path."""
    return element("path", class_=style, d=data)


def box(style: str, x: float, y: float, width: float, height: float) -> Markup:
    """A rounded rectangle."""
    return element("rect", class_=style, x=x, y=y, width=width, height=height, rx=3)


def _style() -> Markup:
    numbers = range(len(EPOCH_COLOURS))
    light, dark = (";".join(f"--e{n}:{EPOCH_COLOURS[n][side]}" for n in numbers) for side in (0, 1))
    epochs = "".join(f".e{n}{{fill:var(--e{n})}}" for n in numbers)
    return Markup(_STYLE % {"light": light, "dark": dark, "epochs": epochs})
