"""Keys of a lane, each declared once: a field of a dataclass with its meaning and its bounds.

The experiment's keys, the tables of the documentation and the options of `predict` are made from the metadata of these
fields. The metadata uses pydantic's names (`description`, `ge`, `le`), but this module does not import pydantic.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from kafka_chaos.contract.command.errors import LaneError

T = TypeVar("T")


def key(
    meaning: str,
    *,
    least: int = 1,
    most: int | None = None,
    choices: tuple[str | None, ...] = (),
    expected: str = "",
    **experiment_bounds: int,
) -> dict[str, Any]:
    """The metadata of a key: its meaning, as part of a sentence, and the values that any lane may have.

    `least` and `most` bound whole numbers; of a text, `least` is the smallest number of characters. `expected`
    describes valid values for people, where their type and `choices` do not. `experiment_bounds`, `ge` and
    `le`, hold only for lanes that the harness runs.
    """
    bounds = {"least": least, "most": most, "choices": choices}
    return {"description": meaning, "expected": expected, **bounds, **experiment_bounds}


def setting(default: T, meaning: str, **bounds: Any) -> T:
    """A field for a key with a default; `meaning` and `bounds` are arguments of `key`."""
    declared: T = field(default=default, metadata=key(meaning, **bounds))
    return declared


def check(settings: Any, prefix: str = "") -> None:
    """Raise `LaneError` if a key of settings has a value of a wrong type, or a value outside of its bounds or choices.

    `prefix`: the lane's key for these settings, with a dot.
    """
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        # Field types are strings, since every module with settings has `from __future__ import annotations`.
        if value is None and str(setting.type).endswith(" | None"):
            continue
        is_valid, expected = _validity(value, setting)
        if not is_valid:
            raise LaneError(prefix + setting.name, value, setting.metadata["expected"] or expected)


def _validity(value: Any, setting: Field[Any]) -> tuple[bool, str]:
    """Whether a setting may have a value, and its valid values in words. Other types (tuples, settings) always pass."""
    kind, metadata = str(setting.type).removesuffix(" | None"), setting.metadata
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if metadata["choices"]:
        return value in metadata["choices"], f"one of {', '.join(map(str, metadata['choices']))}"
    if kind == "int":
        least, most = metadata["least"], metadata["most"]
        is_valid = isinstance(value, int) and is_number and value >= least and (most is None or value <= most)
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        return is_valid, f"a whole number {bounds}"
    if kind == "float":
        return is_number and 0 <= value <= 1, "a fraction from 0 to 1"
    if kind == "bool":
        return isinstance(value, bool), "true or false"
    return kind != "str" or (isinstance(value, str) and len(value) >= metadata["least"]), "a non-empty name"


def checked_object(settings: type[Any], entry: object, lane_key: str = "") -> dict[str, Any]:
    """The keys and values of a JSON object, which must be keys of these settings. `lane_key`: the lane's key for them.

    Raises `LaneError` for anything but an object, for an unknown key, and if a key without a default is missing.
    """
    declared = {setting.name: setting for setting in fields(settings)}
    names = ", ".join(declared)
    if not isinstance(entry, Mapping):
        raise LaneError(lane_key, entry, f"a mapping of {names}")
    for name in entry:
        if name not in declared:
            raise LaneError(f"{lane_key}.{name}".lstrip("."), entry[name], f"one of the keys {names}")
    for name, setting in declared.items():
        if name not in entry and setting.default is MISSING and setting.default_factory is MISSING:
            expected = setting.metadata["expected"] or _validity(None, setting)[1]
            raise LaneError(f"{lane_key}.{name}".lstrip("."), None, expected)
    return dict(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that a lane has under the key `KEY`."""

    KEY: ClassVar[str]

    def __post_init__(self) -> None:
        check(self, f"{self.KEY}.")

    @classmethod
    def from_json(cls, entry: object) -> Self:
        """The settings from an entry of `lanes.json`; unknown keys raise `LaneError`, too."""
        return cls(**checked_object(cls, entry, cls.KEY))

    def to_json(self) -> dict[str, Any]:
        """These settings as `lanes.json` has them."""
        return asdict(self)
