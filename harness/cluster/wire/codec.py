"""Bodies of messages to bytes and back, for every message that a schema describes.

Guarantee: what `encode_body` returns, `decode_body` turns into the same values, and any other bytes into values or a
`WireError` that names the field and the place; no input makes either raise anything else, loop or take more memory than
a small multiple of its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_chaos.harness.cluster.wire.primitives import MAX_VARINT, Reader, WireError, Writer, within
from kafka_chaos.harness.cluster.wire.schema import REQUIRED, Array, Field, Message, Scalar, Struct, Type

Body = dict[str, Any]
UNKNOWN_TAGS = "unknown_tags"
"""Where a structure keeps tagged fields that its schema doesn't know: {tag: bytes}, absent when there are none."""


def encode_body(message: Message, version: int, values: Mapping[str, Any]) -> bytes:
    """The bytes of a message's body. Fields with a default may be left out; fields of other versions are refused."""
    writer = Writer(message.is_flexible(version))
    with within(f"{message.name} v{version}"):
        _check_version(message, version)
        _write_struct(writer, message.body, version, values)
    return bytes(writer.data)


def decode_body(message: Message, version: int, data: bytes) -> Body:
    """The values of a message's body, which is all of `data`: every field of the version, tuples for arrays."""
    with within(f"{message.name} v{version}"):
        _check_version(message, version)
        reader = Reader(data, flexible=message.is_flexible(version))
        body = _read_struct(reader, message.body, version)
        reader.expect_end()
    return body


def _check_version(message: Message, version: int) -> None:
    if not 0 <= version <= message.newest:
        raise WireError(f"no such version, expected 0 to {message.newest}")


def _write_struct(writer: Writer, kind: Struct, version: int, values: Mapping[str, Any]) -> None:
    if not isinstance(values, Mapping):
        raise WireError(f"{values!r}, expected fields by name")
    fields = {field.name: field for field in kind.fields_of(version)}
    for name in values:
        if name not in fields and not (name == UNKNOWN_TAGS and writer.flexible):
            raise WireError(f"no field of this version, which has {', '.join(fields)}", str(name))
    tagged: dict[int, bytes] = {}
    for field in fields.values():
        value = values.get(field.name, field.default)
        with within(field.name):
            if field.tag is None:
                _write(writer, field, version, value)
            elif value != field.default:
                inner = Writer(writer.flexible)
                _write(inner, field, version, value)
                tagged[field.tag] = bytes(inner.data)
    if writer.flexible:
        own = {field.tag for field in fields.values() if field.tag is not None}
        with within(UNKNOWN_TAGS):
            tagged |= _unknown_tags(values.get(UNKNOWN_TAGS, {}), own)
        writer.tags(tagged)


def _unknown_tags(tags: object, own: set[int]) -> Mapping[int, bytes]:
    if not isinstance(tags, Mapping) or not all(
        isinstance(tag, int) and 0 <= tag <= MAX_VARINT and tag not in own and isinstance(value, bytes)
        for tag, value in tags.items()
    ):
        raise WireError(f"{tags!r}, expected bytes by tags that the schema doesn't know")
    return tags


def _write(writer: Writer, field: Field, version: int, value: Any) -> None:
    if value is REQUIRED:
        raise WireError("missing, it has no default")
    if isinstance(field.type, Array):
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise WireError(f"{value!r}, expected a list")
        elements = list(value)
        writer.count(len(elements))
        for index, element in enumerate(elements):
            with within(f"[{index}]"):
                _write_value(writer, field.type.element, version, element)
    elif value is None and field.nullable:
        writer.string(None)
    else:
        _write_value(writer, field.type, version, value)


def _write_value(writer: Writer, kind: Type, version: int, value: Any) -> None:
    if isinstance(kind, Struct):
        _write_struct(writer, kind, version, value)
        return
    assert isinstance(kind, Scalar)
    if value is None:
        raise WireError("is null, which is not allowed here")
    writer.scalar(kind, value)


def _read_struct(reader: Reader, kind: Struct, version: int) -> Body:
    body: Body = {}
    tagged: dict[int, Field] = {}
    for field in kind.fields_of(version):
        if field.tag is None:
            with within(field.name):
                body[field.name] = _read(reader, field, version)
        else:
            tagged[field.tag] = field
            body[field.name] = field.default
    if reader.flexible:
        with within("tagged fields"):
            unknown = reader.tags()
        for tag in tagged.keys() & unknown.keys():
            with within(tagged[tag].name):
                body[tagged[tag].name] = _read_alone(unknown.pop(tag), tagged[tag], version)
        if unknown:
            body[UNKNOWN_TAGS] = unknown
    return body


def _read_alone(data: bytes, field: Field, version: int) -> Any:
    reader = Reader(data, flexible=True)
    value = _read(reader, field, version)
    reader.expect_end()
    return value


def _read(reader: Reader, field: Field, version: int) -> Any:
    if not isinstance(field.type, Array):
        value = _read_value(reader, field.type, version)
        if value is None and not field.nullable:
            raise WireError("is null, which is not allowed here")
        return value
    elements = []
    for index in range(reader.count()):
        with within(f"[{index}]"):
            elements.append(_read_value(reader, field.type.element, version))
    return tuple(elements)


def _read_value(reader: Reader, kind: Type, version: int) -> Any:
    if isinstance(kind, Struct):
        return _read_struct(reader, kind, version)
    assert isinstance(kind, Scalar)
    return reader.scalar(kind)
