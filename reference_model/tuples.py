"""Building blocks of states: tuples with one value replaced or left out, and bit sets."""

from collections.abc import Collection, Iterator
from typing import TypeVar

Value = TypeVar("Value")


def with_item(values: tuple[Value, ...], index: int, value: Value) -> tuple[Value, ...]:
    """The tuple with `value` in place of the one at `index`."""
    return (*values[:index], value, *values[index + 1 :])


def without(values: tuple[Value, ...], index: int) -> tuple[Value, ...]:
    """The tuple without the value at `index`."""
    return values[:index] + values[index + 1 :]


def excluding(values: tuple[Value, ...], removed: Collection[Value]) -> tuple[Value, ...]:
    """The tuple without these values."""
    return tuple(value for value in values if value not in removed)


def each_taken(values: tuple[Value, ...]) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    """Each different value, with the tuple without one occurrence of that value."""
    for index, value in enumerate(values):
        if value not in values[:index]:
            yield value, without(values, index)


def bits(mask: int) -> list[int]:
    """The positions of a mask's bits that are set."""
    return [position for position in range(mask.bit_length()) if mask >> position & 1]
