"""Single values, lengths and tagged fields to bytes and back, in both styles: fixed and flexible (KIP-482).

Formats: https://kafka.apache.org/39/protocol.html#protocol_types. Every read first checks that enough bytes are left.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from kafka_chaos.contract.errors import KafkaChaosError
from kafka_chaos.harness.cluster.wire.schema import Scalar

_FORMATS = {
    Scalar.BOOL: struct.Struct(">?"),
    Scalar.INT8: struct.Struct(">b"),
    Scalar.INT16: struct.Struct(">h"),
    Scalar.INT32: struct.Struct(">i"),
    Scalar.INT64: struct.Struct(">q"),
}
_MAX_VARINT_BYTES = 5
MAX_VARINT = 2**31 - 1
_MAX_STRING = 2**15 - 1
_UUID_SIZE = 16


class WireError(KafkaChaosError):
    """Values that a message can't hold, or bytes that are none; the message names it and the field."""

    def __init__(self, problem: str, *path: str) -> None:
        self.problem = problem
        self.path = path
        super().__init__(problem)

    def __str__(self) -> str:
        return f"{_joined(self.path)}: {self.problem}" if self.path else self.problem


class within:  # noqa: N801
    """Adds a place to the path of a `WireError` that leaves the block."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, WireError):
            raise WireError(error.problem, self._place, *error.path) from error


class Writer:
    """Bytes on their way out."""

    def __init__(self, flexible: bool) -> None:
        self.flexible = flexible
        self.data = bytearray()

    def scalar(self, kind: Scalar, value: object) -> None:
        """One value that is no null."""
        if kind is Scalar.STRING:
            self.string(value)
        elif kind is Scalar.UUID:
            if not isinstance(value, uuid.UUID):
                raise WireError(f"{value!r}, expected a UUID")
            self.data += value.bytes
        else:
            self._number(kind, value)

    def _number(self, kind: Scalar, value: object) -> None:
        if isinstance(value, bool) is not (kind is Scalar.BOOL) or not isinstance(value, int):
            raise WireError(f"{value!r}, expected {kind}")
        try:
            self.data += _FORMATS[kind].pack(value)
        except struct.error as error:
            raise WireError(f"{value} does not fit into {kind}") from error

    def string(self, value: object, *, compact: bool | None = None) -> None:
        """A string or null, with the length as the version writes it, unless another is given."""
        compact = self.flexible if compact is None else compact
        if value is None:
            self.data += b"\x00" if compact else b"\xff\xff"
            return
        if not isinstance(value, str):
            raise WireError(f"{value!r}, expected a string")
        try:
            text = value.encode()
        except UnicodeEncodeError as error:
            raise WireError(f"{value!r} can't be written as UTF-8") from error
        if len(text) > _MAX_STRING:
            raise WireError(f"a string of {len(text)} bytes, expected at most {_MAX_STRING}")
        if compact:
            self.varint(len(text) + 1)
        else:
            self.scalar(Scalar.INT16, len(text))
        self.data += text

    def count(self, number: int) -> None:
        """How many elements of an array follow."""
        if self.flexible:
            self.varint(number + 1)
        else:
            self.scalar(Scalar.INT32, number)

    def varint(self, value: int) -> None:
        """An unsigned number in groups of seven bits, the lowest first."""
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def tags(self, tags: Mapping[int, bytes]) -> None:
        """The tagged fields of a structure, in the order of their tags."""
        self.varint(len(tags))
        for tag in sorted(tags):
            self.varint(tag)
            self.varint(len(tags[tag]))
            self.data += tags[tag]


class Reader:
    """Bytes to read; every read checks that enough are left."""

    def __init__(self, data: bytes, *, flexible: bool) -> None:
        self.flexible = flexible
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self.left:
            raise WireError(f"{size} bytes needed at byte {self._position}, {self.left} are left")
        self._position += size
        return self._data[self._position - size : self._position]

    def scalar(self, kind: Scalar) -> Any:
        """One value; a null string is None."""
        if kind is Scalar.STRING:
            return self.string()
        if kind is Scalar.UUID:
            return uuid.UUID(bytes=self.take(_UUID_SIZE))
        layout = _FORMATS[kind]
        return layout.unpack(self.take(layout.size))[0]

    def string(self, *, compact: bool | None = None) -> str | None:
        """A string or null, with the length as the version writes it, unless another is given."""
        compact = self.flexible if compact is None else compact
        start = self._position
        size = self.varint() - 1 if compact else self.scalar(Scalar.INT16)
        if size == -1:
            return None
        if not 0 <= size <= _MAX_STRING:
            raise WireError(f"a string of {size} bytes at byte {start}, expected 0 to {_MAX_STRING}")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise WireError(f"no valid UTF-8 at byte {start}") from error

    def count(self) -> int:
        """How many elements of an array follow; no more than bytes are left."""
        start = self._position
        number = self.varint() - 1 if self.flexible else self.scalar(Scalar.INT32)
        if number < 0:
            raise WireError(f"an array of {number} elements at byte {start}, null is not allowed here")
        if number > self.left:
            raise WireError(f"an array of {number} elements at byte {start}, {self.left} bytes are left")
        return int(number)

    def varint(self) -> int:
        """An unsigned number in groups of seven bits, the lowest first."""
        start, value = self._position, 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if value > MAX_VARINT:
                    raise WireError(f"a variable-length number of {value} at byte {start} is too large")
                return value
        raise WireError(f"a variable-length number of more than {_MAX_VARINT_BYTES} bytes at byte {start}")

    def tags(self) -> dict[int, bytes]:
        """The tagged fields of a structure."""
        tags: dict[int, bytes] = {}
        for _ in range(self.varint()):
            tag = self.varint()
            if tag in tags:
                raise WireError(f"tag {tag} occurs twice, before byte {self._position}")
            tags[tag] = self.take(self.varint())
        return tags

    def expect_end(self) -> None:
        """Refuse what is left over."""
        if self.left:
            raise WireError(f"{self.left} bytes are left over at byte {self._position}")


def _joined(path: tuple[str, ...]) -> str:
    message, *fields = path
    text = ".".join(fields).replace(".[", "[")
    return f"{message}: {text}" if text else message
