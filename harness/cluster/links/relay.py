"""The loop that serves all links of a cluster, in one thread, with every socket non-blocking.

One buffer takes what is read from any of them; it has gone on, or was copied, before the next one is read.
"""

from __future__ import annotations

import heapq
import itertools
import json
import select
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kafka_chaos.harness.cluster.links.connection import Conversation, Counts, Exchange, RelayContext
from kafka_chaos.harness.cluster.links.contents import MessageDecoder
from kafka_chaos.harness.cluster.links.pair import IN, End, Loop, Pair
from kafka_chaos.harness.cluster.links.rules import CLIENTS, DROP, REQUEST, RESPONSE, Rule, Tally
from kafka_chaos.harness.cluster.namespace import Namespace
from kafka_chaos.harness.errors import ClusterFailure

_PIECE = 256 * 1024
_FLUSH_INTERVAL = 0.5


@dataclass(slots=True)
class _Attached:
    """A node with its namespace, and the rules that lead to the listener."""

    name: str
    namespace: Namespace
    listener: socket.socket
    rules: str


class Relay(RelayContext, Loop):
    """All links of a cluster. `names`: host names by address; `ports`: those on which nodes speak Kafka's protocol."""

    def __init__(self, names: Mapping[str, str], ports: Iterable[int]) -> None:
        self._names = dict(names)
        self._ports = tuple(ports)
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._attached: dict[str, _Attached] = {}
        self._tallies: dict[str, Tally] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self._closing: list[socket.socket] = []
        self._trace: IO[str] | None = None
        self._flush_at = 0.0
        self.view = memoryview(bytearray(_PIECE))
        self.connections: set[Pair] = set()
        self.decoder = MessageDecoder()
        self.traces_controllers = False
        self.counts = Counts()

    def attach(self, name: str, pid: int) -> None:
        """Redirect what goes to a node from now on. Raises `ClusterFailure`."""
        self.detach(name)
        namespace = Namespace(pid)
        listener = namespace.listener()
        rules = redirection(self._ports, listener.getsockname()[1])
        self._attached[name] = _Attached(name, namespace, listener, rules)
        self.serve(listener.fileno(), lambda _: self._accept(self._attached[name]))
        try:
            namespace.run("iptables-restore", "-w", "--noflush", text=rules)
        except ClusterFailure:
            self.detach(name)
            raise

    def detach(self, name: str) -> None:
        """Let connections to a node go their own way again; those through its link end."""
        found = self._attached.pop(name, None)
        if found is None:
            return
        if found.namespace.runs():
            # The node may be about to end, and its rules with it.
            with suppress(ClusterFailure, OSError):
                found.namespace.run("iptables-restore", "-w", "--noflush", text=undone(found.rules))
        self._poll.unregister(found.listener.fileno())
        del self._handlers[found.listener.fileno()]
        found.listener.close()
        found.namespace.close()
        for connection in [one for one in self.connections if one.talk.node == name]:
            connection.close()

    def apply(self, rule: Rule) -> None:
        """Let a rule begin, unless it has begun."""
        self._tallies.setdefault(rule.id, Tally(rule))

    def lift(self, rule_id: str, *, release: bool) -> None:
        """Let a rule end. What it holds goes on, or (without `release`) is lost with its connection."""
        tally = self._tallies.pop(rule_id, None)
        if tally is None:
            return
        for connection in list(self.connections):
            for side in (REQUEST, RESPONSE):
                rule, _ = connection.talk.waiting.get(side, (None, None))
                if rule is None or rule.id != rule_id:
                    continue
                # A connection on which something got lost would be silent until its client loses patience.
                if release and rule.action != DROP:
                    connection.go_on(side)
                else:
                    connection.close()

    def tally(self, rule_id: str) -> Tally | None:
        """What a rule has done so far; None where it does not apply."""
        return self._tallies.get(rule_id)

    def tallies(self) -> Iterable[Tally]:
        return self._tallies.values()

    @property
    def waiting(self) -> int:
        """How many frames wait now."""
        return sum(one.requests.waits + one.responses.waits for one in self.connections)

    @property
    def traces(self) -> bool:
        return self._trace is not None

    @property
    def unanswered(self) -> int:
        """How many requests of controllers have no answer yet."""
        return sum(one.talk.unanswered() for one in self.connections)

    def trace_to(self, path: Path | None, *, controllers: bool = False) -> None:
        """Record exchanges in this file from now on, in place of another; None ends it.

        `controllers`: record all that controllers ask brokers in ZooKeeper mode, and all of the answers.
        """
        if self._trace is not None:
            for connection in self.connections:
                connection.talk.record_unanswered()
            self._trace.close()
        self._trace = None if path is None else path.open("a", encoding="utf-8")
        self.traces_controllers = controllers

    def record(self, conversation: Conversation, exchange: Exchange) -> None:
        if self._trace is not None:
            json.dump(conversation.line(exchange), self._trace, separators=(",", ":"), default=str)
            self._trace.write("\n")

    def serve(self, fd: int, handler: Callable[[int], None]) -> None:
        """Call `handler` whenever this file has something to read."""
        self._handlers[fd] = handler
        self._poll.register(fd, IN)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), action))

    def watch(self, pair: Pair, end: End, mask: int) -> None:
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
            self._poll.unregister(end.fd)
            del self._handlers[end.fd]
            end.mask = 0

    def ended(self, pair: Pair) -> None:
        self.connections.discard(pair)

    def discard(self, end: End) -> None:
        """Close an end after the events at hand: until then its number belongs to nobody else."""
        self.forget(end)
        self._closing.append(end.socket)

    def run_once(self) -> None:
        """Wait for the next events, at most until the next timer, and serve them."""
        timeout = _FLUSH_INTERVAL
        if self._timers:
            timeout = min(timeout, max(0.0, self._timers[0][0] - time.monotonic()))
        for fd, events in self._poll.poll(timeout):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler(events)
        while self._closing:
            self._closing.pop().close()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        if self._trace is not None and now >= self._flush_at:
            self._trace.flush()
            self._flush_at = now + _FLUSH_INTERVAL

    def close(self) -> None:
        """Take every link away."""
        for name in list(self._attached):
            self.detach(name)
        self.trace_to(None)
        while self._closing:
            self._closing.pop().close()

    def _accept(self, node: _Attached) -> None:
        try:
            accepted, (address, _) = node.listener.accept()
        except OSError:
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            destination = original_destination(accepted)
            onward = node.namespace.connection(destination, mark=MARK)
        except OSError:
            accepted.close()
            return
        peer = self._names.get(address, CLIENTS)
        talk = Conversation(self, next(self._numbers), node.name, destination[1], peer)
        connection = Pair(self, accepted, onward, talk)
        self.connections.add(connection)
        connection.settle()


