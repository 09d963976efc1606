"""Connections through a relay, between sockets of this process instead of a container's."""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.faults.links.relay.connection import Conversation
from kafka_chaos.faults.links.relay.pair import Pair
from kafka_chaos.faults.links.relay.relay import MARK, Relay, redirection, removal_of
from kafka_chaos.faults.links.relay.rules import ANSWER, CLIENTS, CUT, DROP, HOLD, RATE, REPEAT, RESPONSE
from tests.faults.links.relay.test_conversation import end_txn, rule

PATIENCE = 5.0


class Connected:
    """A client and a broker, with a pair of the relay between them."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.client, accepted = socket.socketpair()
        onward, self.broker = socket.socketpair()
        for one in (self.client, accepted, onward, self.broker):
            one.setblocking(False)
        talk = Conversation(relay.context, 1, "broker-1", 9094, CLIENTS)
        self.pair = Pair(relay.loop, relay.connections, talk)
        relay.loop.run_until_complete(self.pair.open(accepted, onward))

    def until(self, condition: Callable[[], Any]) -> bool:
        deadline = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < deadline:
            self.turn(0.001)
        return bool(condition())

    def turn(self, seconds: float = 0.0) -> None:
        self.relay.loop.run_until_complete(asyncio.sleep(seconds))

    def arrives(self, end: socket.socket, size: int) -> bytes:
        """`size` bytes at an end; fewer if it is closed, or if no more come."""
        got = bytearray()

        def enough() -> bool:
            try:
                piece = end.recv(size - len(got))
            except BlockingIOError:
                return False
            got.extend(piece)
            return not piece or len(got) == size

        self.until(enough)
        return bytes(got)

    def is_silent(self, end: socket.socket) -> bool:
        self.turn(0.03)
        try:
            return end.recv(1) is None
        except BlockingIOError:
            return True

    def is_over(self, end: socket.socket) -> bool:
        return self.arrives(end, 1) == b"" and not self.is_silent(end)

    def close(self) -> None:
        self.client.close()
        self.broker.close()


def request(correlation_id: int = 5) -> bytes:
    frame = bytes(end_txn(correlation_id))
    return len(frame).to_bytes(4, "big") + frame


def answer(correlation_id: int = 5) -> bytes:
    frame = correlation_id.to_bytes(4, "big") + bytes(6)
    return len(frame).to_bytes(4, "big") + frame


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay({}, ())
    yield made
    made.close()


@pytest.fixture
def both(relay: Relay) -> Iterator[Connected]:
    made = Connected(relay)
    yield made
    made.close()


def test_who_ends_a_connection_ends_it_on_both_sides(relay: Relay) -> None:
    for which in ("client", "broker"):
        both = Connected(relay)
        getattr(both, which).close()
        assert both.is_over(both.broker if which == "client" else both.client)
        both.close()
        assert both.until(lambda: not relay.connections)


def test_what_is_held_reaches_the_broker_though_its_client_hung_up(both: Connected) -> None:
    both.relay.apply(rule(HOLD, nth=1))
    both.client.send(request(1) + request(2))
    assert both.is_silent(both.broker)
    both.client.close()
    assert both.is_silent(both.broker), "the connection waits with the request"
    both.relay.lift("rule", release=True)
    both_requests = request(1) + request(2)
    assert both.arrives(both.broker, len(both_requests)) == both_requests
    assert both.is_over(both.broker)


def test_what_is_held_can_be_lost_at_last(both: Connected) -> None:
    both.relay.apply(rule(HOLD))
    both.client.send(request())
    assert both.is_silent(both.broker)
    both.relay.lift("rule", release=False)
    assert both.is_over(both.broker)
    assert both.is_over(both.client)


def test_the_frames_around_one_that_is_answered_with_an_error_pass_as_they_are(both: Connected) -> None:
    both.relay.apply(rule(ANSWER, side=RESPONSE, nth=2, error="COORDINATOR_LOAD_IN_PROGRESS"))
    both.client.send(request(1) + request(2) + request(3))
    both.arrives(both.broker, 3 * len(request()))
    both.broker.send(answer(1) + answer(2)[:7])
    assert both.arrives(both.client, len(answer())) == answer(1)
    both.broker.send(answer(2)[7:] + answer(3))
    changed = both.arrives(both.client, len(answer()))
    assert changed != answer(2)
    assert changed[-2:] == (14).to_bytes(2, "big")
    assert changed[:8] == answer(2)[:8]
    assert both.arrives(both.client, len(answer())) == answer(3)


def test_a_request_that_is_repeated_has_one_response_and_a_repeated_response_arrives_twice(both: Connected) -> None:
    both.relay.apply(rule(REPEAT, nth=1))
    both.client.send(request(1) + request(2))
    twice = request(1) + request(1) + request(2)
    assert both.arrives(both.broker, len(twice)) == twice
    # The rule may end before the broker has answered.
    both.relay.lift("rule", release=True)
    both.broker.send(answer(1) + answer(1)[:9])
    assert both.arrives(both.client, len(answer())) == answer(1)
    both.relay.apply(rule(REPEAT, side=RESPONSE))
    both.broker.send(answer(1)[9:] + answer(2))
    assert both.arrives(both.client, 2 * len(answer())) == answer(2) * 2
    assert both.is_silent(both.client)


def test_a_rate_holds_for_all_that_passes_and_owes_nothing_afterwards(both: Connected) -> None:
    size = len(request()) - 4
    both.relay.apply(rule(RATE, kbit_per_second=size * 8 / 1000 * 10))
    start = time.monotonic()
    both.client.send(request(1) + request(2) + request(3))
    both.arrives(both.broker, 3 * len(request()))
    assert 0.3 <= time.monotonic() - start < 5
    tally = both.relay.context.tallies.get("rule")
    assert tally is not None
    assert tally.taken == 3
    assert tally.waiting_seconds(size) < 0.2


def test_what_is_lost_leaves_silence_until_the_rule_ends(both: Connected) -> None:
    both.relay.apply(rule(DROP, side=RESPONSE))
    both.client.send(request())
    assert both.arrives(both.broker, len(request())) == request()
    both.broker.send(answer())
    assert both.is_silent(both.client)
    both.relay.lift("rule", release=True)
    assert both.is_over(both.client)


def test_a_cut_lets_the_request_pass_and_nothing_come_back(both: Connected) -> None:
    both.relay.apply(rule(CUT))
    both.client.send(request())
    assert both.is_over(both.client)
    assert both.arrives(both.broker, len(request())) == request()
    assert both.is_over(both.broker)


def test_a_broker_that_does_not_read_makes_its_client_wait(both: Connected) -> None:
    body = b"\x7f" * 4_000_000
    frame = (len(body)).to_bytes(4, "big") + body
    sent = 0
    for _ in range(200):
        with contextlib.suppress(BlockingIOError):
            sent += both.client.send(frame[sent:] if sent < len(frame) else frame)
        both.turn()
    assert sent < len(frame)
    assert both.pair.broker.transport.get_write_buffer_size() <= 2_000_000
    assert both.arrives(both.broker, sent) == frame[:sent]


def test_what_passed_is_traced_with_what_was_not_answered(both: Connected, tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    both.relay.trace_to(path)
    both.client.send(request(1) + request(2))
    assert both.arrives(both.broker, 2 * len(request())) == request(1) + request(2)
    both.broker.send(answer(1))
    assert both.arrives(both.client, len(answer())) == answer(1)
    both.relay.trace_to(None)
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    assert [(line["correlation_id"], line["answered_ns"] is None) for line in lines] == [(1, False), (2, True)]


def test_it_serves_until_its_commands_end_and_then_ends_connections() -> None:
    relay = Relay({}, ())
    both = Connected(relay)
    commands, others = os.pipe()
    os.close(others)
    relay.serve(commands, lambda: os.read(commands, 1) == b"")
    relay.close()
    os.close(commands)
    both.client.setblocking(True)
    assert both.client.recv(1) == b""
    both.close()


def test_rules_that_are_undone_are_the_rules_that_were_made() -> None:
    rules = redirection((9092, 9094), 15000)
    assert "-A PREROUTING ! -i lo -p tcp --dport 9094 -j REDIRECT --to-ports 15000" in rules
    assert f"-A OUTPUT -o lo -p tcp --dport 9092 -m mark ! --mark {MARK:#x} -j REDIRECT" in rules
    assert removal_of(rules).count("-D ") == rules.count("-A ") == 8
    assert "-A" not in removal_of(rules)
