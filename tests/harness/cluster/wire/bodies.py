"""Bodies of messages for tests: any that a version can hold, drawn along its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from kafka_chaos.harness.cluster.wire.codec import UNKNOWN_TAGS
from kafka_chaos.harness.cluster.wire.messages import APIS
from kafka_chaos.harness.cluster.wire.schema import Array, Field, Message, Scalar, Struct, Type

# 46 versions of messages: so many examples of each, however busy the machine.
FEW = settings(max_examples=10)
ANY_TEXT = st.text(max_size=20) | st.text("é", min_size=60, max_size=140)
PRINTABLE_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200)
SCALARS: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.BOOL: st.booleans(),
    Scalar.UUID: st.uuids(),
    **{Scalar(f"int{bits}"): st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
MESSAGES = [message for api in APIS.values() for message in (api.request, api.response)]
VERSIONS = [(message, version) for message in MESSAGES for version in range(message.newest + 1)]


def bodies(
    message: Message, version: int, *, text: st.SearchStrategy[str] = ANY_TEXT
) -> st.SearchStrategy[dict[str, Any]]:
    return _Drawer(version, message.is_flexible(version), text).struct(message.body)


@dataclass(frozen=True)
class _Drawer:
    version: int
    flexible: bool
    text: st.SearchStrategy[str]

    def struct(self, kind: Struct) -> st.SearchStrategy[dict[str, Any]]:
        fields = {field.name: self.field(field) for field in kind.fields_of(self.version)}
        tags = st.dictionaries(st.integers(1, 2**31 - 1), st.binary(max_size=5), min_size=1, max_size=1)
        return st.fixed_dictionaries(fields, optional={UNKNOWN_TAGS: tags} if self.flexible else {})

    def field(self, field: Field) -> st.SearchStrategy[Any]:
        if field.name == "security_protocol":
            # Brokers close the connection on one that they don't know.
            return st.integers(0, 3)
        values = self.type(field.type)
        return st.none() | values if field.nullable else values

    def type(self, kind: Type) -> st.SearchStrategy[Any]:
        if isinstance(kind, Array):
            # Brokers refuse a topic that is there twice.
            return st.lists(self.type(kind.element), max_size=2, unique_by=_topic_or_itself).map(tuple)
        if isinstance(kind, Struct):
            return self.struct(kind)
        return self.text if kind is Scalar.STRING else SCALARS[kind]


def _topic_or_itself(element: Any) -> Any:
    topic = element.get("topic_name", element.get("name")) if isinstance(element, dict) else None
    return repr(element) if topic is None else topic
