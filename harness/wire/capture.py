"""What controllers really send to brokers, and what brokers answer, taken off the brokers' own network interfaces.

Nothing stands between the two: a process in each broker's container reads copies of the packets to and from the
control-plane port (sniff.pl), they are put together here (packets.py). What is captured begins when the `with` block
does. The processes end with the block, or when this process dies; one of a broker that is killed ends with it, and
`follow` takes up the broker's next start. See docs/decisions/0004-capture-and-codec.md.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from importlib.resources import files
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafka_chaos.harness.engine import docker_client
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.server_properties import CONTROL_PORT
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.wire.packets import Decoder, Exchange, parse_packet

if TYPE_CHECKING:
    from kafka_chaos.harness.node import Node

READY_TIMEOUT = 20.0
_LENGTH_BYTES = 4
_FRAME_HEADER = 8


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
                stack.enter_context(self._sniff(node))
            for sniffer in self._sniffers:
                sniffer.await_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def follow(self, node: Node) -> None:
        """Capture a broker that was started again, or one more."""
        sniffer = self._stack.enter_context(self._sniff(node))
        sniffer.await_ready()

    def exchanges(self) -> tuple[Exchange, ...]:
        """All requests so far in the order in which they passed, each with its answer if there is one yet."""
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

    def _sniff(self, node: Node) -> _Sniffer:
        sniffer = _Sniffer(node, self._port)
        self._sniffers.append(sniffer)
        return sniffer


class _Sniffer:
    """The process in one container, and the thread that reads what it writes."""

    def __init__(self, node: Node, port: int) -> None:
        from docker.errors import APIError

        self._node = node
        self._decoder = Decoder(node.number, (node.address, port))
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._complaints = b""
        self._dropped: int | None = None
        # Not the container's own client, which loses what comes together with the answer's headers (decision 0035).
        self._api: Any = docker_client().api
        script = files("kafka_chaos.harness.wire").joinpath("sniff.pl").read_text()
        # The shell's exit code tells a missing perl.
        command = ["sh", "-c", f"exec perl -e {shlex.quote(script)} {port}"]
        try:
            self._execution = self._api.exec_create(node.container.id, command, stdin=True)["Id"]
        except APIError as error:
            raise ClusterFailure(f"{node.name}: no capture on it: {error.explanation}") from error
        self._thread = threading.Thread(target=self._read, name=f"capture-{node.name}", daemon=True)

    def __enter__(self) -> _Sniffer:
        self._socket = self._api.exec_start(self._execution, socket=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The end of its standard input ends the process; its last words are the statistics.
        with suppress(OSError):
            _shut_down_writing(self._socket)
        self._thread.join(READY_TIMEOUT)
        # A frozen process says nothing more: the thread that waits for it is woken by the end of the connection.
        with suppress(OSError):
            _shut_down(self._socket)
        self._thread.join(READY_TIMEOUT)
        with suppress(OSError):
            self._socket.close()
        if self._thread.is_alive() and kind is None:
            raise ClusterFailure(f"{self._node.name}: the capture's thread did not end within {READY_TIMEOUT} s")

    def await_ready(self) -> None:
        """Wait until packets are seen."""
        wait_until(
            lambda: self._ready.is_set() or not self._thread.is_alive(),
            f"the capture on {self._node.name}",
            timeout=READY_TIMEOUT,
            interval=0.01,
        )
        if not self._ready.is_set():
            code = self._api.exec_inspect(self._execution)["ExitCode"]
            complaint = self._complaints.decode(errors="replace").strip()
            raise ClusterFailure(f"{self._node.name}: no capture, perl ended with {code}: {complaint}")

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
            if self._dropped:
                yield f"{self._node.name}: the kernel dropped {self._dropped} packets"
            if self._dropped is None and not self._thread.is_alive() and self._node.is_running():
                yield f"{self._node.name}: the capture broke off before its end"
            if self._complaints:
                yield f"{self._node.name}: {self._complaints.decode(errors='replace').strip()}"

    def _read(self) -> None:
        from docker.utils.socket import STDERR

        buffer = bytearray()
        # A broken connection is the end of the capture; that it came early shows in the missing statistics.
        with suppress(OSError, ValueError):
            for stream, piece in _frames(self._socket):
                if stream == STDERR:
                    self._complaints += piece
                    continue
                buffer += piece
                while (record := _cut_record(buffer)) is not None:
                    self._take(record)

    def _take(self, record: bytes) -> None:
        kind, content = record[:1], record[1:]
        if kind == b"R":
            self._ready.set()
        elif kind == b"S":
            self._dropped = int.from_bytes(content[4:8], "big")
        elif kind == b"P":
            seconds, microseconds = (int.from_bytes(content[start : start + 8], "big") for start in (0, 8))
            segment = parse_packet(content[16:], (seconds * 1_000_000 + microseconds) * 1000)
            if segment is not None:
                with self._lock:
                    self._decoder.add(segment)


def _cut_record(buffer: bytearray) -> bytes | None:
    size = int.from_bytes(buffer[:_LENGTH_BYTES], "big")
    if len(buffer) < _LENGTH_BYTES or len(buffer) < _LENGTH_BYTES + size:
        return None
    record = bytes(buffer[_LENGTH_BYTES : _LENGTH_BYTES + size])
    del buffer[: _LENGTH_BYTES + size]
    return record


def _frames(stream: Any) -> Iterator[tuple[int, bytes]]:
    """(stream, piece) as the engine sends them: one byte for the stream, four at offset 4 for the piece's length.

    The SDK's own reader waits for the connection before it looks into what was read already.
    """
    read = getattr(stream, "_sock", stream).recv
    while header := _read_exactly(read, _FRAME_HEADER):
        size = int.from_bytes(header[4:], "big")
        yield header[0], _read_exactly(read, size)


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """`size` bytes, fewer or none where the connection ends."""
    found = b""
    while len(found) < size and (piece := read(size - len(found))):
        found += piece
    return found if len(found) == size else b""


def _shut_down_writing(stream: Any) -> None:
    """Half-close what docker-py gives for a socket: a SocketIO over the real one on Linux."""
    import socket

    getattr(stream, "_sock", stream).shutdown(socket.SHUT_WR)


def _shut_down(stream: Any) -> None:
    """End both directions, which wakes a thread that waits for data."""
    import socket

    getattr(stream, "_sock", stream).shutdown(socket.SHUT_RDWR)
