"""Reads the partitions, transactional ids, groups and producers of requests, and the error codes of responses.

Bodies are decoded by kafka-python's messages, and by those of `contract/wire`, which kafka-python lacks. A request
that can't be decoded has no contents, and passes like any other.
"""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kafka_chaos.contract.wire.kafka_python import UUID, ApiMessage, Int16, Int32, String, UnsignedVarInt32
from kafka_chaos.contract.wire.messages import CONTROLLER_APIS
from kafka_chaos.faults.cluster import PartitionId
from kafka_chaos.faults.links.relay.frames import FETCH, METADATA, Header

# The first versions of Produce that are flexible (KIP-482), have a transactional id, and name topics by id:
_FLEXIBLE_PRODUCE, _TRANSACTIONAL_PRODUCE, _PRODUCE_BY_ID = 9, 3, 13
_PRODUCE_HEAD_BYTES = 1024  # how many bytes of a Produce request are read
_CORRELATION_ID_BYTES = 4  # the size of the correlation id with which a response begins
_STRING = String()
# A batch of records begins with its offset (8 bytes), length, leader epoch, format (magic) and checksum. The length
# counts the bytes from `_BATCH_LENGTH_END` on; the checksum covers the bytes from `_BATCH_CHECKSUM_END` on.
_BATCH_HEAD = struct.Struct(">8xiib")
_MAGIC, _BATCH_LENGTH_END, _BATCH_CHECKSUM_END = 2, 12, 21
_METADATA_LOG = ("__cluster_metadata", "00000000-0000-0000-0000-000000000001")
"""The name and the id of KRaft's metadata log. Controllers of some versions exit if its records are damaged."""
# A field may have different names in different messages, or in versions of a message:
_TOPIC_NAMES = ("topic", "name", "topic_name", "topic_id")
_PARTITIONS = ("partitions", "partition_indexes", "partition_data", "partition_states")
_INDEXES = ("partition", "partition_index", "index")
_TRANSACTIONAL_IDS = ("transactional_id", "v3_and_below_transactional_id")
_DETAILS = (  # the fields of requests that `Contents.detail` repeats
    "group_id",
    "producer_id",
    "producer_epoch",
    "committed",
    "member_id",
    "generation_id",
    "acks",
    "key",
    "controller_epoch",
)


