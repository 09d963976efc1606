"""The headers of Kafka's frames: enough to tell one request from another.

Source: https://kafka.apache.org/protocol.html#protocol_messages (request header v1 and v2, response header v0 and v1).
"""

import struct
from dataclasses import dataclass
from difflib import get_close_matches

from kafka_chaos.contract.wire.kafka_python import ApiKey

SIZE_BYTES = 4
MAX_FRAME_BYTES = 100 * 2**20
"""The default of `socket.request.max.bytes`: a greater number is not the size of a Kafka frame."""

PRODUCE, FETCH, METADATA, SASL_HANDSHAKE = 0, 1, 3, 17

API_NAMES: dict[int, str] = {key.value: key.name for key in ApiKey}  # Kafka's name of each API by its key
API_KEYS = {name: key for key, name in API_NAMES.items()}
_HEADER = struct.Struct(">hhih")  # API key, version, correlation id, and length of the client id (−1: none)
_INT32 = struct.Struct(">i")
_VERSION_LIMIT = 40  # more versions than any API has: bytes with a greater number are not a request


def why_no_api(name: str) -> str | None:
    """Why this is not the name of a Kafka request, with similar names; None if it is."""
    if name in API_KEYS:
        return None
    near = ", ".join(get_close_matches(name, API_KEYS)) or "Kafka's names, such as Produce"
    return f"{name!r} is no Kafka request: expected {near}"


@dataclass(slots=True)
class Header:
    """A request's header. `body` is the position of its body, or of the tagged fields of a flexible version."""

    api: int
    version: int
    correlation_id: int
    client_id: str
    body: int

    @property
    def name(self) -> str:
        """The API's name."""
        return API_NAMES[self.api]


def frame_size(data: memoryview, position: int) -> int:
    """The size in bytes of the frame at `position`, without its size field; −1 if no Kafka frame begins there."""
    size = int(_INT32.unpack_from(data, position)[0])
    return size if 0 <= size <= MAX_FRAME_BYTES else -1


def with_size(frame: bytes) -> bytes:
    """A frame with its size field before it."""
    return _INT32.pack(len(frame)) + frame


def read_header(frame: memoryview) -> Header | None:
    """The header of a request; None if the frame is no Kafka request."""
    if len(frame) < _HEADER.size:
        return None
    api, version, correlation_id, length = _HEADER.unpack_from(frame)
    end = _HEADER.size + max(0, length)
    if api not in API_NAMES or not 0 <= version < _VERSION_LIMIT or length < -1 or end > len(frame):
        return None
    client_id = bytes(frame[_HEADER.size : end]).decode(errors="replace")
    return Header(api, version, correlation_id, client_id, end)


def read_correlation_id(frame: memoryview) -> int:
    """The correlation id of a response, the same as in its request. `frame`: the response without its size field."""
    return int(_INT32.unpack_from(frame)[0])
