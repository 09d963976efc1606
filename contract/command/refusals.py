"""Plain words for the value that pydantic expected where it refused another. Does not import pydantic."""

from collections.abc import Mapping
from typing import Any

_TYPES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "string": "text",
    "dict": "a mapping",
    "model": "a mapping of keys",
    "tuple": "a list",
    "list": "a list",
}
"""The expected value in words, by the first word of pydantic's error type."""


def expected_in_words(error: Mapping[str, Any]) -> str:
    """The value that pydantic expected where it reports this error, in words such as `a whole number`."""
    kind, bounds = error["type"], error.get("ctx", {})
    if kind == "greater_than_equal":
        return f"at least {_plain(bounds['ge'])}"
    if kind == "greater_than":
        return f"more than {_plain(bounds['gt'])}"
    if kind == "less_than":
        return f"less than {_plain(bounds['lt'])}"
    if kind == "less_than_equal":
        return f"at most {_plain(bounds['le'])}"
    if kind in ("too_short", "too_long"):
        number = bounds.get("min_length" if kind == "too_short" else "max_length", 1)
        limit = "at least" if kind == "too_short" else "at most"
        return f"{limit} {number} {'entry' if number == 1 else 'entries'}"
    if kind == "literal_error":
        return str(bounds["expected"])
    if kind == "invalid_key":
        return "keys that are text"
    return _TYPES.get(kind.partition("_")[0], "another value")


def _plain(bound: float) -> str:
    return f"{int(bound):,}" if bound == int(bound) else str(bound)
