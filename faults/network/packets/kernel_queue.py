"""A queue of the kernel's packet filter (NFQUEUE): packets that wait until their number is told to go on.

Guarantee: while nobody serves the queue, the kernel's rules (`--queue-bypass`) let packets pass untouched. Where the
queue is full, they pass, too. Messages: `linux/netfilter/nfnetlink_queue.h` of the kernel's headers.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

LIMIT = 65_536
"""So many packets wait at most; what comes then passes."""

_SUBSYSTEM = 3 << 8
_PACKET, _VERDICT, _CONFIG, _ERROR = _SUBSYSTEM | 0, _SUBSYSTEM | 1, _SUBSYSTEM | 2, 2
_REQUEST, _ACKNOWLEDGE = 1, 4
_COMMAND, _PARAMETERS, _LIMIT, _MASK, _FLAGS = 1, 2, 3, 4, 5
_BIND, _COPY_PACKET, _ACCEPT = 1, 2, 1
_HEADER, _VERDICT_HEADER, _PAYLOAD, _WHOLE_LENGTH = 1, 2, 10, 13
_PASS_WHERE_FULL, _UNDIVIDED = 1, 4
_TYPE = 0x3FFF
_COPIED = 64
"""Bytes of each packet that are looked at: the headers of IP and TCP, up to the ports."""
_BUFFER = 16 << 20
_PIECE = 1 << 16
_NETLINK, _NO_OVERFLOW_ERRORS = 270, 5


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet that waits. `hook`: where it came by, in or out. `flow` is the same for all of one connection's way."""

    number: int
    hook: int
    length: int
    flow: bytes


class KernelQueue:
    """Serves the queue of this number through a socket of its namespace. `undivided`: large packets come in one piece,
    as the kernel handles them, rather than as they go over a wire."""

    def __init__(self, made: socket.socket, number: int, *, undivided: bool) -> None:
        self._socket = made
        self._number = number
        made.bind((0, 0))
        with suppress(OSError):
            # As root, past the usual limit; without it, a burst may pass by.
            made.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _BUFFER)
        made.setsockopt(_NETLINK, _NO_OVERFLOW_ERRORS, 1)
        flags = _PASS_WHERE_FULL | (_UNDIVIDED if undivided else 0)
        self._configure(_attribute(_COMMAND, struct.pack(">BxH", _BIND, socket.AF_INET)))
        self._configure(
            _attribute(_PARAMETERS, struct.pack(">IB", _COPIED, _COPY_PACKET))
            + _attribute(_LIMIT, struct.pack(">I", LIMIT))
            + _attribute(_MASK, struct.pack(">I", flags | _UNDIVIDED))
            + _attribute(_FLAGS, struct.pack(">I", flags))
        )
        made.setblocking(False)

    def fileno(self) -> int:
        """For `select`: readable when packets wait that `read` has not told."""
        return self._socket.fileno()

    def read(self) -> Iterator[Packet]:
        """The packets that have begun to wait since the last call."""
        while True:
            try:
                piece = self._socket.recv(_PIECE)
            except BlockingIOError:
                return
            for kind, content in _messages(piece):
                if kind == _PACKET:
                    yield _packet(content)

    def let_go(self, numbers: Sequence[int]) -> None:
        """Let packets go on."""
        for number in numbers:
            content = _attribute(_VERDICT_HEADER, struct.pack(">II", _ACCEPT, number))
            self._socket.send(self._message(_VERDICT, _REQUEST, content))

    def close(self) -> None:
        """Serve it no more; what still waits is lost."""
        self._socket.close()

    def _configure(self, content: bytes) -> None:
        self._socket.send(self._message(_CONFIG, _REQUEST | _ACKNOWLEDGE, content))
        for kind, answer in _messages(self._socket.recv(_PIECE)):
            if kind == _ERROR and (code := -struct.unpack_from("i", answer)[0]):
                known = {errno.EPERM: "another process serves it, or this one lacks CAP_NET_ADMIN"}
                raise OSError(code, f"queue {self._number}: {known.get(code, os.strerror(code))}")

    def _message(self, kind: int, flags: int, content: bytes) -> bytes:
        head = struct.pack("=IHHII", 20 + len(content), kind, flags, 0, 0)
        return head + struct.pack(">BBH", socket.AF_UNSPEC, 0, self._number) + content


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def _messages(piece: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 16 <= len(piece):
        length, kind = struct.unpack_from("=IH", piece, place)
        yield kind, piece[place + 16 : place + length]
        place += length + -length % 4


def _packet(content: bytes) -> Packet:
    found: dict[int, bytes] = {}
    place = 4
    while place + 4 <= len(content):
        length, kind = struct.unpack_from("=HH", content, place)
        found[kind & _TYPE] = content[place + 4 : place + length]
        place += length + -length % 4
    number, _, hook = struct.unpack_from(">IHB", found[_HEADER])
    begin = found.get(_PAYLOAD, b"")
    whole = found.get(_WHOLE_LENGTH)
    length = struct.unpack(">I", whole)[0] if whole else len(begin)
    ports = (begin[0] & 15) * 4 if begin else 0
    return Packet(number, hook, length, begin[12:20] + begin[ports : ports + 4])
