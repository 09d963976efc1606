"""Building blocks of states: tuples with one value exchanged or left out, and bit sets."""

from collections.abc import Collection, Iterator
from typing import TypeVar

Value = TypeVar("Value")


def exchanged(values: tuple[Value, ...], at: int, value: Value) -> tuple[Value, ...]:
    """The tuple with one value exchanged."""
    return (*values[:at], value, *values[at + 1 :])


def without(values: tuple[Value, ...], at: int) -> tuple[Value, ...]:
    """The tuple with one value left out."""
    return values[:at] + values[at + 1 :]


def excluding(values: tuple[Value, ...], removed: Collection[Value]) -> tuple[Value, ...]:
    """The tuple without these values."""
    return tuple(value for value in values if value not in removed)


def each_taken(values: tuple[Value, ...]) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    """Each different value, with the tuple without one occurrence of that value."""
    for at, value in enumerate(values):
        if value not in values[:at]:
            yield value, without(values, at)


def bits(mask: int) -> list[int]:
    """The positions of the bits that are set."""
    return [position for position in range(mask.bit_length()) if mask >> position & 1]
