"""Small numbers for large values, so that states made of them are hashed and compared in no time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)


class Numbers(Generic[Value]):
    """Equal values get equal numbers, from 0 on in the order of their first appearance."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def of(self, value: Value) -> int:
        """The number of a value; `values[number]` is the value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number
