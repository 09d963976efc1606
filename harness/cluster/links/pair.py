"""The two sockets of a connection through a link, and the streams between them.

A connection ends on both sides where one ends, except that what waits of a client that hung up still reaches the broker
when it may go on: a request on its way is not lost because its sender has lost patience.
"""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from kafka_chaos.harness.cluster.links.connection import Conversation, Exchange
from kafka_chaos.harness.cluster.links.rules import DELAY, REQUEST, RESPONSE
from kafka_chaos.harness.cluster.links.stream import Stream

IN, OUT, GONE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLHUP | select.EPOLLERR
_PIECE = 256 * 1024
FLUSH_INTERVAL = 0.5
_MOST_QUEUED = 1024 * 1024
_MOST_KEPT = 128 * 1024 * 1024
"""Bytes that may wait in a connection before its sender has to."""


class End:
    """One of a connection's two sockets, with what is still to be written to it."""

    def __init__(self, made: socket.socket, *, connected: bool) -> None:
        self.socket = made
        self.fd = made.fileno()
        self.connected = connected
        self.queue: deque[memoryview] = deque()
        self.queued = 0
        self.eof = False
        self.finished = False
        self.mask = 0


class Loop:
    """Serves pairs, and whatever else has something to read, in one thread.

    One buffer takes what is read from any of them (`view`); it has gone on, or was copied, before the next one is read.
    """

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_PIECE))
        self.connections: set[Pair] = set()
        self.numbers = itertools.count(1)
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._closing: list[socket.socket] = []

    def serve(self, fd: int, handler: Callable[[int], None]) -> None:
        """Call `handler` whenever this file has something to read."""
        self._handlers[fd] = handler
        self._poll.register(fd, IN)

    def serve_no_more(self, fd: int) -> None:
        """Call nobody for this file any more."""
        self._poll.unregister(fd)
        del self._handlers[fd]

    def watch(self, pair: Pair, end: End, mask: int) -> None:
        """Wait for these events of an end."""
        if mask == end.mask:
            return
        if not end.mask:
            self._handlers[end.fd] = lambda events: pair.ready(end, events)
            self._poll.register(end.fd, mask)
        elif not mask:
            self.forget(end)
        else:
            self._poll.modify(end.fd, mask)
        end.mask = mask

    def forget(self, end: End) -> None:
        """Wait for nothing of an end."""
        if end.mask:
            self.serve_no_more(end.fd)
            end.mask = 0

    def discard(self, end: End) -> None:
        """Close an end after the events at hand: until then its number belongs to nobody else."""
        self.forget(end)
        self._closing.append(end.socket)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do this in so many seconds."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self.numbers), action))

    def run_once(self) -> None:
        """Wait for the next events, at most until the next timer, and serve them."""
        timeout = FLUSH_INTERVAL
        if self._timers:
            timeout = min(timeout, max(0.0, self._timers[0][0] - time.monotonic()))
        for fd, events in self._poll.poll(timeout):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler(events)
        self.close_discarded()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def close_discarded(self) -> None:
        """Close the ends that were discarded."""
        while self._closing:
            self._closing.pop().close()


class Pair:
    """A connection that was redirected, and the one that goes on to the broker."""

    def __init__(self, loop: Loop, accepted: socket.socket, onward: socket.socket, talk: Conversation) -> None:
        self._loop = loop
        self.client = End(accepted, connected=True)
        self.broker = End(onward, connected=False)
        self.talk = talk
        self.requests = Stream(talk.request, lambda data: self._send(self.broker, data), self._hang_up_on_client)
        self.responses = Stream(talk.response, lambda data: self._send(self.client, data), self.close)
        self.is_closed = False
        self._timed: dict[str, Exchange] = {}

    def stream_of(self, end: End) -> Stream:
        """The stream that reads from an end."""
        return self.requests if end is self.client else self.responses

    def stream(self, side: str) -> Stream:
        """The stream of requests, or of responses."""
        return self.requests if side == REQUEST else self.responses

    def ready(self, end: End, events: int) -> None:
        """Read and write what an end is ready for."""
        if self.is_closed:
            return
        if events & GONE and not events & IN:
            end.eof, end.connected = True, False
            end.queue.clear()
            end.queued = 0
        if events & OUT and not end.eof:
            end.connected = True
            self._write(end)
        if events & IN and not end.eof:
            self._read(end)
        self.settle()

    def go_on(self, side: str) -> None:
        """Let what waits pass."""
        if side in self.talk.waiting and not self.is_closed:
            self.talk.goes_on(side)
            self.stream(side).go_on()
            self._watch_delay(side)
            self.settle()

    def close(self) -> None:
        """End it on both sides."""
        if self.is_closed:
            return
        self.is_closed = True
        self.talk.ends()
        for end in (self.client, self.broker):
            self._loop.discard(end)
        self._loop.connections.discard(self)

    def settle(self) -> None:
        """After anything has happened: pass on who has ended, and wait for what may come next."""
        if self.is_closed:
            return
        broker_is_over = self.broker.eof and not self.responses.waits and not self.client.queue
        if broker_is_over or (self.client.eof and self.broker.eof):
            self.close()
            return
        all_sent = self.broker.connected and not self.broker.queue and not self.requests.waits
        if self.client.eof and all_sent and not self.broker.finished:
            self.broker.finished = True
            with suppress(OSError):
                self.broker.socket.shutdown(socket.SHUT_WR)
        self._watch(self.client, self.broker)
        self._watch(self.broker, self.client)

    def _watch(self, end: End, other: End) -> None:
        mask = 0
        if not end.eof and other.queued < _MOST_QUEUED and self.stream_of(end).kept < _MOST_KEPT:
            mask |= IN
        if end.queue or not (end.connected or end.eof):
            mask |= OUT
        self._loop.watch(self, end, mask)

    def _read(self, end: End) -> None:
        try:
            count = end.socket.recv_into(self._loop.view)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            end.eof = True
            return
        stream = self.stream_of(end)
        stream.feed(self._loop.view[:count])
        if end is self.client and self.talk.is_opaque:
            self.responses.opaque = True
        if stream.waits:
            self._watch_delay(REQUEST if end is self.client else RESPONSE)

    def _watch_delay(self, side: str) -> None:
        rule, delayed = self.talk.waiting.get(side, (None, None))
        if rule is None or delayed is None or rule.action != DELAY or self._timed.get(side) is delayed:
            return
        self._timed[side] = delayed

        def is_over() -> None:
            if self.talk.waiting.get(side, (None, None))[1] is delayed:
                self.go_on(side)

        self._loop.later(rule.seconds, is_over)

    def _send(self, end: End, data: memoryview) -> None:
        if end.eof:
            return
        if end.connected and not end.queue:
            try:
                sent = end.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                end.eof, end.connected = True, False
                return
            data = data[sent:]
        if data:
            end.queue.append(memoryview(bytes(data)))
            end.queued += len(data)

    def _write(self, end: End) -> None:
        while end.queue:
            try:
                sent = end.socket.send(end.queue[0])
            except BlockingIOError:
                return
            except OSError:
                end.eof, end.connected = True, False
                end.queue.clear()
                end.queued = 0
                return
            end.queued -= sent
            if sent < len(end.queue[0]):
                end.queue[0] = end.queue[0][sent:]
                return
            end.queue.popleft()

    def _hang_up_on_client(self) -> None:
        self._loop.discard(self.client)
        self.client.eof, self.client.connected = True, False
        self.responses.lose()
