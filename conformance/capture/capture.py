"""What controllers really send to brokers, and what brokers answer, taken off the brokers' own network interfaces.

Guarantee: every packet from the beginning of the `with` block to its end is captured, or `Capture.lost` is not empty.

No proxy comes between the two: tcpdump in each broker's container copies the packets to and from the control-plane
port, and packets.py puts them together here. tcpdump ends with the block, or when this process dies. In a broker that
is killed it ends with the broker, and `follow` captures the broker's next start. See
docs/decisions/0004-capture-and-codec.md.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import dpkt

from kafka_chaos.conformance.capture.packets import Decoder, Exchange, parse_packet
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROL_PORT
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until

if TYPE_CHECKING:
    from kafka_chaos.harness.cluster.node import Node

READY_TIMEOUT = 20.0
_FRAME_HEADER = 8
_COMMANDS = """
tcpdump -i any -y LINUX_SLL -B 16384 -U -w - port "$1" & tcpdump=$!
(while read -r _; do echo >"/dev/udp/127.0.0.1/$1"; done; kill $tcpdump) <&0 & reader=$!
wait $tcpdump
kill $reader
wait
"""
"""For bash; $1 is the port. When standard input ends, so does tcpdump; it silently drops packets that it has not read.
Therefore each line of standard input sends a UDP datagram to the port: when it arrives, so have all packets before it.
"""


class Capture:
    """A capture on some brokers; a context manager.

    Only plain text can be read: not a listener with TLS. Raises `ClusterFailure` where it can't be set up.
    """

    def __init__(self, nodes: Iterable[Node], *, port: int = CONTROL_PORT) -> None:
        self._nodes = tuple(nodes)
        self._port = port
        self._sniffers: list[_Sniffer] = []
        self._stack = ExitStack()

    def __enter__(self) -> Capture:
        with ExitStack() as stack:
            for node in self._nodes:
                self._sniff(node, stack)
            for sniffer in self._sniffers:
                sniffer.await_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._stack, suppress(ClusterFailure):
            self._await_all_so_far()

    def follow(self, node: Node) -> None:
        """Capture a broker that was started again, or one more."""
        self._sniff(node, self._stack).await_ready()

    def exchanges(self) -> tuple[Exchange, ...]:
        """All requests in the order in which they passed, each with its answer if there is one yet.

        The kernel hands packets to tcpdump every second. At the end of the `with` block, all of them have been read.
        """
        found = [exchange for sniffer in self._sniffers for exchange in sniffer.exchanges()]
        return tuple(sorted(found, key=lambda exchange: exchange.sent_ns))

    def await_exchange(self, wanted: Callable[[Exchange], bool], what: str, *, timeout: float = 20.0) -> Exchange:
        """Wait for the first exchange, answer included, that `wanted` takes; `what` names it in the time-out."""
        return wait_until(
            lambda: next((e for e in self.exchanges() if e.response is not None and wanted(e)), None),
            what,
            timeout=timeout,
            seen=lambda: ", ".join(f"{e.api} v{e.version} to broker {e.broker}" for e in self.exchanges()[-10:]),
        )

    def await_answers(self, *, timeout: float = 20.0) -> None:
        """Wait until every request so far has been answered."""
        self._await_all_so_far()
        wait_until(
            lambda: all(exchange.response is not None for exchange in self.exchanges()),
            "every captured request to be answered",
            timeout=timeout,
            seen=lambda: ", ".join(f"{e.api} to broker {e.broker}" for e in self.exchanges() if e.response is None),
        )

    @property
    def lost(self) -> str:
        """What was not captured, in words; an empty text where all was. Complete once the block has been left."""
        return "; ".join(text for sniffer in self._sniffers for text in sniffer.lost())

    def _await_all_so_far(self) -> None:
        for sniffer in self._sniffers:
            sniffer.mark()
        for sniffer in self._sniffers:
            sniffer.await_mark()

    def _sniff(self, node: Node, stack: ExitStack) -> _Sniffer:
        sniffer = stack.enter_context(_Sniffer(node, self._port))
        self._sniffers.append(sniffer)
        return sniffer


class _Sniffer:
    """tcpdump in one container, and the thread that reads what it writes."""

    def __init__(self, node: Node, port: int) -> None:
        from docker.errors import APIError

        self._node = node
        self._decoder = Decoder(node.number, (node.address, port))
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._marked = threading.Event()
        # Not the container's own client, which loses what comes together with the answer's headers (decision 0004).
        self._api: Any = docker_client().api
        command = ["bash", "-c", _COMMANDS, "capture", str(port)]
        try:
            self._execution = self._api.exec_create(node.container.id, command, stdin=True)["Id"]
        except APIError as error:
            raise ClusterFailure(f"{node.name}: no capture on it: {error.explanation}") from error
        self._thread = threading.Thread(target=self._read, name=f"capture-{node.name}", daemon=True)

    def __enter__(self) -> _Sniffer:
        self._socket = self._api.exec_start(self._execution, socket=True)
        self._output = _Output(self._socket)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):
            _connection(self._socket).shutdown(socket.SHUT_WR)
        self._thread.join(READY_TIMEOUT)
        # A frozen process says nothing more: the thread that waits for it is woken by the end of the connection.
        with suppress(OSError):
            _connection(self._socket).shutdown(socket.SHUT_RDWR)
        self._thread.join(READY_TIMEOUT)
        with suppress(OSError):
            self._socket.close()
        if self._thread.is_alive() and kind is None:
            raise ClusterFailure(f"{self._node.name}: the capture's thread did not end within {READY_TIMEOUT} s")

    def await_ready(self) -> None:
        """Wait until packets are captured."""
        self._await(self._ready, "the capture on")
        if not self._ready.is_set():
            raise ClusterFailure(f"{self._node.name}: no capture, tcpdump ended: {self._output.complaints}")

    def mark(self) -> None:
        """Send a datagram after the packets so far."""
        self._marked.clear()
        with suppress(OSError):
            _connection(self._socket).sendall(b"\n")

    def await_mark(self) -> None:
        """Wait until the datagram has arrived, or the capture has ended."""
        self._await(self._marked, "the captured packets of")

    def _await(self, event: threading.Event, what: str) -> None:
        wait_until(
            lambda: event.is_set() or not self._thread.is_alive(),
            f"{what} {self._node.name}",
            timeout=READY_TIMEOUT,
            interval=0.01,
        )

    def exchanges(self) -> list[Exchange]:
        """Those so far."""
        with self._lock:
            return list(self._decoder.exchanges)

    def lost(self) -> Iterator[str]:
        """What this capture misses."""
        with self._lock:
            if self._decoder.lost_bytes:
                yield f"{self._node.name}: {self._decoder.lost_bytes} bytes belong to no message"
            yield from (f"{self._node.name}: {problem}" for problem in self._decoder.problems)
        dropped = re.search(r"(\d+) packets? dropped by kernel", self._output.complaints)
        if dropped and int(dropped[1]):
            yield f"{self._node.name}: the kernel dropped {dropped[1]} packets"
        whole = dropped is not None and self._marked.is_set()
        if not whole and not self._thread.is_alive() and self._node.is_running():
            yield f"{self._node.name}: the capture broke off before its end: {self._output.complaints}"

    def _read(self) -> None:
        # A broken connection is the end of the capture; that it came early shows in the missing statistics.
        with suppress(OSError, ValueError, dpkt.UnpackError):
            packets = dpkt.pcap.Reader(self._output)
            # tcpdump writes the file's header only after the kernel has begun to collect packets.
            self._ready.set()
            for seconds, packet in packets:
                segment = parse_packet(packet, round(seconds * 1_000_000) * 1000)
                if segment is None:  # The datagram: the filter lets only it and TCP through.
                    self._marked.set()
                    continue
                with self._lock:
                    self._decoder.add(segment)


class _Output:
    """A process's standard output as a file, and what it wrote to standard error.

    The engine sends frames: one byte for the stream, and at offset 4 four bytes for the length. The SDK's own reader
    waits for the connection without checking what has already been read.
    """

    def __init__(self, stream: Any) -> None:
        self._receive = _connection(stream).recv
        self._buffer = bytearray()
        self._errors = b""

    @property
    def complaints(self) -> str:
        """Standard error so far."""
        return self._errors.decode(errors="replace").strip()

    def read(self, size: int) -> bytes:
        """`size` bytes of standard output; fewer where the connection ends."""
        from docker.utils.socket import STDERR

        while len(self._buffer) < size and (header := self._exactly(_FRAME_HEADER)):
            piece = self._exactly(int.from_bytes(header[4:], "big"))
            if header[0] == STDERR:
                self._errors += piece
            else:
                self._buffer += piece
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    def _exactly(self, size: int) -> bytes:
        """`size` bytes of the connection, none where it ends before."""
        found = b""
        while len(found) < size and (piece := self._receive(size - len(found))):
            found += piece
        return found if len(found) == size else b""


def _connection(stream: Any) -> Any:
    """What docker-py gives for a socket: on Linux a SocketIO over the real one."""
    return getattr(stream, "_sock", stream)
