"""The two sockets of a connection through a link, and the streams between them.

A connection ends on both sides where one ends, except that what waits of a client that hung up still reaches the broker
when it may go on: a request on its way is not lost because its sender has lost patience.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from kafka_chaos.faults.links.relay.connection import Conversation, Exchange
from kafka_chaos.faults.links.relay.rules import REQUEST, RESPONSE
from kafka_chaos.faults.links.relay.stream import Stream

_MOST_QUEUED = 1024 * 1024
_MOST_KEPT = 128 * 1024 * 1024
"""Bytes that may wait in a connection before its sender has to."""


class End(asyncio.Protocol):
    """One of a connection's two sockets; what comes from it goes to its stream. `full`: it takes nothing more now."""

    transport: asyncio.Transport

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.eof = False
        self.full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait until both ends are there."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(_MOST_QUEUED)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Let the stream decide."""
        self._pair.received(self, memoryview(data))

    def eof_received(self) -> bool:
        """It sends nothing more, and may still be written to."""
        self.eof = True
        self._pair.settle()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        self.eof = True
        self._pair.settle()

    def pause_writing(self) -> None:
        """Too much waits to be written."""
        self.full = True
        self._pair.settle()

    def resume_writing(self) -> None:
        """There is room again."""
        self.full = False
        self._pair.settle()

    def send(self, data: memoryview) -> None:
        """Write this as soon as it is possible; nothing where it has ended."""
        if not self.eof:
            self.transport.write(data)


class Pair:
    """A connection that was redirected, and the one that goes on to the broker; it is one of `connections` while it
    lasts."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: set[Pair], talk: Conversation) -> None:
        self._loop = loop
        self._connections = connections
        self.client, self.broker = End(self), End(self)
        self.talk = talk
        self.requests = Stream(talk.request, self.broker.send, self._hang_up_on_client)
        self.responses = Stream(talk.response, self.client.send, self.close)
        self.is_open = False
        self._timed: dict[str, Exchange] = {}

    async def open(self, accepted: socket.socket, onward: socket.socket) -> None:
        """Begin on two sockets that are connected."""
        await self._loop.create_connection(lambda: self.broker, sock=onward)
        await self._loop.create_connection(lambda: self.client, sock=accepted)
        self.is_open = True
        self._connections.add(self)
        self.settle()

    def stream(self, side: str) -> Stream:
        """The stream of requests, or of responses."""
        return self.requests if side == REQUEST else self.responses

    def received(self, end: End, data: memoryview) -> None:
        """Take what came from an end."""
        side = REQUEST if end is self.client else RESPONSE
        self.stream(side).feed(data)
        if end is self.client and self.talk.is_opaque:
            self.responses.opaque = True
        self._watch_delay(side)
        self.settle()

    def go_on(self, side: str) -> None:
        """Let what waits pass."""
        if side in self.talk.waiting and self.is_open:
            self.talk.goes_on(side)
            self.stream(side).go_on()
            self._watch_delay(side)
            self.settle()

    def close(self) -> None:
        """End it on both sides."""
        if not self.is_open:
            return
        self.is_open = False
        self.talk.ends()
        for end in (self.client, self.broker):
            end.transport.close()
        self._connections.discard(self)

    def settle(self) -> None:
        """After anything has happened: pass on who has ended, and read only as much as can be kept."""
        if not self.is_open:
            return
        if self.broker.eof and (self.client.eof or not self.responses.waits):
            self.close()
            return
        if self.client.eof and not self.requests.waits and self.broker.transport.can_write_eof():
            self.broker.transport.write_eof()
        ends = (self.client, self.broker, self.requests), (self.broker, self.client, self.responses)
        for end, other, stream in ends:
            if other.full or stream.kept >= _MOST_KEPT:
                end.transport.pause_reading()
            elif not end.eof:
                end.transport.resume_reading()

    def _watch_delay(self, side: str) -> None:
        _, delayed = self.talk.waiting.get(side, (None, None))
        if delayed is None or delayed.seconds is None or self._timed.get(side) is delayed:
            return
        self._timed[side] = delayed

        def is_over() -> None:
            if self.talk.waiting.get(side, (None, None))[1] is delayed:
                self.go_on(side)

        self._loop.call_later(delayed.seconds, is_over)

    def _hang_up_on_client(self) -> None:
        self.client.transport.close()
        self.client.eof = True
        self.responses.lose()
