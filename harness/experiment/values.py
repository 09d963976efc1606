"""Shared by all keys of an experiment: types of values, the base class of mappings, and messages of refusals."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetPydanticSchema, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from kafka_chaos.contract.command.errors import LaneError, quoted
from kafka_chaos.contract.command.refusals import expected_in_words

Seconds = Annotated[float, Field(ge=0, le=1_000_000, strict=False, allow_inf_nan=False)]  # also a text: "5"
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")
RENAMED_KEYS = {"course": "steps", "lockstep": "steps"}  # former keys, and their new names
Place = tuple[str | int, ...]
"""The keys and indices that lead to a value in an experiment, such as `("phases", 0, "lanes")`."""


def checked_span(span: tuple[float, float]) -> tuple[float, float]:
    """Returns the span; raises `ValueError` if its shortest time is longer than its longest."""
    shortest, longest = span
    if shortest > longest:
        raise ValueError(f"the shortest, {shortest:g} s, is longer than the longest, {longest:g} s")
    return span


TimeSpan = Annotated[tuple[Seconds, Seconds], AfterValidator(checked_span)]
"""The shortest and the longest time, in seconds, that may be drawn."""


def _checked_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("expected letters, digits, '.', '_' and '-' (a Kafka topic name)")
    return value


Name = Annotated[str, AfterValidator(_checked_name)]


def _checked_lane_name(value: str) -> str:
    # Unlike a topic's name, it may have colons: ids of groups and clients, which begin with it, may have them, too.
    _checked_name(value.replace(":", "-"))
    return value


LaneName = Annotated[str, AfterValidator(_checked_lane_name)]


class Spec(BaseModel):
    """The base class of an experiment's mappings. It refuses unknown keys, and a text for any number but `Seconds`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, without what a `cached_property` has computed from the former values."""
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy


def keys_of(settings: type[Any]) -> dict[str, FieldInfo]:
    """The keys of a `Spec` or of a dataclass of `contract/`, by name, with their types, bounds and meanings."""
    if issubclass(settings, BaseModel):
        return settings.model_fields
    types = get_type_hints(settings)
    return {
        setting.name: FieldInfo.from_annotated_attribute(types[setting.name], setting)
        for setting in dataclasses.fields(settings)
    }


def settings_in(annotation: Any) -> type[Any] | None:
    """The `Spec` or dataclass in an annotation, such as `LaneSpec` in `tuple[LaneSpec, ...]`; None if it has none."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        return annotation
    return next(filter(None, map(settings_in, get_args(annotation))), None)


def declared(settings: type[Any], key: str, **overrides: Any) -> Any:
    """The field of a `Spec` for a `key` that a dataclass of `contract/` has; `overrides` replace default and bounds."""
    setting = settings.__dataclass_fields__[key]
    metadata = {name: setting.metadata[name] for name in ("description", "ge", "le") if name in setting.metadata}
    default = {} if setting.default is dataclasses.MISSING else {"default": setting.default}
    return Field(**{**default, **metadata, **overrides})


def read_as(settings: type[Any]) -> GetPydanticSchema:
    """The annotation that makes pydantic read a mapping as `settings`, a dataclass of `contract/`.

    A `Spec` made here with the same fields refuses unknown keys and wrong types; then the dataclass checks the values.
    """

    def schema(_: Any, handler: Any) -> core_schema.CoreSchema:
        fields: dict[str, Any] = {}
        for name, key in keys_of(settings).items():
            inner = settings_in(key.annotation)
            fields[name] = (key.annotation if inner is None else Annotated[key.annotation, read_as(inner)], key)
        spec = create_model(settings.__name__, __base__=Spec, **fields)
        return core_schema.no_info_after_validator_function(
            lambda read: settings(**{name: getattr(read, name) for name in fields}),
            handler(spec),
            serialization=core_schema.plain_serializer_function_ser_schema(dataclasses.asdict),
        )

    return GetPydanticSchema(schema)


def refusals(error: ValidationError, model: type[BaseModel]) -> list[tuple[Place, str]]:
    """The places with wrong values in a `model`, each with a message that says what was expected there.

    If an entry of a list is wrong, pydantic also says that the list is too short. So only innermost places are named.
    """
    all_details = error.errors(include_url=False)
    outer_places = {details["loc"][:length] for details in all_details for length in range(len(details["loc"]))}
    return [_refusal(details, model) for details in all_details if details["loc"] not in outer_places]


def _refusal(details: Any, model: type[BaseModel]) -> tuple[Place, str]:
    place = tuple(details["loc"])
    kind, got = details["type"], quoted(details["input"])
    if kind == "extra_forbidden":
        renamed = RENAMED_KEYS.get(str(place[-1]))
        settings: type[Any] = model
        for step in place[:-1]:
            if isinstance(step, str):
                settings = settings_in(keys_of(settings)[step].annotation) or settings
        keys = ", ".join(keys_of(settings))
        return place, f"renamed: expected {renamed}" if renamed else f"no such key; expected {keys}"
    if kind == "missing":
        return place, "missing, but required"
    if kind == "value_error":
        error = details["ctx"]["error"]
        if isinstance(error, LaneError):  # The error's key begins with the last step of the place.
            return (*place[:-1], *error.key.split(".")), f"{error.shown}: expected {error.expected}"
        problem = str(error)
        return place, problem if got in problem else f"{problem}, got {got}"
    return place, f"expected {expected_in_words(details)}, got {got}"
