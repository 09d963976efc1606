"""Says what is wrong with a value of an experiment, in plain words: what was expected, and what was found."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from kafka_chaos.contract.errors import quoted
from kafka_chaos.contract.refusals import expected

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
        known = ", ".join(_model_at(model, place[:-1]).model_fields)
        return place, f"renamed: expected {renamed}" if renamed else f"no such key; expected {known}"
    if kind == "missing":
        return place, "missing, but required"
    if kind == "value_error":
        problem = str(entry["ctx"]["error"])
        return place, problem if found in problem else f"{problem}, got {found}"
    return place, f"expected {expected(entry)}, got {found}"


def _model_at(model: type[BaseModel], place: tuple[str | int, ...]) -> type[BaseModel]:
    """The model that describes a place below `model`."""
    for step in place:
        if isinstance(step, str):
            model = _model_in(model.model_fields[step].annotation)
    return model


def _model_in(annotation: Any) -> type[BaseModel]:
    """The model in an annotation such as `tuple[LaneSpec, ...]` or `LockstepSpec | None`."""
    candidates = (annotation, *get_args(annotation))
    return next(one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel))