@dataclass(slots=True)
class Contents:
    """The contents of a request, as far as rules and traces need them.

    `leader_epochs`: the leader epochs that a controller tells a broker (LeaderAndIsr). `detail` has further values
    under Kafka's names. `body`: the whole request, if a controller sent it.
    """

    partitions: tuple[PartitionId, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)
    leader_epochs: dict[PartitionId, int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


class MessageDecoder:
    """Decodes requests and responses, and learns the names of topic ids from metadata that passes."""

    def __init__(self) -> None:
        self.topic_names: dict[uuid.UUID, str] = {}

    def request(self, header: Header, frame: memoryview, session: FetchSession) -> Contents | None:
        """The contents of a whole request; None if it can't be decoded. `session`: its connection's fetch session."""
        body = _decoded("Request", header, frame[header.body :])
        if body is None:
            return None
        if header.api == FETCH:
            forgotten = tuple(self._partitions_in({"forgotten": body.get("forgotten_topics_data") or ()}))
            changed = tuple(self._partitions_in({"topics": body["topics"]}))
            return Contents(session.covered(body.get("session_epoch", -1), changed, forgotten))
        from_controller = header.api in CONTROLLER_APIS
        if from_controller:
            self._learn_topic_names(body.get("topic_states", ()))
        return Contents(
            tuple(dict.fromkeys(self._partitions_in(body))),
            tuple(dict.fromkeys(_transactional_ids(body))),
            {key: body[key] for key in _DETAILS if body.get(key) not in (None, "")},
            dict(_leader_epochs(body)),
            body if from_controller else None,
        )

    def response(self, header: Header, frame: memoryview) -> Mapping[str, Any] | None:
        """The body of a whole response to a request with this header; None if it can't be decoded."""
        body = _decoded("Response", header, frame[_CORRELATION_ID_BYTES:])
        if header.api == METADATA and body is not None:
            self._learn_topic_names(body["topics"] or ())
        return body

    def with_error(self, header: Header, frame: memoryview, error: int) -> bytes | None:
        """A whole response with this error code in each part, such as a partition; without parts, at its top level.

        None if the response can't be decoded, or has no place for an error.
        """
        message, body = _message("Response", header, frame[_CORRELATION_ID_BYTES:], exactly=True)
        if message is None or not _put_error(message, error):
            return None
        return bytes(frame[: len(frame) - len(body)]) + bytes(message.encode())

    def with_altered_byte(
        self, header: Header, frame: memoryview, side: str, place: tuple[str | None, int | None], byte: int
    ) -> bytes | None:
        """A whole Produce request or Fetch response with one byte changed, the `byte`-th before the end of the first
        batch of records. `place`: the topic and partition of the records, None for any.

        The changed byte is behind the batch's checksum and covered by it. None if there is no such byte.
        """
        kind, start = ("Request", header.body) if side == "request" else ("Response", _CORRELATION_ID_BYTES)
        body = _decoded(kind, header, frame[start:]) or {}
        for topic, partition, records in self._records_in(body):
            if topic in _METADATA_LOG or place[0] not in (None, topic) or place[1] not in (None, partition):
                continue
            if len(records) < _BATCH_HEAD.size:
                continue
            length, _, magic = _BATCH_HEAD.unpack_from(records)
            end = _BATCH_LENGTH_END + length
            if magic == _MAGIC and end <= len(records) and end - byte >= _BATCH_CHECKSUM_END:
                altered = bytearray(frame)
                altered[bytes(frame).index(records) + end - byte] ^= 0xFF
                return bytes(altered)
        return None

    def with_former_leaders(self, header: Header, frame: memoryview, former: bytes | None) -> bytes | None:
        """A Metadata response with the body of the `former` one; None without that, or if the leaders are the same."""

        def leaders(response: bytes) -> set[tuple[Any, ...]]:
            topics = (self.response(header, memoryview(response)) or {}).get("topics") or ()
            return {
                (topic.get("name") or topic.get("topic_id"), partition["partition_index"], partition["leader_id"])
                for topic in topics
                for partition in topic["partitions"] or ()
            }

        if former is None or not leaders(bytes(frame)) - leaders(former):
            return None
        return bytes(frame[:_CORRELATION_ID_BYTES]) + former[_CORRELATION_ID_BYTES:]

    def _records_in(self, body: Mapping[str, Any]) -> Iterator[tuple[str, int, bytes]]:
        """The topic, partition and records of each partition in a Produce request or a Fetch response."""
        for topic in body.get("topic_data") or body.get("responses") or ():
            topic_id = topic.get("topic_id")
            name = topic.get("name") or topic.get("topic") or self.topic_names.get(topic_id, str(topic_id))
            for partition in topic.get("partition_data") or topic.get("partitions") or ():
                index = partition.get("index", partition.get("partition_index"))
                yield name, index, partition.get("records") or b""

    def _learn_topic_names(self, topics: Any) -> None:
        for topic in topics:
            name = topic.get("name") or topic.get("topic_name")
            if name and isinstance(topic.get("topic_id"), uuid.UUID):
                self.topic_names[topic["topic_id"]] = name

    def _partitions_in(self, value: Mapping[str, Any]) -> Iterator[PartitionId]:
        """The topic-partitions anywhere in a message: each API nests topics and partitions in its own way."""
        name = next((value[key] for key in _TOPIC_NAMES if value.get(key)), None)
        if isinstance(name, uuid.UUID):
            name = self.topic_names.get(name, str(name)) if name.int else None  # an id of zero stands for no topic
        for key, inner in value.items():
            if not isinstance(inner, list | tuple):
                continue
            for element in inner:
                if isinstance(element, int) and name is not None and key in _PARTITIONS:
                    yield name, element
                elif isinstance(element, Mapping):
                    index = next((element[field_name] for field_name in _INDEXES if field_name in element), None)
                    # Old versions repeat the topic's name in each partition.
                    topic = element.get("topic_name") or (name if key in _PARTITIONS else None)
                    if topic is not None and index is not None:
                        yield topic, index
                    else:
                        named = {"topic": name, **element} if name and key in _PARTITIONS else element
                        yield from self._partitions_in(named)


class FetchSession:
    """The partitions that the fetches of one connection cover: a request names only what changed (KIP-227)."""

    def __init__(self) -> None:
        self._partitions: dict[PartitionId, None] = {}

    def covered(
        self, epoch: int, changed: tuple[PartitionId, ...], forgotten: tuple[PartitionId, ...]
    ) -> tuple[PartitionId, ...]:
        """Note a fetch in this session `epoch`, which names only `changed` and `forgotten` partitions; returns all
        partitions that the fetch covers."""
        if epoch <= 0:
            self._partitions.clear()
        self._partitions.update(dict.fromkeys(changed))
        for partition in forgotten:
            self._partitions.pop(partition, None)
        return tuple(self._partitions)


def acks_and_contents(header: Header, frame: memoryview, names: Mapping[uuid.UUID, str]) -> tuple[int, Contents] | None:
    """The acks of a Produce request, and the contents of its beginning: transactional id and first topic-partition.

    Only the beginning is read, since the request may be too large to wait for its end. None if it can't be read.
    """
    compact = header.version >= _FLEXIBLE_PRODUCE
    # Clients send no tagged fields in headers: a single byte says that there are none.
    head = io.BytesIO(frame[header.body + int(compact) : header.body + _PRODUCE_HEAD_BYTES])
    contents = Contents()
    try:
        if header.version >= _TRANSACTIONAL_PRODUCE and (transactional_id := _STRING.decode(head, compact=compact)):
            contents.transactional_ids = (transactional_id,)
        acks = int(Int16.decode(head))
        Int32.decode(head)
        contents.detail = {"acks": acks}
    except (ValueError, IndexError, struct.error):
        return None
    # A topic's name may be longer than the bytes that are read.
    with suppress(ValueError, IndexError, struct.error):
        if _count(head, compact=compact):
            topic = (UUID if header.version >= _PRODUCE_BY_ID else _STRING).decode(head, compact=compact)
            if _count(head, compact=compact):
                contents.partitions = ((names.get(topic, str(topic)), int(Int32.decode(head))),)
    return acks, contents


def _count(head: io.BytesIO, *, compact: bool) -> int:
    """The number of elements of the array that begins at the position of `head`; 0 for a null array."""
    return max(0, int(UnsignedVarInt32.decode(head)) - 1 if compact else int(Int32.decode(head)))


def errors_of(body: Mapping[str, Any]) -> Iterator[int]:
    """The error codes anywhere in a response, without 0, which means that there was no error."""
    for key, value in body.items():
        if (key == "error" or key.endswith("error_code")) and isinstance(value, int) and value:
            yield value
        elif isinstance(value, Mapping):
            yield from errors_of(value)
        elif isinstance(value, list | tuple):
            for element in value:
                if isinstance(element, Mapping):
                    yield from errors_of(element)


def _transactional_ids(body: Mapping[str, Any]) -> Iterator[str]:
    yield from (body[key] for key in _TRANSACTIONAL_IDS if body.get(key))
    for inner in body.get("transactions") or ():
        yield from (inner[key] for key in _TRANSACTIONAL_IDS if inner.get(key))


def _leader_epochs(body: Mapping[str, Any]) -> Iterator[tuple[PartitionId, int]]:
    """The partitions and leader epochs of a LeaderAndIsr request."""
    if "live_leaders" not in body:
        return
    # Old versions repeat the topic's name in each partition.
    for state in body.get("ungrouped_partition_states", ()):
        yield (state["topic_name"], state["partition_index"]), state["leader_epoch"]
    for topic in body.get("topic_states", ()):
        for state in topic["partition_states"]:
            yield (topic["topic_name"], state["partition_index"]), state["leader_epoch"]


def _put_error(container: Any, error: int) -> bool:
    """Put an error code into the innermost parts of a message that can have one; return whether there were any."""
    fields = _fields(container.fields, container.version)
    parts = [name for name, field in fields.items() if _may_have_errors(field, container.version)]
    if parts:
        changed = [_put_error(part, error) for name in parts for part in getattr(container, name) or ()]
        return any(changed)
    if "error_code" in fields:
        container.error_code = error
    return "error_code" in fields


def _may_have_errors(field: Any, version: int) -> bool:
    """Whether a field of a message has parts, such as partitions, that can have an error code."""
    if not field.is_struct_array():
        return False
    inner = _fields(field.fields, version)
    return "error_code" in inner or any(_may_have_errors(part, version) for part in inner.values())


def _fields(fields: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The fields that a message of this version has."""
    return {name: field for name, field in fields.items() if field.for_version_q(version)}


def _decoded(kind_name: str, header: Header, rest: memoryview) -> Mapping[str, Any] | None:
    """The body of a `Request` or `Response`, from the bytes after the fixed part of its header; None if it can't be
    decoded."""
    message, _ = _message(kind_name, header, rest, exactly=header.api in CONTROLLER_APIS)
    return None if message is None else message.to_dict(json=False)


def _message(kind_name: str, header: Header, rest: memoryview, *, exactly: bool) -> tuple[Any, memoryview]:
    """The message after the fixed part of a header (None if it can't be decoded), and the bytes of its body.

    `exactly`: encoded again, the message has to give these bytes, because kafka-python decodes messages that are cut
    off, or followed by more bytes, without an error.
    """
    kind = _messages(kind_name).get(header.api)
    if kind is None or header.version > kind.max_version:
        return None, rest
    # Nobody sends tagged fields in headers: a single byte says that there are none. The response to ApiVersions lacks
    # it, since every client must be able to read that response.
    flexible = kind.flexible_version_q(header.version) and kind.name != "ApiVersionsResponse"
    body = rest[int(flexible) :]
    try:
        message = kind.decode(body, version=header.version)
        return (None if exactly and message.encode() != body else message), body
    except Exception:  # noqa: BLE001 - another library decodes bytes from anybody
        return None, rest


@cache
def _messages(kind_name: str) -> Mapping[int, Any]:
    """kafka-python's messages whose names contain `Request` or `Response`, by API key."""
    # A class with a version stands for one version of a message, and derives from the message's own class.
    kinds = [kind for kind in _subclasses(ApiMessage) if kind._class_version is None and kind_name in kind.__name__]
    return {kind.API_KEY: kind for kind in kinds}


def _subclasses(kind: Any) -> Iterator[Any]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
