"""Requests and responses as they travel: a size, a header, a body.

Request headers are of version 1, or 2 for flexible versions; response headers of version 0, or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_chaos.harness.cluster.wire.codec import Body, decode_body, encode_body
from kafka_chaos.harness.cluster.wire.messages import APIS
from kafka_chaos.harness.cluster.wire.primitives import Reader, WireError, Writer
from kafka_chaos.harness.cluster.wire.schema import Api, Scalar

SIZE_BYTES = 4
MAX_FRAME = 100 * 1024 * 1024
"""`socket.request.max.bytes`: brokers refuse larger ones."""


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header of every request; `client_id` None is null."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


@dataclass(frozen=True, slots=True)
class Request:
    """A decoded request of one of the three kinds."""

    header: RequestHeader
    body: Body

    @property
    def api(self) -> Api:
        """Its kind."""
        return APIS[self.header.api_key]


def encode_request(api: Api, version: int, body: Body, *, correlation_id: int, client_id: str | None) -> bytes:
    """A whole frame, its size included."""
    writer = Writer(api.request.is_flexible(version))
    for kind, value in ((Scalar.INT16, api.key), (Scalar.INT16, version), (Scalar.INT32, correlation_id)):
        writer.scalar(kind, value)
    writer.string(client_id, compact=False)
    if writer.flexible:
        writer.tags({})
    return _framed(bytes(writer.data) + encode_body(api.request, version, body))


def encode_response(api: Api, version: int, body: Body, *, correlation_id: int) -> bytes:
    """A whole frame, its size included."""
    writer = Writer(api.response.is_flexible(version))
    writer.scalar(Scalar.INT32, correlation_id)
    if writer.flexible:
        writer.tags({})
    return _framed(bytes(writer.data) + encode_body(api.response, version, body))


def read_request_header(frame: bytes) -> tuple[RequestHeader, bytes]:
    """A request's header and what follows it; of other kinds than the three, header tags count as what follows."""
    reader = Reader(frame, flexible=False)
    key, version, correlation_id = (reader.scalar(kind) for kind in (Scalar.INT16, Scalar.INT16, Scalar.INT32))
    header = RequestHeader(key, version, correlation_id, reader.string(compact=False))
    api = APIS.get(key)
    if api is not None and api.request.is_flexible(version):
        reader.tags()
    return header, reader.take(reader.left)


def decode_request(frame: bytes) -> Request:
    """A request of one of the three kinds from a frame without its size; raises `WireError`."""
    try:
        header, rest = read_request_header(frame)
    except WireError as error:
        raise WireError(error.problem, "request header", *error.path) from error
    if header.api_key not in APIS:
        raise WireError(f"api key {header.api_key}, expected one of {', '.join(map(str, APIS))}", "request header")
    return Request(header, decode_body(APIS[header.api_key].request, header.version, rest))


def read_correlation_id(frame: bytes) -> int:
    """The correlation id of a response; raises `WireError`."""
    return int(Reader(frame, flexible=False).scalar(Scalar.INT32))


def decode_response(api: Api, version: int, frame: bytes) -> tuple[int, Body]:
    """(correlation id, body) of a response from a frame without its size; raises `WireError`."""
    reader = Reader(frame, flexible=api.response.is_flexible(version))
    try:
        correlation_id: Any = reader.scalar(Scalar.INT32)
        if reader.flexible:
            reader.tags()
    except WireError as error:
        raise WireError(error.problem, "response header", *error.path) from error
    return correlation_id, decode_body(api.response, version, reader.take(reader.left))


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(SIZE_BYTES, "big") + content
