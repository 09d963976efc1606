"""What a message is made of: fields with their types and versions, as data that codec.py walks.

The vocabulary is that of Kafka's own message definitions (KIP-482 for flexible versions and tagged fields).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class Scalar(StrEnum):
    """A type of one value; integers are signed and big-endian."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    STRING = "string"
    UUID = "uuid"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
"""The default of a field that has none."""


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields one after the other."""

    fields: tuple[Field, ...]

    def fields_of(self, version: int) -> Iterator[Field]:
        """The fields that a version has, in their order."""
        return (entry for entry in self.fields if entry.first <= version <= entry.last)


@dataclass(frozen=True, slots=True)
class Array:
    """Any number of elements; null is none of these messages' arrays."""

    element: Scalar | Struct


Type: TypeAlias = Scalar | Array | Struct
NEWEST = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the versions from `first` to `last`; a tagged one (`tag`) is sent only where it isn't `default`."""

    name: str
    type: Type
    first: int = 0
    last: int = NEWEST
    default: object = field(default=REQUIRED)
    nullable: bool = False
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a response: versions from 0 to `newest`, flexible ones from `flexible` on."""

    name: str
    newest: int
    flexible: int
    body: Struct

    def is_flexible(self, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields (KIP-482)."""
        return version >= self.flexible


@dataclass(frozen=True, slots=True)
class Api:
    """A request and its response under their key."""

    key: int
    name: str
    request: Message
    response: Message

    @property
    def newest(self) -> int:
        """The newest version."""
        return self.request.newest
