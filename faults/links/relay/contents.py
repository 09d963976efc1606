"""The subjects of requests: topic-partitions, transactional ids, groups, producers, and the error codes of answers.

The bodies are read by kafka-python's messages, and by those between brokers and controllers that it lacks
(contract/wire). What none can read has no contents, and passes like everything else.
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
from kafka_chaos.contract.wire.messages import FROM_CONTROLLERS
from kafka_chaos.faults.links.relay.frames import FETCH, METADATA, Header

Place = tuple[str, int]
"""A topic and a partition of it."""

_FLEXIBLE_PRODUCE, _TRANSACTIONAL_PRODUCE, _PRODUCE_BY_ID = 9, 3, 13
_PRODUCE_HEAD = 1024
_STRING = String()
_TOPIC_NAMES = ("topic", "name", "topic_name", "topic_id")
_PARTITIONS = ("partitions", "partition_indexes", "partition_data", "partition_states")
_INDEXES = ("partition", "partition_index", "index")
_TRANSACTIONAL_IDS = ("transactional_id", "v3_and_below_transactional_id")
_KEPT = (
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
    """The subjects of a request. `leader_epochs`: those that a controller tells a broker (LeaderAndIsr). `detail` has
    single values worth telling, under Kafka's names. `body`: all of a request that a controller sent."""

    partitions: tuple[Place, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)
    leader_epochs: dict[Place, int] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


class MessageDecoder:
    """Reads contents, and learns the names of topic ids from metadata that passes."""

    def __init__(self) -> None:
        self.topic_names: dict[uuid.UUID, str] = {}

    def request(self, header: Header, frame: memoryview, session: FetchSession) -> Contents | None:
        """The contents of a whole request; None where it can't be read. `session`: the fetches of its connection."""
        body = _decoded("Request", header, frame[header.body :])
        if body is None:
            return None
        if header.api == FETCH:
            forgotten = tuple(self._places({"forgotten": body.get("forgotten_topics_data") or ()}))
            changed = tuple(self._places({"topics": body["topics"]}))
            return Contents(session.covered(body.get("session_epoch", -1), changed, forgotten))
        found = self._contents(body)
        if header.api in FROM_CONTROLLERS:
            found.body = body
            self._learn(body.get("topic_states", ()))
        return found

    def response(self, header: Header, frame: memoryview) -> Mapping[str, Any] | None:
        """The body of a whole response to a request with this header; None where it can't be read."""
        body = _decoded("Response", header, frame[4:])
        if header.api == METADATA and body is not None:
            self._learn(body["topics"] or ())
        return body

    def _learn(self, topics: Any) -> None:
        for topic in topics:
            name = topic.get("name") or topic.get("topic_name")
            if name and isinstance(topic.get("topic_id"), uuid.UUID):
                self.topic_names[topic["topic_id"]] = name

    def _contents(self, body: Mapping[str, Any]) -> Contents:
        found = Contents(tuple(dict.fromkeys(self._places(body))), tuple(dict.fromkeys(_transactional_ids(body))))
        found.leader_epochs = dict(_leader_epochs(body))
        found.detail = {key: body[key] for key in _KEPT if body.get(key) not in (None, "")}
        return found

    def _places(self, value: Mapping[str, Any]) -> Iterator[Place]:
        name = next((value[key] for key in _TOPIC_NAMES if value.get(key)), None)
        if isinstance(name, uuid.UUID):
            name = self.topic_names.get(name, str(name)) if name.int else None
        for key, inner in value.items():
            if not isinstance(inner, list | tuple):
                continue
            for one in inner:
                if isinstance(one, int) and name is not None and key in _PARTITIONS:
                    yield name, one
                elif isinstance(one, Mapping):
                    index = next((one[of] for of in _INDEXES if of in one), None)
                    # Old versions repeat the topic's name in each partition.
                    of_topic = one.get("topic_name") or (name if key in _PARTITIONS else None)
                    if of_topic is not None and index is not None:
                        yield of_topic, index
                    else:
                        yield from self._places({"topic": name, **one} if name and key in _PARTITIONS else one)


class FetchSession:
    """The partitions that the fetches of one connection cover: a request names only what changed (KIP-227)."""

    def __init__(self) -> None:
        self._partitions: dict[Place, None] = {}

    def covered(self, epoch: int, changed: tuple[Place, ...], forgotten: tuple[Place, ...]) -> tuple[Place, ...]:
        """All partitions of a request of this session epoch that names these as changed, and those as forgotten."""
        if epoch <= 0:
            self._partitions.clear()
        self._partitions.update(dict.fromkeys(changed))
        for place in forgotten:
            self._partitions.pop(place, None)
        return tuple(self._partitions)


