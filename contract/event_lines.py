"""Reads lines of events.jsonl as the events of `events.py`, whose classes declare the fields and their types."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.command.refusals import expected_in_words
from kafka_chaos.contract.events import Event, type_name

KINDS = tuple(Event.__subclasses__())
_BY_NAME = {type_name(kind): kind for kind in KINDS}


def event_of(line: Mapping[str, Any], kinds: Collection[type[Event]] = KINDS, *, exact: bool = False) -> Event | None:
    """The event on a line; None if its type is not one of `kinds`. A null field counts as absent unless it is required.

    Raises `ValueError` for a line without a type or a time, and for an event with a missing or ill-typed field. An
    unknown field is ignored; with `exact`, it raises `ValueError`, too.
    """
    name, time = line.get("type"), line.get("ts_ns")
    if not isinstance(name, str):
        raise ValueError("expected a type")
    if not isinstance(time, int) or isinstance(time, bool):
        raise ValueError(f"ts_ns is {quoted(time)}, expected whole nanoseconds")
    kind = _BY_NAME.get(name)
    if kind is None or kind not in kinds:
        return None
    from pydantic import ValidationError
    from pydantic_core import to_json

    reader, declared, required = _reader(name)
    if exact and not line.keys() <= declared:
        raise ValueError(_unknown_field(name, min(line.keys() - declared), declared))
    # Back to JSON text: given Python objects, pydantic's strict mode takes only instances of the event's class.
    without_nulls = to_json({key: value for key, value in line.items() if value is not None or key in required})
    try:
        event: Event = reader.validate_json(without_nulls, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key, *indexes = first["loc"]
        if first["type"] == "missing":
            raise ValueError(f"{name} without {key}") from None
        place = f"{key}{''.join(f'[{index}]' for index in indexes)}"
        raise ValueError(f"{place} is {quoted(first['input'])}, expected {expected_in_words(first)}") from None
    return event


def _unknown_field(name: str, key: str, declared: Collection[str]) -> str:
    close = difflib.get_close_matches(key, sorted(declared), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{name} has no field {key!r} ({', '.join(sorted(declared))}){hint}"


@cache
def _reader(name: str) -> tuple[Any, frozenset[str], frozenset[str]]:
    """The reader of the events of a type, with the names of all its fields and of the required ones."""
    from pydantic import TypeAdapter

    kind = _BY_NAME[name]
    required = (field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING)
    return TypeAdapter(kind), frozenset(("type", *(field.name for field in fields(kind)))), frozenset(required)
