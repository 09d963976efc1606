"""Messages between controllers and brokers: round trips in every version, known bytes, and any bytes at all."""

import socket
import threading
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_chaos.conformance.controllers.requests import (
    PartitionState,
    Sender,
    leader_and_isr,
    leader_and_isr_errors,
    send_as_controller,
)
from kafka_chaos.contract.wire.messages import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafka_chaos.faults.links.relay.contents import FetchSession, MessageDecoder
from kafka_chaos.faults.links.relay.frames import read_header
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from tests.contract.wire.bodies import FEW, REQUESTS, bodies

TOPIC_ID = uuid.UUID(int=7)
STATE = PartitionState(
    topic="AAA",
    partition=1,
    controller_epoch=2,
    leader=3,
    leader_epoch=4,
    isr=(5, 6),
    partition_epoch=7,
    replicas=(5, 6, 8),
    is_new=True,
)


def framed(message: Any, version: int, body: bytes) -> memoryview:
    """A request of these bytes as a link reads it, without its size."""
    header = message.API_KEY.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\0\1c"
    return memoryview(header + (b"\0" if message.flexible_version_q(version) else b"") + body)


def read(frame: memoryview) -> Any:
    header = read_header(frame)
    assert header is not None
    found = MessageDecoder().request(header, frame, FetchSession())
    return None if found is None else found.body


@pytest.mark.parametrize("message", REQUESTS, ids=[message.name for message in REQUESTS])
@FEW
@given(data=st.data())
def test_only_whole_bodies_and_nothing_else_are_read(message: Any, data: st.DataObject) -> None:
    version = data.draw(st.integers(0, message.max_version))
    drawn = data.draw(bodies(message, version))
    whole = bytes(drawn.encode(version=version))
    assert read(framed(message, version, whole)) == drawn.to_dict(json=False)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert read(framed(message, version, whole[:cut])) is None
    assert read(framed(message, version, whole + data.draw(st.binary(min_size=1, max_size=8)))) is None


def test_the_oldest_leader_and_isr_is_laid_out_as_documented() -> None:
    request = leader_and_isr(
        0, Sender(controller=1, controller_epoch=2), [STATE], topic_ids={}, live_leaders=[(3, "b", 9092)]
    )
    request.with_header(correlation_id=9, client_id="c")
    assert bytes(request.encode(header=True, framed=True)).hex(" ", 4) == (
        # size, api key and version, correlation id, client id; controller, its epoch; one partition of AAA
        bytes.fromhex("0000005b" + "0004 0000" + "00000009" + "0001 63" + "00000001 00000002" + "00000001 0003 414141")
        + bytes.fromhex("00000001 00000002 00000003 00000004" + "00000002 00000005 00000006" + "00000007")
        + bytes.fromhex("00000003 00000005 00000006 00000008" + "00000001 00000003 0001 62 00002384")
    ).hex(" ", 4)


def test_the_newest_leader_and_isr_is_laid_out_as_documented() -> None:
    sender = Sender(controller=1, controller_epoch=2, broker_epoch=3)
    request = leader_and_isr(7, sender, [STATE], topic_ids={"AAA": TOPIC_ID})
    request.type = 1
    assert (
        bytes(request.encode()).hex()
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


def test_a_topic_without_an_id_goes_with_the_nil_one() -> None:
    request = leader_and_isr(5, Sender(controller=1, controller_epoch=2), [STATE], topic_ids={})
    assert bytes(16) in bytes(request.encode())


@pytest.mark.parametrize("version", [4, 5])
def test_errors_by_partition(version: int) -> None:
    entry = {"partition_index": 1, "error_code": 11}
    old = {"error_code": 0, "partition_errors": [{"topic_name": "AAA", **entry}]}
    new = {"error_code": 0, "topics": [{"topic_id": TOPIC_ID, "partition_errors": [entry]}]}
    answer = old if version < 5 else new
    assert leader_and_isr_errors(version, answer, topic_ids={"AAA": TOPIC_ID}) == (0, {("AAA", 1): 11})


@pytest.mark.parametrize(("version", "flexible"), [(1, b""), (4, b"\0")])
def test_a_request_is_sent_once_and_its_answer_read(version: int, flexible: bytes) -> None:
    got: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        with listener.accept()[0] as taken:
            size = int.from_bytes(taken.recv(4, socket.MSG_WAITALL), "big")
            got.append(taken.recv(size, socket.MSG_WAITALL))
            body = bytes(LeaderAndIsrResponse(error_code=11, partition_errors=[]).encode(version=version))
            answer = got[0][4:8] + flexible + body
            taken.sendall(len(answer).to_bytes(4, "big") + answer)
            got.append(taken.recv(1))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        request = leader_and_isr(version, Sender(controller=1, controller_epoch=2), [STATE], topic_ids={})
        answer = send_as_controller(f"127.0.0.1:{listener.getsockname()[1]}", request, client_id="me")
        thread.join()
    assert answer == {"error_code": 11, "partition_errors": []}
    assert got[1] == b"", "nothing more is asked"
    header = read_header(memoryview(got[0]))
    assert header is not None
    assert (header.name, header.version, header.client_id) == ("LeaderAndIsr", version, "me")
    assert read(memoryview(got[0]))["controller_epoch"] == 2


def test_a_broker_that_hangs_up_is_told() -> None:
    def hang_up(listener: socket.socket) -> None:
        listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))
        thread.start()
        with pytest.raises(BrokerUnreachable, match="LeaderAndIsr"):
            send_as_controller(f"127.0.0.1:{listener.getsockname()[1]}", LeaderAndIsrRequest(version=0))
        thread.join()
