"""Small pieces of Markdown, in which text of any origin stays text."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from kafka_chaos.conformance.scenario.telling.console import table_rows, text_lines

_MOST_ROWS = 40
_MOST_LINES = 60
_LONGEST_INLINE = 400
_MARKED = re.compile(r"(`+[^`]+`+)|([\\*<|]|(?<![^\W_])_+|_+(?![^\W_]))")


def prose(text: str) -> str:
    """A sentence without any markup, except code in backticks."""
    return _MARKED.sub(lambda found: found[1] or "".join(f"\\{sign}" for sign in found[2]), " ".join(text.split()))


def code(value: Any) -> str:
    """A value as code in a line: text as it is, anything else as JSON."""
    text = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    if len(text) > _LONGEST_INLINE:
        text = text[:_LONGEST_INLINE] + "…"
    fence = _fence(text, least=1)
    space = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{space}{text}{space}{fence}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table whose cells are Markdown."""
    # A `|` that is not escaped ends the cell, even in code.
    cells = ([re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in (headings, ["---"] * len(headings), *rows))
    return [f"| {' | '.join(row)} |" for row in cells]


def fact(name: str, value: Any) -> list[str]:
    """Something measured or quoted: rows as a table, several lines as a block, anything else as one line."""
    rows = table_rows(value)
    if rows is not None:
        cells = [[code(cell) for cell in row.values()] for row in rows[:_MOST_ROWS]]
        more = [f"… and {len(rows) - _MOST_ROWS} more rows", ""] if len(rows) > _MOST_ROWS else []
        return ["", f"{prose(name)}:", "", *table([prose(heading) for heading in rows[0]], cells), "", *more]
    lines = text_lines(value)
    if lines is not None:
        return _block(name, lines, "text")
    if not isinstance(value, str) and len(json.dumps(value, ensure_ascii=False)) > _LONGEST_INLINE:
        return _block(name, json.dumps(value, ensure_ascii=False, indent=1).splitlines(), "json")
    return [f"- {prose(name)}: {code(value)}"]


def _block(name: str, lines: Sequence[str], language: str) -> list[str]:
    more = [f"… and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    shown = [*lines[:_MOST_LINES], *more]
    fence = _fence("\n".join(shown), least=3)
    return ["", f"{prose(name)}:", "", f"{fence}{language}", *shown, fence, ""]


def _fence(text: str, *, least: int) -> str:
    """More backticks than the text has in a row."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))