def produced_to(header: Header, frame: memoryview, names: Mapping[uuid.UUID, str]) -> tuple[int, Contents] | None:
    """acks of a Produce request, and what its beginning speaks of: the first topic-partition, the transactional id.

    A request may be too large to wait for its end. None where even the beginning can't be read.
    """
    compact = header.version >= _FLEXIBLE_PRODUCE
    # Clients send no tagged fields in headers: one byte that says so.
    head = io.BytesIO(frame[header.body + compact : header.body + _PRODUCE_HEAD])
    found = Contents()
    try:
        if header.version >= _TRANSACTIONAL_PRODUCE and (transactional_id := _STRING.decode(head, compact=compact)):
            found.transactional_ids = (transactional_id,)
        acks = int(Int16.decode(head))
        Int32.decode(head)
        found.detail = {"acks": acks}
    except (ValueError, IndexError, struct.error):
        return None
    # A topic's name may be longer than what was looked at.
    with suppress(ValueError, IndexError, struct.error):
        if _count(head, compact=compact):
            topic = (UUID if header.version >= _PRODUCE_BY_ID else _STRING).decode(head, compact=compact)
            if _count(head, compact=compact):
                found.partitions = ((names.get(topic, str(topic)), int(Int32.decode(head))),)
    return acks, found


def _count(head: io.BytesIO, *, compact: bool) -> int:
    """The number of elements of an array that begins here, 0 for none."""
    return max(0, int(UnsignedVarInt32.decode(head)) - 1 if compact else int(Int32.decode(head)))


def errors_of(body: Mapping[str, Any]) -> Iterator[int]:
    """The error codes of a response that say that something failed."""
    for key, value in body.items():
        if (key == "error" or key.endswith("error_code")) and isinstance(value, int) and value:
            yield value
        elif isinstance(value, Mapping):
            yield from errors_of(value)
        elif isinstance(value, list | tuple):
            for one in value:
                if isinstance(one, Mapping):
                    yield from errors_of(one)


def _transactional_ids(body: Mapping[str, Any]) -> Iterator[str]:
    yield from (body[key] for key in _TRANSACTIONAL_IDS if body.get(key))
    for inner in body.get("transactions") or ():
        yield from (inner[key] for key in _TRANSACTIONAL_IDS if inner.get(key))


def _leader_epochs(body: Mapping[str, Any]) -> Iterator[tuple[Place, int]]:
    """The partitions and leader epochs of a LeaderAndIsr request."""
    if "live_leaders" not in body:
        return
    # Old versions repeat the topic's name in each partition.
    for state in body.get("ungrouped_partition_states", ()):
        yield (state["topic_name"], state["partition_index"]), state["leader_epoch"]
    for topic in body.get("topic_states", ()):
        for state in topic["partition_states"]:
            yield (topic["topic_name"], state["partition_index"]), state["leader_epoch"]


def _decoded(named: str, header: Header, rest: memoryview) -> Mapping[str, Any] | None:
    """The body in what follows the fixed part of a header; None where it can't be read."""
    kind = _messages(named).get(header.api)
    if kind is None or header.version > kind.max_version:
        return None
    # Nobody sends tagged fields in headers: one byte that says so. The answer to ApiVersions has not even that, since
    # any client must be able to read it.
    flexible = kind.flexible_version_q(header.version) and kind.name != "ApiVersionsResponse"
    body = rest[int(flexible) :]
    try:
        message = kind.decode(body, version=header.version)
        if kind.API_KEY in FROM_CONTROLLERS and message.encode() != body:
            # kafka-python does not mind what is cut off, or what is left.
            return None
        decoded: Mapping[str, Any] = message.to_dict(json=False)
    except Exception:  # noqa: BLE001 - another library's, over bytes from anybody
        return None
    return decoded


@cache
def _messages(named: str) -> Mapping[int, Any]:
    """kafka-python's messages of this name, by API key."""
    kinds = [kind for kind in _below(ApiMessage) if kind._class_version is None and named in kind.__name__]
    return {kind.API_KEY: kind for kind in kinds}


def _below(kind: Any) -> Iterator[Any]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
