"""The two sockets of a connection through a link, and the streams between them.

If one side ends the connection, the link ends the other. There is one exception: a waiting request still reaches the
broker when it may go on, even if the client has hung up. In a network, a request on its way would not be lost either.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from kafka_chaos.faults.links.relay.connection import Conversation, Exchange
from kafka_chaos.faults.links.relay.rules import REQUEST, RESPONSE
from kafka_chaos.faults.links.relay.stream import Stream

_MOST_QUEUED_BYTES = 1024 * 1024  # bytes that wait to be written to one socket
_MOST_KEPT_BYTES = 128 * 1024 * 1024
"""The number of bytes that may wait in one direction before the link reads no more from their sender."""


class Endpoint(asyncio.Protocol):
    """One of a connection's two sockets; its bytes go to a stream of the pair. `full`: no more can be written to it."""

    transport: asyncio.Transport

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.eof = False
        self.full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read nothing until both sockets are connected."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(_MOST_QUEUED_BYTES)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to the pair."""
        self._pair.received(self, memoryview(data))

    def eof_received(self) -> bool:
        """Note that the peer sends no more. Bytes that are queued are still written (True), but `send` adds none."""
        self.eof = True
        self._pair.update()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the connection is gone."""
        self.eof = True
        self._pair.update()

    def pause_writing(self) -> None:
        """Note that too many bytes wait to be written."""
        self.full = True
        self._pair.update()

    def resume_writing(self) -> None:
        """Note that the socket takes bytes again."""
        self.full = False
        self._pair.update()

    def send(self, data: memoryview) -> None:
        """Write bytes as soon as possible; do nothing if the peer has ended the connection."""
        if not self.eof:
            self.transport.write(data)


class Pair:
    """A client's redirected connection, and the link's own connection to the broker.

    The pair is one of `connections` as long as it is open.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: set[Pair], conversation: Conversation) -> None:
        self._loop = loop
        self._connections = connections
        self.client, self.broker = Endpoint(self), Endpoint(self)
        self.conversation = conversation
        self.requests = Stream(conversation.fate_of_request, self.broker.send, self._hang_up_on_client)
        self.responses = Stream(conversation.fate_of_response, self.client.send, self.close)
        self.is_open = False
        self._timed: dict[str, Exchange] = {}
        """For each side, the last exchange for whose delay a timer was started."""

    async def open(self, accepted: socket.socket, onward: socket.socket) -> None:
        """Begin to relay between these connected sockets: `accepted` from the client, `onward` to the broker."""
        await self._loop.create_connection(lambda: self.broker, sock=onward)
        await self._loop.create_connection(lambda: self.client, sock=accepted)
        self.is_open = True
        self._connections.add(self)
        self.update()

    def stream(self, side: str) -> Stream:
        """The stream of requests or of responses: `side` is REQUEST or RESPONSE."""
        return self.requests if side == REQUEST else self.responses

    def received(self, endpoint: Endpoint, data: memoryview) -> None:
        """Take bytes that came from one of the two sockets."""
        side = REQUEST if endpoint is self.client else RESPONSE
        self.stream(side).feed(data)
        if endpoint is self.client and self.conversation.is_opaque:
            self.responses.opaque = True
        self._time_delay(side)
        self.update()

    def go_on(self, side: str) -> None:
        """Pass on the frame that waits on this side."""
        if side in self.conversation.waiting and self.is_open:
            self.conversation.note_release(side)
            self.stream(side).go_on()
            self._time_delay(side)
            self.update()

    def close(self) -> None:
        """End the connection on both sides."""
        if not self.is_open:
            return
        self.is_open = False
        self.conversation.note_end()
        for endpoint in (self.client, self.broker):
            endpoint.transport.close()
        self._connections.discard(self)

    def update(self) -> None:
        """End a socket if the other one has ended, and read no more from a socket whose bytes can't be kept. Called
        after every change."""
        if not self.is_open:
            return
        if self.broker.eof and (self.client.eof or not self.responses.waits):
            self.close()
            return
        if self.client.eof and not self.requests.waits and self.broker.transport.can_write_eof():
            self.broker.transport.write_eof()
        directions = (self.client, self.broker, self.requests), (self.broker, self.client, self.responses)
        for source, target, stream in directions:
            if target.full or stream.kept >= _MOST_KEPT_BYTES:
                source.transport.pause_reading()
            elif not source.eof:
                source.transport.resume_reading()

    def _time_delay(self, side: str) -> None:
        """Start a timer for the frame that waits on this side, if it waits for a set time and has no timer yet."""
        delayed = self.conversation.waiting.get(side)
        if delayed is None or delayed.seconds is None or self._timed.get(side) is delayed:
            return
        self._timed[side] = delayed

        def end_delay() -> None:
            if self.conversation.waiting.get(side) is delayed:
                self.go_on(side)

        self._loop.call_later(delayed.seconds, end_delay)

    def _hang_up_on_client(self) -> None:
        """End the client's connection only: the request that causes the cut must still reach the broker."""
        self.client.transport.close()
        self.client.eof = True
        self.responses.lose()
