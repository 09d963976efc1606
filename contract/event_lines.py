"""Reads a line of events.jsonl as one of the events of `events.py`: which fields it needs, and of which types, stands
there alone.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from kafka_chaos.contract.errors import quoted
from kafka_chaos.contract.events import Event, type_name
from kafka_chaos.contract.refusals import expected

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
    if exact:
        _require_known(line, kind, name)
    from pydantic import ValidationError

    reader, needed = _reader(name)
    given = json.dumps({key: value for key, value in line.items() if value is not None or key in needed})
    try:
        event: Event = reader.validate_json(given, strict=True)
    except ValidationError as error:
        (key, *inner), found = (entry := error.errors()[0])["loc"], entry["input"]
        if entry["type"] == "missing":
            raise ValueError(f"{name} without {key}") from None
        place = f"{key}{''.join(f'[{step}]' for step in inner)}"
        raise ValueError(f"{place} is {quoted(found)}, expected {expected(entry)}") from None
    return event


def _require_known(line: Mapping[str, Any], kind: type[Event], name: str) -> None:
    known = sorted(("type", *(field.name for field in fields(kind))))
    for key in sorted(line.keys() - set(known)):
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name} has no field {key!r} ({', '.join(known)}){hint}")


@cache
def _named() -> Mapping[str, type[Event]]:
    return {type_name(kind): kind for kind in ALL}


@cache
def _reader(name: str) -> tuple[Any, Collection[str]]:
    """What reads events of a type, and the fields that they have to have."""
    from pydantic import TypeAdapter

    kind = _named()[name]
    needed = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}
    return TypeAdapter(kind), needed
