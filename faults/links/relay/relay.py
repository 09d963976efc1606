"""A transparent TCP proxy: connections to a node pass its link, which applies fault rules and traces requests."""

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.faults.links.relay.connection import Conversation, RelayContext
from kafka_chaos.faults.links.relay.pair import Pair
from kafka_chaos.faults.links.relay.rules import CLIENTS, DROP, REQUEST, RESPONSE, Rule, Tally
from kafka_chaos.faults.namespace import Namespace

_FLUSH_INTERVAL = 0.5  # seconds that a line of the trace may wait to be written
MARK = 0x4B43
"""The mark of the link's own packets, which are not redirected to the link again. (The bytes are `KC` in ASCII.)"""
_SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h


@dataclass(slots=True)
class _AttachedNode:
    """A node whose connections are redirected: its network namespace, the link's listener there, and the rules of the
    packet filter (iptables) that redirect connections to the listener."""

    name: str
    namespace: Namespace
    listener: socket.socket
    packet_filter: str


class Relay:
    """All links of a cluster. `names`: host names by IP address; `ports`: those on which nodes speak Kafka's protocol.

    One event loop, in one thread, serves all connections.
    """

    def __init__(self, names: Mapping[str, str], ports: Iterable[int]) -> None:
        self.loop = asyncio.new_event_loop()
        self.connections: set[Pair] = set()
        self._names = dict(names)
        self._ports = tuple(ports)
        self._attached: dict[str, _AttachedNode] = {}
        self._connection_numbers = itertools.count(1)
        self._opening: set[asyncio.Task[None]] = set()  # The loop itself would not keep these tasks alive.
        self.context = RelayContext()

    def attach(self, name: str, pid: int) -> None:
        """Redirect a node's connections to its link from now on; `pid`: the node's process. Raises `ClusterFailure`."""
        self.detach(name)
        namespace = Namespace(pid)
        listener = namespace.listener()
        packet_filter = redirection(self._ports, listener.getsockname()[1])
        self._attached[name] = _AttachedNode(name, namespace, listener, packet_filter)
        self.loop.add_reader(listener, self._accept, self._attached[name])
        try:
            namespace.run("iptables-restore", "-w", "--noflush", text=packet_filter)
        except ClusterFailure:
            self.detach(name)
            raise

    def detach(self, name: str) -> None:
        """Let new connections reach the node directly again, and end the connections that pass its link."""
        attached = self._attached.pop(name, None)
        if attached is None:
            return
        if attached.namespace.exists():
            # The node may be ending, and its packet filter with it.
            with suppress(ClusterFailure, OSError):
                attached.namespace.run("iptables-restore", "-w", "--noflush", text=removal_of(attached.packet_filter))
        self.loop.remove_reader(attached.listener)
        attached.listener.close()
        attached.namespace.close()
        for connection in [pair for pair in self.connections if pair.conversation.node == name]:
            connection.close()

    def apply(self, rule: Rule) -> None:
        """Add a rule, unless a rule with the same id exists."""
        self.context.tallies.setdefault(rule.id, Tally(rule))

    def lift(self, rule_id: str, *, release: bool) -> None:
        """Remove a rule. With `release`, frames that it delays continue; the connections of all others are closed."""
        if self.context.tallies.pop(rule_id, None) is None:
            return
        for connection in list(self.connections):
            for side in (REQUEST, RESPONSE):
                exchange = connection.conversation.waiting.get(side)
                if exchange is None or exchange.fault["rule"] != rule_id:
                    continue
                # A connection with a lost frame is closed: otherwise it stays silent until its client gives it up.
                if release and exchange.fault["action"] != DROP:
                    connection.go_on(side)
                else:
                    connection.close()

    def trace_to(self, path: Path | None, *, controllers: bool = False) -> None:
        """Write exchanges to the file `path` from now on, and no longer to an earlier file; None ends the trace.

        `controllers`: write the requests of controllers to brokers (ZooKeeper mode) with whole bodies and responses.
        """
        if self.context.trace is not None:
            for connection in self.connections:
                connection.conversation.trace_unanswered()
            self.context.trace.close()
        self.context.trace = None if path is None else path.open("a", encoding="utf-8")
        self.context.traces_controllers = controllers

    def serve(self, fd: int, read: Callable[[], bool]) -> None:
        """Serve all connections; call `read` whenever the file `fd` can be read, and end once `read` returns True."""

        def on_readable() -> None:
            if read():
                self.loop.remove_reader(fd)
                self.loop.stop()

        self.loop.add_reader(fd, on_readable)
        self._flush()
        self.loop.run_forever()

    def close(self) -> None:
        """Remove every link, and end the event loop: the relay can't be used again."""
        for name in list(self._attached):
            self.detach(name)
        self.trace_to(None)
        for connection in list(self.connections):
            connection.close()
        # asyncio closes the sockets only in the next turn of the loop.
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def _flush(self) -> None:
        if self.context.trace is not None:
            self.context.trace.flush()
        self.loop.call_later(_FLUSH_INTERVAL, self._flush)

    def _accept(self, node: _AttachedNode) -> None:
        try:
            accepted, (address, _) = node.listener.accept()
        except OSError:
            return
        opening = self.loop.create_task(self._open(node, accepted, self._names.get(address, CLIENTS)))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, node: _AttachedNode, accepted: socket.socket, peer: str) -> None:
        onward = None
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The address to which the client connected, before the redirection: family, port and IPv4 address.
            raw = accepted.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
            destination = socket.inet_ntoa(raw[4:8]), int.from_bytes(raw[2:4], "big")
            onward = node.namespace.connection(mark=MARK)
            await self.loop.sock_connect(onward, destination)
        except OSError:
            accepted.close()
            if onward is not None:
                onward.close()
            return
        conversation = Conversation(self.context, next(self._connection_numbers), node.name, destination[1], peer)
        pair = Pair(self.loop, self.connections, conversation)
        await pair.open(accepted, onward)
        if self._attached.get(node.name) is not node:  # The node was detached meanwhile.
            pair.close()


def redirection(ports: Sequence[int], listener_port: int) -> str:
    """The input of iptables-restore that redirects new connections to `ports` to the link's listener.

    Connections of the container to itself are redirected, too. Connections that began before can't be redirected: they
    are reset, so that none bypasses the link.
    """
    nat: list[str] = []
    filters: list[str] = []
    for port in ports:
        from_others = f"! -i lo -p tcp --dport {port}"
        from_itself = f"-o lo -p tcp --dport {port} -m mark ! --mark {MARK:#x}"
        redirect, reset = f"-j REDIRECT --to-ports {listener_port}", "-j REJECT --reject-with tcp-reset"
        nat += [f"-A PREROUTING {from_others} {redirect}", f"-A OUTPUT {from_itself} {redirect}"]
        filters += [f"-A INPUT {from_others} {reset}", f"-A OUTPUT {from_itself} {reset}"]
    return "\n".join(["*nat", *nat, "COMMIT", "*filter", *filters, "COMMIT", ""])


def removal_of(packet_filter: str) -> str:
    """The input of iptables-restore that removes the rules that the input `packet_filter` added."""
    return packet_filter.replace("-A ", "-D ")
