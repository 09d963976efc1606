"""A broker of a few versions of requests, and a client of it."""

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from kafka_chaos.harness.cluster.broker.client import BrokerClient

PRODUCE, FETCH, LIST_OFFSETS, METADATA, LEADER_AND_ISR, API_VERSIONS, DESCRIBE_QUORUM = 0, 1, 2, 3, 4, 18, 55
OF_0_10_2 = {PRODUCE: 2, FETCH: 3, LIST_OFFSETS: 1, METADATA: 2, API_VERSIONS: 0}
OF_2_0 = {PRODUCE: 6, FETCH: 8, LIST_OFFSETS: 3, METADATA: 6, API_VERSIONS: 2}
PARTITION = struct.pack(">i", 1) + struct.pack(">h", 1) + b"t" + struct.pack(">i", 1)
"""An array of one topic with an array of one partition."""

Request = tuple[int, int, bytes]
C = TypeVar("C", bound=BrokerClient)


def answer(key: int, version: int, newest: Mapping[int, int]) -> bytes:
    """An answer's body; those of fetches and ListOffsets say: high watermark 7."""
    if key == API_VERSIONS:
        known = b"".join(struct.pack(">hhh", one, 0, last) for one, last in newest.items())
        return struct.pack(">hi", 0, len(newest)) + known
    if key == LIST_OFFSETS:
        throttled = struct.pack(">i", 0) if version >= 2 else b""
        return throttled + PARTITION + struct.pack(">ihqq", 0, 0, -1, 7)
    assert key == FETCH
    head = struct.pack(">i", 0) + (struct.pack(">hi", 0, 0) if version >= 7 else b"")
    stable = struct.pack(">q", 7) if version >= 4 else b""
    start = struct.pack(">q", 0) if version >= 5 else b""
    aborted = struct.pack(">i", 0) if version >= 4 else b""
    return head + PARTITION + struct.pack(">ihq", 0, 0, 7) + stable + start + aborted + struct.pack(">i", 0)


@contextmanager
def broker(newest: Mapping[int, int], kind: type[C]) -> Iterator[tuple[C, list[Request]]]:
    """A client of a broker that knows these versions, and what the broker was asked after ApiVersions."""
    asked: list[Request] = []

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(struct.unpack(">i", size)[0])
                key, version, correlation, name = struct.unpack(">hhih", frame[:10])
                if key != API_VERSIONS:
                    asked.append((key, version, frame[10 + name :]))
                body = struct.pack(">i", correlation) + answer(key, version, newest)
                connection.sendall(struct.pack(">i", len(body)) + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: serve(listener.accept()[0]), daemon=True)
        thread.start()
        with kind(f"127.0.0.1:{listener.getsockname()[1]}") as client:
            yield client, asked
        thread.join(10)
