"""Packets to exchanges, however TCP cuts, repeats and mixes them, and from the middle of a connection on."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_chaos.conformance.capture.packets import Decoder, Segment, parse_packet
from kafka_chaos.harness.cluster.wire.frames import encode_request, encode_response
from kafka_chaos.harness.cluster.wire.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from kafka_chaos.harness.cluster.wire.requests import PartitionState, Sender, leader_and_isr

BROKER, CONTROLLER = ("10.0.0.2", 9091), ("10.0.0.1", 50000)
TOPIC = "a-topic-with-a-name"
SYN, ACK = 2, 16
COOKED = struct.pack(">HHH8sH", 0, 1, 6, bytes(8), 0x0800)
"""The header that Linux gives packets of any interface, before an IPv4 packet."""


def request_and_answer(number: int) -> tuple[bytes, bytes]:
    api, version = ((LEADER_AND_ISR, 7), (UPDATE_METADATA, 8), (STOP_REPLICA, 4))[number % 3]
    sender = {"controller_id": 1, "controller_epoch": number}
    body: dict[str, Any]
    if api is LEADER_AND_ISR:
        state = PartitionState(
            topic=TOPIC, partition=0, leader=1, leader_epoch=number, isr=(1, 2), replicas=(1, 2, 3), controller_epoch=1
        )
        ids = {TOPIC: uuid.UUID(int=number)}
        body = leader_and_isr(version, Sender(controller=1, controller_epoch=number), [state], topic_ids=ids)
    elif api is UPDATE_METADATA:
        body = {**sender, "topic_states": [], "live_brokers": []}
    else:
        body = {**sender, "topic_states": []}
    answers: dict[str, Any] = {"LeaderAndIsr": {"topics": []}, "StopReplica": {"partition_errors": []}}
    answer = {"error_code": number, **answers.get(api.name, {})}
    return (
        encode_request(api, version, body, correlation_id=number, client_id="1"),
        encode_response(api, version, answer, correlation_id=number),
    )


def segment(source: tuple[str, int], sequence: int, payload: bytes, flags: int = ACK) -> Segment:
    target = BROKER if source == CONTROLLER else CONTROLLER
    return Segment(source, target, sequence % 2**32, flags, payload, 0)


def cut(data: bytes, places: Sequence[int]) -> list[tuple[int, bytes]]:
    """(distance, piece) at the given places."""
    bounds = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [(start, data[start:end]) for start, end in pairwise(bounds)]


@settings(max_examples=40)
@given(
    count=st.integers(1, 6),
    places=st.lists(st.integers(0, 2000), max_size=12),
    start=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_all_exchanges_come_out_whatever_tcp_does(
    count: int, places: list[int], start: int, data: st.DataObject
) -> None:
    pairs = [request_and_answer(number) for number in range(count)]
    pieces = cut(b"".join(request for request, _ in pairs), places)
    twice = pieces + data.draw(st.lists(st.sampled_from(pieces), max_size=3))
    mixed = data.draw(st.permutations(twice))
    decoder = Decoder(2, BROKER)
    decoder.add(segment(CONTROLLER, start - 1, b"", SYN))
    decoder.add(segment(BROKER, start - 1, b"", SYN | ACK))
    for distance, piece in mixed:
        decoder.add(segment(CONTROLLER, start + distance, piece))
    for distance, piece in data.draw(st.permutations(cut(b"".join(answer for _, answer in pairs), places))):
        decoder.add(segment(BROKER, start + distance, piece))
    assert [exchange.correlation_id for exchange in decoder.exchanges] == list(range(count))
    assert [exchange.response and exchange.response["error_code"] for exchange in decoder.exchanges] == list(
        range(count)
    )
    assert {exchange.request["controller_epoch"] for exchange in decoder.exchanges} == set(range(count))
    assert (decoder.lost_bytes, decoder.problems) == (0, [])


@settings(max_examples=40)
@given(missed=st.integers(1, 400), start=st.integers(0, 2**32 - 1))
def test_a_connection_met_in_the_middle_is_in_step_from_the_next_packet_that_begins_a_request(
    missed: int, start: int
) -> None:
    pairs = [request_and_answer(number) for number in range(4)]
    first = pairs[0][0]
    tail = first[min(missed, len(first) - 1) :]
    decoder, place = Decoder(2, BROKER), start
    decoder.add(segment(BROKER, start, pairs[0][1]))
    for payload in (tail, *(request for request, _ in pairs[1:])):
        decoder.add(segment(CONTROLLER, place, payload))
        place += len(payload)
    place = start + len(pairs[0][1])
    for _, answer in pairs[1:]:
        decoder.add(segment(BROKER, place, answer))
        place += len(answer)
    assert [exchange.correlation_id for exchange in decoder.exchanges] == [1, 2, 3]
    assert [exchange.response and exchange.response["error_code"] for exchange in decoder.exchanges] == [1, 2, 3]
    # What was under way when the capture began is not lost: it had been sent before.
    assert decoder.lost_bytes == 0


def test_a_connection_met_in_the_middle_may_bring_requests_of_other_kinds_alone() -> None:
    """As that on which a leader tells the controller of its ISR: AlterPartition, version 3."""
    header = struct.pack(">hhih", 56, 3, 17, 1) + b"1\0"
    body = header + bytes(100)
    decoder = Decoder(2, BROKER)
    decoder.add(segment(CONTROLLER, 77, struct.pack(">i", len(body)) + body))
    decoder.add(segment(BROKER, 5, struct.pack(">ii", 12, 17) + bytes(8)))
    assert (decoder.exchanges, decoder.lost_bytes, decoder.problems) == ([], 0, [])


def test_a_connection_that_never_makes_sense_is_told() -> None:
    decoder = Decoder(2, BROKER)
    decoder.add(segment(CONTROLLER, 1, b"\x16\x03\x01 an encrypted connection"))
    assert decoder.lost_bytes == len(b"\x16\x03\x01 an encrypted connection")


def test_a_hole_costs_what_lies_there_and_is_counted() -> None:
    requests = [request_and_answer(number)[0] for number in range(200)]
    decoder, place = Decoder(2, BROKER), 1
    decoder.add(segment(CONTROLLER, 0, b"", SYN))
    for number, request in enumerate(requests):
        if number != 3:
            decoder.add(segment(CONTROLLER, place, request))
        place += len(request)
    assert [exchange.correlation_id for exchange in decoder.exchanges] == [*range(3), *range(4, 200)]
    assert decoder.lost_bytes == len(requests[3])


def test_a_new_connection_from_the_same_port_begins_anew() -> None:
    decoder = Decoder(2, BROKER)
    for number, start in ((0, 100), (1, 4_000_000_000)):
        decoder.add(segment(CONTROLLER, start - 1, b"", SYN))
        decoder.add(segment(CONTROLLER, start, request_and_answer(number)[0]))
    assert [exchange.correlation_id for exchange in decoder.exchanges] == [0, 1]


def test_packets_to_another_broker_s_listener_are_not_this_one_s() -> None:
    decoder = Decoder(2, BROKER)
    decoder.add(Segment((*BROKER[:1], 40000), ("10.0.0.3", 9091), 1, ACK, request_and_answer(0)[0], 0))
    assert decoder.exchanges == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2**32 - 1), st.integers(0, 63), st.binary(max_size=60))))
def test_no_segments_make_it_raise(noise: list[tuple[bool, int, int, bytes]]) -> None:
    decoder = Decoder(2, BROKER)
    for inwards, sequence, flags, payload in noise:
        decoder.add(segment(CONTROLLER if inwards else BROKER, sequence, payload, flags))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_segment_or_none(noise: bytes) -> None:
    parse_packet(noise, 0)
    parse_packet(COOKED + noise, 0)
    parse_packet(COOKED + b"\x45" + noise[:8] + b"\x06" + noise, 0)


def test_a_packet_is_read_by_its_own_lengths() -> None:
    tcp = struct.pack(">HHIIBBHHH", 50000, 9091, 7, 0, 6 << 4, ACK, 0, 0, 0) + b"opts" + b"payload"
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    )
    assert parse_packet(COOKED + ip + tcp + b"padding", 5) == Segment(CONTROLLER, BROKER, 7, ACK, b"payload", 5)
    assert parse_packet(COOKED + b"\x60" + ip[1:] + tcp, 5) is None
    assert parse_packet(COOKED + ip[:9] + b"\x11" + ip[10:] + tcp, 5) is None
