"""Keys of a lane, each declared once: a field of a dataclass with its meaning and its bounds.

The metadata of a field are those of a field of pydantic (`description`, `ge`, `le`), as far as pydantic has them: the
experiment's keys, the tables of the documentation and the options of `predict` are made of them. pydantic itself is not
imported here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from kafka_chaos.contract.command.errors import LaneError


def key(
    meaning: str,
    *,
    least: int = 1,
    most: int | None = None,
    choices: tuple[str | None, ...] = (),
    expected: str = "",
    **of_experiments: int,
) -> dict[str, Any]:
    """The metadata of a key: what it means, as part of a sentence, and which values any lane may have.

    `least`: of whole numbers, and how many characters of a text; `most`: of whole numbers. `expected` describes the
    values for people, where their type and `choices` do not. `of_experiments`: further bounds, `ge` and `le`, of lanes
    that the harness runs.
    """
    bounds = {"least": least, "most": most, "choices": choices}
    return {"description": meaning, "expected": expected, **bounds, **of_experiments}


def check(settings: Any, at: str = "") -> None:
    """Raise `LaneError` if a key of settings has a value of another type, or one out of its bounds and choices.

    `at`: the key of the lane that has the settings, with a dot.
    """
    for one in fields(settings):
        value, kind = getattr(settings, one.name), str(one.type)
        if not one.metadata or (value is None and kind.endswith(" | None")):
            continue
        holds, expected = _checked(value, kind.removesuffix(" | None"), one.metadata)
        if not holds:
            raise LaneError(at + one.name, value, one.metadata["expected"] or expected)


def _checked(value: Any, kind: str, key: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether a value is one of this type and key, and what was expected."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key["choices"]:
        return value in key["choices"], f"one of {', '.join(map(str, key['choices']))}"
    if kind == "int":
        least, most = key["least"], key["most"]
        holds = isinstance(value, int) and is_number and value >= least and (most is None or value <= most)
        return (
            holds,
            f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}",
        )
    if kind == "float":
        return is_number and 0 <= value <= 1, "a share from 0 to 1"
    if kind == "bool":
        return isinstance(value, bool), "true or false"
    return kind != "str" or (isinstance(value, str) and len(value) >= key["least"]), "a non-empty name"


def entries(settings: type[Any], entry: object, at: str = "") -> dict[str, Any]:
    """The keys and values of an entry of JSON for these settings; what is no mapping, or no key, raises `LaneError`."""
    names = ", ".join(one.name for one in fields(settings))
    if not isinstance(entry, Mapping):
        raise LaneError(at, entry, f"a mapping of {names}")
    for name in entry:
        if name not in names.split(", "):
            raise LaneError(f"{at}.{name}".lstrip("."), entry[name], f"no such key; the keys are {names}")
    return dict(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that a lane has under the key `KEY`."""

    KEY: ClassVar[str]

    @classmethod
    def from_json(cls, entry: object) -> Self:
        """The settings from an entry of `lanes.json`; unknown keys raise `LaneError`, too."""
        return cls(**entries(cls, entry, cls.KEY))

    def to_json(self) -> dict[str, Any]:
        """The form of `lanes.json`."""
        return asdict(self)
