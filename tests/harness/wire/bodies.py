"""Bodies of messages for tests: any that a version can hold, drawn along its schema."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kafka_chaos.harness.wire.codec import UNKNOWN_TAGS
from kafka_chaos.harness.wire.messages import APIS
from kafka_chaos.harness.wire.schema import Array, Field, Message, Scalar, Struct, Type

SCALARS: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.BOOL: st.booleans(),
    Scalar.STRING: st.text(max_size=20) | st.text("é", min_size=60, max_size=140),
    Scalar.UUID: st.uuids(),
    **{Scalar(f"int{bits}"): st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
VERSIONS = [(message, version) for message in MESSAGES for version in range(message.newest + 1)]


def bodies(message: Message, version: int) -> st.SearchStrategy[dict[str, Any]]:
    return _struct(message.body, version, flexible=message.is_flexible(version))


def _struct(kind: Struct, version: int, *, flexible: bool) -> st.SearchStrategy[dict[str, Any]]:
    fields = {field.name: _field(field, version, flexible=flexible) for field in kind.fields_of(version)}
    tags = st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=5), min_size=1, max_size=2)
    return st.fixed_dictionaries(fields, optional={UNKNOWN_TAGS: tags} if flexible else {})


def _field(field: Field, version: int, *, flexible: bool) -> st.SearchStrategy[Any]:
    values = _type(field.type, version, flexible=flexible)
    return st.none() | values if field.nullable else values


def _type(kind: Type, version: int, *, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(kind, Array):
        return st.lists(_type(kind.element, version, flexible=flexible), max_size=3).map(tuple)
    if isinstance(kind, Struct):
        return _struct(kind, version, flexible=flexible)
    return SCALARS[kind]
