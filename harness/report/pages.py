"""Loads the templates of pages, escaping texts and refusing undefined names, and has the words that pages share."""

from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.harness.report.svg import Scale, compact, coordinate, duration, run_time, xml_text

LATE = 1.0  # pages say that a fault came late if it began more than this many seconds after its scheduled time
_LONGEST_NAME = 120
_PACKAGE, _FOLDER = "kafka_chaos.harness.report", "templates"


def label(name: str) -> str:
    """The name of an anomaly or of a key as a reader sees it."""
    return name.replace("_", " ")


def lateness(late: float | None) -> str:
    """The remark on a fault that came late: `2.3 s late`, or nothing."""
    return f"{late:.1f} s late" if late is not None and late > LATE else ""


def short(name: object) -> str:
    """A name that fits a line; the rest of a longer one is cut off."""
    text = str(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def join(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


@cache
def environment() -> Environment:
    """The Jinja environment of all pages that this project writes; it keeps compiled templates for later pages."""
    pages = Environment(
        loader=PackageLoader(_PACKAGE, _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters.update(label=label, counted=counted, run_time=run_time, short=short)
    return pages


@cache
def shapes(name: str) -> Any:
    """The macros of the template NAME.svg.j2, which draw parts of pictures. Each macro returns `Markup`.

    They print numbers with at most one decimal, and texts without the characters that XML forbids.
    """
    drawing = environment().overlay(finalize=_printed)
    drawing.globals.update(scale=Scale, compact=compact, duration=duration)
    return drawing.get_template(f"{name}.svg.j2").module


def _printed(value: object) -> object:
    if isinstance(value, float):
        return coordinate(value)
    return xml_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def static(name: str) -> str:
    """The text of a file in `templates/` that a page contains unchanged."""
    return resources.files(_PACKAGE).joinpath(_FOLDER, name).read_text(encoding="utf-8")
