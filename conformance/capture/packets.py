"""Packets to exchanges: TCP streams put together, cut into frames, requests matched with their responses.

Guarantee: an exchange is reported only for a request that was decoded from a stream without holes. A hole costs what
lies there, is counted, and ends at the next packet that begins with a frame. So does the beginning of a connection that
was met in the middle, which counts as lost only if no request ever follows: what was under way then was sent before.
Packets may come twice and out of order; no packet makes this raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import dpkt
from dpkt.utils import inet_to_str

from kafka_chaos.harness.cluster.wire.codec import Body
from kafka_chaos.harness.cluster.wire.frames import (
    MAX_FRAME,
    SIZE_BYTES,
    decode_request,
    decode_response,
    read_correlation_id,
    read_request_header,
)
from kafka_chaos.harness.cluster.wire.messages import APIS
from kafka_chaos.harness.cluster.wire.primitives import WireError

_SEQUENCES = 1 << 32
_MAX_WAITING = 128
"""So many segments behind a hole are waited with; then what is missing counts as lost."""
_SMALLEST_REQUEST = 10
_LONGEST_CLIENT_ID = 250
_OTHER_KINDS = range(128)
_VERSIONS = range(32)
"""Wider than what Kafka uses: keys up to 92 and versions up to 17 in 4.0."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request as sent, and its response as answered; None while there is none.

    Times are nanoseconds since the epoch, when the last byte passed the broker's network interface, in the kernel's
    microseconds. `peer` is the address of who sent it.
    """

    broker: int
    peer: str
    connection: int
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    request: Body
    sent_ns: int
    response: Body | None = None
    answered_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP packet, as far as streams need it."""

    source: tuple[str, int]
    target: tuple[str, int]
    sequence: int
    flags: int
    payload: bytes
    time_ns: int


def parse_packet(packet: bytes, time_ns: int) -> Segment | None:
    """A packet with a Linux-cooked header (LINUX_SLL) as a TCP segment; None for anything else."""
    try:
        network = dpkt.sll.SLL(packet).data
    except (dpkt.UnpackError, AttributeError):  # The latter for some damaged IPv6 headers.
        return None
    transport = getattr(network, "data", None)
    if not isinstance(transport, dpkt.tcp.TCP):
        return None
    source, target = (inet_to_str(network.src), transport.sport), (inet_to_str(network.dst), transport.dport)
    return Segment(source, target, transport.seq, transport.flags, transport.data, time_ns)


@dataclass(slots=True)
class _Stream:
    """One direction of a connection: segments in, frames out.

    `begins` tells whether a payload looks like the beginning of a frame: asked while the place in the stream is
    unknown. `lost` counts bytes that could not be used, `skipped` those before the first frame.
    """

    begins: Callable[[bytes], bool]
    lost: int = 0
    skipped: int = 0
    met: bool = False
    _next: int = -1
    """The position of the next byte; -1 before the first segment."""
    _in_step: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _waiting: dict[int, bytes] = field(default_factory=dict)

    def open(self, sequence: int) -> None:
        """The connection begins behind this sequence number; said twice, it is the same connection."""
        first = sequence + 1
        if not (self._in_step and self._position(first) == self._next):
            self._next, self._in_step, self.met = first, True, True
            self._buffer.clear()
            self._waiting.clear()

    def add(self, segment: Segment) -> Iterator[bytes]:
        """Take a segment; the frames that it completes, without their sizes."""
        if not segment.payload:
            return
        if self._next < 0:
            self._next = segment.sequence
        position = self._position(segment.sequence)
        self._waiting[position] = max(segment.payload, self._waiting.get(position, b""), key=len)
        yield from self._frames()
        if len(self._waiting) > _MAX_WAITING:
            self._skip_hole()
            yield from self._frames()

    def get_out_of_step(self) -> None:
        """The last bytes were not a frame: start again at the next packet that looks like one."""
        self.lost += len(self._buffer)
        self._buffer.clear()
        self._in_step = False

    def _frames(self) -> Iterator[bytes]:
        while (payload := self._following()) is not None:
            if not self._in_step and not self.begins(payload):
                if self.met:
                    self.lost += len(payload)
                else:
                    self.skipped += len(payload)
                continue
            self._in_step = self.met = True
            self._buffer += payload
            while self._in_step and len(self._buffer) >= SIZE_BYTES:
                size = int.from_bytes(self._buffer[:SIZE_BYTES], "big")
                if size > MAX_FRAME:
                    self.get_out_of_step()
                elif len(self._buffer) < SIZE_BYTES + size:
                    break
                else:
                    frame = bytes(self._buffer[SIZE_BYTES : SIZE_BYTES + size])
                    del self._buffer[: SIZE_BYTES + size]
                    yield frame

    def _following(self) -> bytes | None:
        """The bytes at the stream's place, out of what waits; what lies before it is dropped."""
        while self._waiting and (position := min(self._waiting)) <= self._next:
            payload = self._waiting.pop(position)[self._next - position :]
            if payload:
                self._next += len(payload)
                return payload
        return None

    def _skip_hole(self) -> None:
        nearest = min(self._waiting)
        self.lost += nearest - self._next
        self.get_out_of_step()
        self._next = nearest

    def _position(self, sequence: int) -> int:
        """A sequence number, which wraps around, as a place in the stream, which does not."""
        half = _SEQUENCES // 2
        return self._next + (sequence - self._next + half) % _SEQUENCES - half


