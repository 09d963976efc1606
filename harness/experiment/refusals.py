"""Says what is wrong with a value of an experiment, in plain words: what was expected, and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from kafka_chaos.contract.errors import LaneError, quoted
from kafka_chaos.contract.refusals import expected
from kafka_chaos.harness.experiment.values import keys_of, settings_in

RENAMED_KEYS = {"course": "steps", "lockstep": "steps"}
"""Keys of former versions, and their new names."""


Place = tuple[str | int, ...]


def refusals(error: ValidationError, model: type[BaseModel]) -> list[tuple[Place, str]]:
    """The places below `model` that are wrong, each with a message that says what was expected there.

    If an entry of a list is wrong, pydantic also calls the list too short. So of nested places only the innermost is
    named.
    """
    entries = error.errors(include_url=False)
    outer = {entry["loc"][:length] for entry in entries for length in range(len(entry["loc"]))}
    return [_refusal(entry, model) for entry in entries if entry["loc"] not in outer]


def _refusal(entry: Any, model: type[BaseModel]) -> tuple[Place, str]:
    place = tuple(entry["loc"])
    kind, found = entry["type"], quoted(entry["input"])
    if kind == "extra_forbidden":
        renamed = RENAMED_KEYS.get(str(place[-1]))
        known = ", ".join(_keys_at(model, place[:-1]))
        return place, f"renamed: expected {renamed}" if renamed else f"no such key; expected {known}"
    if kind == "missing":
        return place, "missing, but required"
    if kind == "value_error":
        error = entry["ctx"]["error"]
        if isinstance(error, LaneError):  # Its key begins with the one whose settings refuse their values.
            return (*place[:-1], *error.key.split(".")), f"{error.shown}: expected {error.expected}"
        problem = str(error)
        return place, problem if found in problem else f"{problem}, got {found}"
    return place, f"expected {expected(entry)}, got {found}"


def _keys_at(model: type[BaseModel], place: Place) -> Iterable[str]:
    """The keys that a mapping may have at a place below `model`."""
    settings: type[Any] = model
    for step in place:
        if isinstance(step, str):
            settings = settings_in(keys_of(settings)[step].annotation) or settings
    return keys_of(settings)
