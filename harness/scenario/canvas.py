"""An SVG file in the making: coloured by its own style sheet for light and dark, and equal drawings kept once.

Guarantee: whatever is drawn is well-formed; equal input gives equal text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

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
"""Grounds of records by leader epoch, in light and in dark."""
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
    """A picture that grows downwards; coordinates in pixels from its upper left corner."""

    def __init__(self, title: str, description: str) -> None:
        named = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-labelledby": "title desc"}
        self._svg = Element("svg", named)
        SubElement(self._svg, "title", id="title").text = clean(title)
        SubElement(self._svg, "desc", id="desc").text = clean(description)
        SubElement(self._svg, "style").text = _style()
        self._shared = SubElement(self._svg, "defs")
        self._ground = SubElement(self._svg, "rect", {"class": "paper", "rx": "6"})
        self._ids: dict[Hashable, str] = {}

    def text(self, x: float, y: float, words: str, style: str) -> None:
        """A line of text, of which `y` is the base line."""
        add_text(self._svg, x, y, words, style)

    def place(self, key: Hashable, make: Callable[[], Element], x: float, y: float) -> None:
        """A drawing with its corner at a point; one that was placed under this key before is only referred to."""
        place_into(self._svg, self.share(key, make), x, y)

    def share(self, key: Hashable, make: Callable[[], Element]) -> str:
        """Keep a drawing for use at several places, made when its key is new; returns its id."""
        if key not in self._ids:
            drawing = make()
            self._ids[key] = f"d{len(self._ids)}"
            drawing.set("id", self._ids[key])
            self._shared.append(drawing)
        return self._ids[key]

    def finish(self, width: float, height: float) -> str:
        """The picture's text, in this size."""
        size = {"width": number(width), "height": number(height)}
        self._ground.attrib.update(size)
        self._svg.attrib.update({**size, "viewBox": f"0 0 {size['width']} {size['height']}"})
        return ElementTree.tostring(self._svg, encoding="unicode") + "\n"


def place_into(parent: Element, drawing_id: str, x: float, y: float) -> None:
    """Refer to a shared drawing."""
    SubElement(parent, "use", {"href": f"#{drawing_id}", "x": number(x), "y": number(y)})


def add_text(parent: Element, x: float, y: float, words: str, style: str) -> Element:
    """A text element under `parent`."""
    element = SubElement(parent, "text", {"class": style, "x": number(x), "y": number(y)})
    element.text = clean(words)
    return element


def add_path(parent: Element, style: str, data: str) -> None:
    """A path under `parent`."""
    SubElement(parent, "path", {"class": style, "d": data})


def add_box(parent: Element, style: str, x: float, y: float, width: float, height: float) -> None:
    """A rounded rectangle under `parent`."""
    place = {"x": number(x), "y": number(y), "width": number(width), "height": number(height)}
    SubElement(parent, "rect", {"class": style, **place, "rx": "3"})


def number(value: float) -> str:
    """A coordinate without digits that nobody can see."""
    return f"{round(value, 1):g}"


def clean(words: str) -> str:
    """Words without the characters that XML does not have."""
    return "".join("�" if unicodedata.category(one) in ("Cc", "Cs", "Cn") and one != "\n" else one for one in words)


def _style() -> str:
    numbers = range(len(EPOCH_COLOURS))
    light, dark = (";".join(f"--e{n}:{EPOCH_COLOURS[n][side]}" for n in numbers) for side in (0, 1))
    epochs = "".join(f".e{n}{{fill:var(--e{n})}}" for n in numbers)
    return _STYLE % {"light": light, "dark": dark, "epochs": epochs}