class _Connection:
    """Both directions of a connection to the broker, and the requests that wait for their answers."""

    def __init__(self) -> None:
        self.unanswered: dict[int, int | None] = {}
        self.requests = _Stream(_begins_a_request)
        self.responses = _Stream(self._begins_a_response)

    @property
    def lost(self) -> int:
        """Bytes in both directions."""
        never_read = 0 if self.requests.met else self.requests.skipped
        return self.requests.lost + self.responses.lost + never_read

    def _begins_a_response(self, payload: bytes) -> bool:
        return len(payload) >= 2 * SIZE_BYTES and int.from_bytes(payload[4:8], "big", signed=True) in self.unanswered


class Decoder:
    """The exchanges of one broker's listener from its packets, in the order of the requests.

    `listener` is the broker's own address and port: a controller's packets to its peers' same port pass by, too.
    """

    def __init__(self, broker: int, listener: tuple[str, int]) -> None:
        self.broker = broker
        self.listener = listener
        self.exchanges: list[Exchange] = []
        self.problems: list[str] = []
        self._connections: dict[tuple[str, int], _Connection] = {}

    @property
    def lost_bytes(self) -> int:
        """Bytes that were seen or known to be there, and belong to no message."""
        return sum(connection.lost for connection in self._connections.values())

    def add(self, segment: Segment) -> None:
        """Take a segment."""
        if segment.target == self.listener:
            connection = self._connections.setdefault(segment.source, _Connection())
            if segment.flags & dpkt.tcp.TH_SYN:
                connection.requests.open(segment.sequence)
            for frame in connection.requests.add(segment):
                self._take_request(connection, segment, frame)
        elif segment.source == self.listener:
            connection = self._connections.setdefault(segment.target, _Connection())
            if segment.flags & dpkt.tcp.TH_SYN:
                connection.responses.open(segment.sequence)
            for frame in connection.responses.add(segment):
                self._take_response(connection, segment, frame)

    def _take_request(self, connection: _Connection, segment: Segment, frame: bytes) -> None:
        try:
            header, _ = read_request_header(frame)
            # A repeated id is that of a new connection with the ports of an old one.
            connection.unanswered[header.correlation_id] = None
            if header.api_key not in APIS:
                return
            request = decode_request(frame)
        except WireError as error:
            self._complain(connection.requests, segment, error)
            return
        connection.unanswered[header.correlation_id] = len(self.exchanges)
        self.exchanges.append(
            Exchange(
                broker=self.broker,
                peer=segment.source[0],
                connection=segment.source[1],
                api=request.api.name,
                version=header.version,
                correlation_id=header.correlation_id,
                client_id=header.client_id,
                request=request.body,
                sent_ns=segment.time_ns,
            )
        )

    def _take_response(self, connection: _Connection, segment: Segment, frame: bytes) -> None:
        try:
            index = connection.unanswered.pop(read_correlation_id(frame), None)
            if index is None:
                return
            exchange = self.exchanges[index]
            _, response = decode_response(_BY_NAME[exchange.api], exchange.version, frame)
        except WireError as error:
            self._complain(connection.responses, segment, error)
            return
        self.exchanges[index] = replace(exchange, response=response, answered_ns=segment.time_ns)

    def _complain(self, stream: _Stream, segment: Segment, error: WireError) -> None:
        stream.get_out_of_step()
        source, target = (f"{host}:{port}" for host, port in (segment.source, segment.target))
        self.problems.append(f"{source} to {target}: {error}")


_BY_NAME = {api.name: api for api in APIS.values()}


def _begins_a_request(payload: bytes) -> bool:
    """Whether a request begins here, as far as a header can tell.

    Of the three kinds a beginning is enough. Brokers also send the controller requests of other kinds, such as
    AlterPartition: less is known of those, so the packet has to hold exactly one.
    """
    size = int.from_bytes(payload[:SIZE_BYTES], "big")
    if not _SMALLEST_REQUEST <= size <= MAX_FRAME:
        return False
    try:
        header, _ = read_request_header(payload[SIZE_BYTES:])
    except WireError:
        return False
    name = header.client_id or ""
    if len(name) > _LONGEST_CLIENT_ID or not name.isprintable():
        return False
    api = APIS.get(header.api_key)
    if api is not None:
        return header.version <= api.newest
    whole = len(payload) == SIZE_BYTES + size
    return whole and header.api_key in _OTHER_KINDS and header.version in _VERSIONS and header.correlation_id >= 0