MARK = 0x4B43
"""The mark of a link's own packets, which no rule sends back to it. (`KC`, in hexadecimal.)"""

_SO_ORIGINAL_DST = 80


def original_destination(accepted: socket.socket) -> tuple[str, int]:
    """Where a redirected connection was to go."""
    raw = accepted.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    return socket.inet_ntoa(raw[4:8]), int.from_bytes(raw[2:4], "big")


def redirection(ports: Sequence[int], listener: int) -> str:
    """iptables-restore's words that send new connections to these ports to the listener.

    They end, by a reset, connections that began before: nobody talks to a broker past its link. Connections of the
    container to itself go there too.
    """
    marked = f"-m mark ! --mark {MARK:#x}"
    nat = [
        line
        for port in ports
        for line in (
            f"-A PREROUTING ! -i lo -p tcp --dport {port} -j REDIRECT --to-ports {listener}",
            f"-A OUTPUT -o lo -p tcp --dport {port} {marked} -j REDIRECT --to-ports {listener}",
        )
    ]
    reset = "-j REJECT --reject-with tcp-reset"
    filters = [
        line
        for port in ports
        for line in (
            f"-A INPUT ! -i lo -p tcp --dport {port} {reset}",
            f"-A OUTPUT -o lo -p tcp --dport {port} {marked} {reset}",
        )
    ]
    return "\n".join(["*nat", *nat, "COMMIT", "*filter", *filters, "COMMIT", ""])


def undone(rules: str) -> str:
    """The words that remove the same rules."""
    return rules.replace("-A ", "-D ")
