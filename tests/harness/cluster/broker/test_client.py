"""Requests to one broker: their versions are what this broker knows, and what is sent to an old one."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from kafka_chaos.harness.cluster.broker.client import FETCH_FROM_LEADER, BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable, log_in

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, DESCRIBE_QUORUM = 0, 1, 2, 3, 18, 55
OF_0_10_2 = {PRODUCE: 2, FETCH: 3, LIST_OFFSETS: 1, METADATA: 2, API_VERSIONS: 0}
OF_2_0 = {PRODUCE: 6, FETCH: 8, LIST_OFFSETS: 3, METADATA: 6, API_VERSIONS: 2}
PARTITION = struct.pack(">i", 1) + struct.pack(">h", 1) + b"t" + struct.pack(">i", 1)
"""An array of one topic with an array of one partition."""

Request = tuple[int, int, bytes]


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
def broker(newest: Mapping[int, int]) -> Iterator[tuple[BrokerClient, list[Request]]]:
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
        with BrokerClient(f"127.0.0.1:{listener.getsockname()[1]}") as client:
            yield client, asked
        thread.join(10)


@pytest.mark.parametrize(("newest", "version"), [(OF_0_10_2, 3), (OF_2_0, 8)])
def test_a_follower_before_kip_392_is_asked_as_a_debugging_consumer(newest: Mapping[int, int], version: int) -> None:
    with broker(newest) as (client, asked):
        found = client.fetch("t")
    assert found.high_watermark == 7
    ((key, used, body),) = asked
    assert (key, used) == (FETCH, version)
    assert struct.unpack(">i", body[:4]) == (-2,)


def test_a_fetch_that_only_a_leader_answers_stays_a_consumer_s() -> None:
    with broker(OF_2_0) as (client, asked):
        client.fetch("t", version=FETCH_FROM_LEADER)
    ((_, used, body),) = asked
    assert used == OF_2_0[FETCH]
    assert struct.unpack(">i", body[:4]) == (-1,)


def test_without_leader_epochs_in_answers_no_high_watermark_counts() -> None:
    with broker(OF_0_10_2) as (client, asked):
        assert client.latest_offset("t") == (0, 7)
        assert client.high_watermarks({"t": [0]}) == {}
    assert [(key, version) for key, version, _ in asked] == [(LIST_OFFSETS, 1)] * 2


def test_a_broker_that_fences_nobody_is_not_asked_for_its_leader_epoch() -> None:
    with broker(OF_2_0) as (client, asked):
        assert client.leader_epoch("t") is None
    assert asked == []


@pytest.mark.parametrize(("newest", "mode"), [(OF_2_0, "zookeeper"), ({**OF_2_0, DESCRIBE_QUORUM: 1}, "kraft")])
def test_only_brokers_in_kraft_mode_know_of_the_quorum(newest: Mapping[int, int], mode: str) -> None:
    with broker(newest) as (client, _):
        assert client.metadata_mode() == mode


@pytest.mark.parametrize("configs", [{}, {"sasl.mechanism": "GSSAPI"}, {"sasl.mechanisms": "OAUTHBEARER"}])
def test_a_login_that_is_not_spoken_here_is_named(configs: Mapping[str, str]) -> None:
    with pytest.raises(BrokerUnreachable, match="expected PLAIN or SCRAM for single requests"):
        log_in(lambda _: None, "broker:9092", {"security.protocol": "SASL_SSL", **configs})
