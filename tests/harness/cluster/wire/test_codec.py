"""The codec of the controller's requests: round trips in every version, known bytes, and any bytes at all."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_chaos.harness.cluster.wire.codec import decode_body, encode_body
from kafka_chaos.harness.cluster.wire.frames import (
    SIZE_BYTES,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_correlation_id,
)
from kafka_chaos.harness.cluster.wire.messages import APIS, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from kafka_chaos.harness.cluster.wire.primitives import WireError
from kafka_chaos.harness.cluster.wire.schema import Api, Message
from tests.harness.cluster.wire.bodies import FEW, VERSIONS, bodies

each_version = pytest.mark.parametrize(
    ("message", "version"), VERSIONS, ids=[f"{message.name}-v{version}" for message, version in VERSIONS]
)
each_api = pytest.mark.parametrize("api", APIS.values(), ids=[api.name for api in APIS.values()])
TOPIC_ID = uuid.UUID(int=7)

PARTITION: dict[str, Any] = {
    "partition_index": 1,
    "controller_epoch": 2,
    "leader": 3,
    "leader_epoch": 4,
    "isr": (5, 6),
    "partition_epoch": 7,
    "replicas": (5, 6, 8),
}


@each_version
@FEW
@given(data=st.data())
def test_every_body_comes_back(message: Message, version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(message, version))
    assert decode_body(message, version, encode_body(message, version, body)) == body


@each_api
@FEW
@given(data=st.data(), correlation_id=st.integers(-(2**31), 2**31 - 1), client_id=st.none() | st.text(max_size=10))
def test_every_frame_comes_back(api: Api, data: st.DataObject, correlation_id: int, client_id: str | None) -> None:
    version = data.draw(st.integers(0, api.newest))
    body = data.draw(bodies(api.request, version))
    frame = encode_request(api, version, body, correlation_id=correlation_id, client_id=client_id)
    assert int.from_bytes(frame[:SIZE_BYTES], "big") == len(frame) - SIZE_BYTES
    request = decode_request(frame[SIZE_BYTES:])
    assert (request.api, request.header.version, request.body) == (api, version, body)
    assert (request.header.correlation_id, request.header.client_id) == (correlation_id, client_id)
    answer = data.draw(bodies(api.response, version))
    frame = encode_response(api, version, answer, correlation_id=correlation_id)
    assert read_correlation_id(frame[SIZE_BYTES:]) == correlation_id
    assert decode_response(api, version, frame[SIZE_BYTES:]) == (correlation_id, answer)


def test_the_oldest_leader_and_isr_is_laid_out_as_documented() -> None:
    body = {
        "controller_id": 1,
        "controller_epoch": 2,
        "ungrouped_partition_states": [{"topic_name": "AAA", **PARTITION}],
        "live_leaders": [{"broker_id": 3, "host_name": "b", "port": 9092}],
    }
    assert encode_request(LEADER_AND_ISR, 0, body, correlation_id=9, client_id="c").hex(" ", 4) == (
        # size, api key and version, correlation id, client id; controller, its epoch; one partition of AAA
        bytes.fromhex("0000005b" + "0004 0000" + "00000009" + "0001 63" + "00000001 00000002" + "00000001 0003 414141")
        + bytes.fromhex("00000001 00000002 00000003 00000004" + "00000002 00000005 00000006" + "00000007")
        + bytes.fromhex("00000003 00000005 00000006 00000008" + "00000001 00000003 0001 62 00002384")
    ).hex(" ", 4)


def test_the_newest_leader_and_isr_is_laid_out_as_documented() -> None:
    state = {"topic_name": "AAA", "topic_id": TOPIC_ID, "partition_states": [{**PARTITION, "is_new": True}]}
    body = {
        "controller_id": 1,
        "controller_epoch": 2,
        "broker_epoch": 3,
        "type": 1,
        "topic_states": [state],
        "live_leaders": [],
    }
    assert (
        encode_body(LEADER_AND_ISR.request, 7, body).hex()
        == (
            # controller, not of KRaft, its epoch, the broker's epoch, incremental; one topic by name and id
            bytes.fromhex("00000001 00 00000002 0000000000000003 01" + "02 04 414141" + TOPIC_ID.hex)
            # one partition: index, controller epoch, leader, leader epoch, ISR, partition epoch, replicas
            + bytes.fromhex("02 00000001 00000002 00000003 00000004" + "03 00000005 00000006" + "00000007")
            + bytes.fromhex("04 00000005 00000006 00000008")
            # adding, removing, new, recovered, no tags: of the partition, of the topic; no live leaders; no tags
            + bytes.fromhex("01 01 01 00 00" + "00" + "01" + "00")
        ).hex()
    )


def test_a_tagged_field_is_sent_only_where_it_is_not_its_default() -> None:
    body = {"controller_id": 1, "controller_epoch": 2, "topic_states": [], "live_brokers": []}
    plain = encode_body(UPDATE_METADATA.request, 8, body)
    full = encode_body(UPDATE_METADATA.request, 8, {**body, "type": 2})
    assert plain.endswith(bytes.fromhex("01 01 00"))
    assert full == plain[:-1] + bytes.fromhex("01 00 01 02")
    assert decode_body(UPDATE_METADATA.request, 8, plain)["type"] == 0
    assert decode_body(UPDATE_METADATA.request, 8, full)["type"] == 2


@each_version
@FEW
@given(noise=st.binary(max_size=120))
def test_any_bytes_are_a_body_or_a_clear_refusal(message: Message, version: int, noise: bytes) -> None:
    with suppress(WireError):
        body = decode_body(message, version, noise)
        assert decode_body(message, version, encode_body(message, version, body)) == body


@each_version
@FEW
@given(data=st.data())
def test_damaged_bodies_are_bodies_or_clear_refusals(message: Message, version: int, data: st.DataObject) -> None:
    whole = encode_body(message, version, data.draw(bodies(message, version)))
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    with suppress(WireError):
        decode_body(message, version, whole[:start] + data.draw(st.binary(max_size=8)) + whole[end:])


@FEW
@given(st.binary(max_size=120))
def test_any_bytes_are_a_frame_or_a_clear_refusal(noise: bytes) -> None:
    for kind in APIS:
        with suppress(WireError):
            decode_request(kind.to_bytes(2, "big") + noise)
        with suppress(WireError):
            decode_response(APIS[kind], noise[0] % 5 if noise else 0, noise)


@each_version
@FEW
@given(data=st.data())
def test_a_body_cut_off_names_what_is_missing(message: Message, version: int, data: st.DataObject) -> None:
    whole = encode_body(message, version, data.draw(bodies(message, version)))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(WireError) as refusal:
        decode_body(message, version, whole[:cut])
    assert str(refusal.value).startswith(f"{message.name} v{version}: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leader": None}, "topic_states[0].partition_states[0].leader: is null"),
        ({"leader": 2**31}, "topic_states[0].partition_states[0].leader: 2147483648 does not fit into int32"),
        ({"leader": True}, "topic_states[0].partition_states[0].leader: True, expected int32"),
        ({"isr": (1, "2")}, "topic_states[0].partition_states[0].isr[1]: '2', expected int32"),
        ({"isr": 1}, "topic_states[0].partition_states[0].isr: 1, expected a list"),
        ({"is_new": 1}, "topic_states[0].partition_states[0].is_new: 1, expected bool"),
        ({"zk_version": 1}, "topic_states[0].partition_states[0].zk_version: no field of this version, which has"),
        ({"topic_name": "t"}, "topic_states[0].partition_states[0].topic_name: no field of this version"),
    ],
)
def test_values_that_the_message_can_not_hold_are_refused_by_name(change: dict[str, object], message: str) -> None:
    state = {"topic_name": "t", "topic_id": TOPIC_ID, "partition_states": [{**PARTITION, **change}]}
    body = {"controller_id": 1, "controller_epoch": 2, "type": 1, "topic_states": [state], "live_leaders": []}
    with pytest.raises(WireError) as refusal:
        encode_body(LEADER_AND_ISR.request, 7, body)
    assert str(refusal.value).startswith(f"LeaderAndIsrRequest v7: {message}")


def test_a_missing_field_and_a_version_that_never_was_are_refused() -> None:
    with pytest.raises(WireError, match="StopReplicaRequest v4: controller_epoch: missing, it has no default"):
        encode_body(STOP_REPLICA.request, 4, {"controller_id": 1})
    with pytest.raises(WireError, match="StopReplicaRequest v5: no such version, expected 0 to 4"):
        decode_body(STOP_REPLICA.request, 5, b"")


def test_an_announced_size_does_not_take_memory() -> None:
    with pytest.raises(WireError, match="an array of 2147483647 elements at byte 2, 0 bytes are left"):
        decode_body(STOP_REPLICA.response, 0, bytes.fromhex("0000 7fffffff"))
