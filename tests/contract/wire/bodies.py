"""Messages for tests: any that a version can hold, drawn along their definition."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from kafka_chaos.contract.wire import messages

# So many examples of each version of a message, however busy the machine.
FEW = settings(max_examples=10)
ANY_TEXT = st.text(max_size=20) | st.text("é", min_size=60, max_size=140)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "uuid": st.uuids().filter(lambda one: one.int),
    **{f"int{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
REQUESTS = [messages.LeaderAndIsrRequest, messages.StopReplicaRequest, messages.UpdateMetadataRequest]


def bodies(message: Any, version: int) -> st.SearchStrategy[Any]:
    """Messages of a version."""
    drawn = {name: _field(field, version) for name, field in _of(message.fields, version).items()}
    return st.builds(message, version=st.just(version), **drawn)


def _of(fields: dict[str, Any], version: int) -> dict[str, Any]:
    return {name: field for name, field in fields.items() if field.for_version_q(version)}


def _field(field: Any, version: int) -> st.SearchStrategy[Any]:
    if field.name == "security_protocol":
        # Brokers close the connection on one that they don't know.
        return st.integers(0, 3)
    if field.is_struct_array():
        inner = {name: _field(one, version) for name, one in _of(field.fields, version).items()}
        # Brokers refuse a topic that is there twice.
        return st.lists(st.builds(field.data_class, version=st.just(version), **inner), max_size=2, unique_by=_topic)
    kind = field.type_str
    if kind.startswith("[]"):
        return st.lists(SCALARS[kind[2:]], max_size=2, unique=True)
    values = ANY_TEXT if kind == "string" else SCALARS[kind]
    return st.none() | values if field.nullable_for_version_q(version) else values


def _topic(element: Any) -> Any:
    fields = element.to_dict(json=False)
    topic = fields.get("topic_name", fields.get("name"))
    return repr(fields) if topic is None else topic
