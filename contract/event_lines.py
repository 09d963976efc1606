"""Reads a line of events.jsonl as one of the events of `events.py`: which fields it needs, and of which types, stands
there alone.
"""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.command.refusals import expected
from kafka_chaos.contract.events import Event, type_name

ALL = tuple(Event.__subclasses__())


def event_of(line: Mapping[str, Any], kinds: Collection[type[Event]] = ALL, *, exact: bool = False) -> Event | None:
    """The event on a line; None where it is of none of these kinds. A null counts as left out, but for a field that the
    event has to have.

    Raises `ValueError` for a line without a type and a time, and for an event with a missing or ill-typed field.
    `exact`: also for a field that its kind does not have; otherwise it is passed over.
    """
    name, stamp = line.get("type"), line.get("ts_ns")
    if not isinstance(name, str):
        raise ValueError("expected a type")
    if not isinstance(stamp, int) or isinstance(stamp, bool):
        raise ValueError(f"ts_ns is {quoted(stamp)}, expected whole nanoseconds")
    kind = _named().get(name)
    if kind is None or kind not in kinds:
        return None
    from pydantic import ValidationError
    from pydantic_core import to_json

    reader, known, needed = _reader(name)
    if exact and not line.keys() <= known:
        raise ValueError(_unknown(min(line.keys() - known), known, name))
    given = to_json({key: value for key, value in line.items() if value is not None or key in needed})
    try:
        event: Event = reader.validate_json(given, strict=True)
    except ValidationError as error:
        (key, *inner), found = (entry := error.errors()[0])["loc"], entry["input"]
        if entry["type"] == "missing":
            raise ValueError(f"{name} without {key}") from None
        place = f"{key}{''.join(f'[{step}]' for step in inner)}"
        raise ValueError(f"{place} is {quoted(found)}, expected {expected(entry)}") from None
    return event


def _unknown(key: str, known: Collection[str], name: str) -> str:
    close = difflib.get_close_matches(key, sorted(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{name} has no field {key!r} ({', '.join(sorted(known))}){hint}"


@cache
def _named() -> Mapping[str, type[Event]]:
    return {type_name(kind): kind for kind in ALL}


@cache
def _reader(name: str) -> tuple[Any, frozenset[str], frozenset[str]]:
    """The reader of a type of events, with its optional and its required fields."""
    from pydantic import TypeAdapter

    kind = _named()[name]
    needed = (field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING)
    return TypeAdapter(kind), frozenset(("type", *(field.name for field in fields(kind)))), frozenset(needed)
