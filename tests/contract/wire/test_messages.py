"""Requests as a controller sends them: what they say, how they are sent, and what their answers mean."""

import socket
import threading
import uuid

import pytest

from kafka_chaos.conformance.controllers.requests import errors_of, leader_and_isr, send_as_controller
from kafka_chaos.contract.wire.messages import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafka_chaos.faults.links.relay.contents import FetchSession, MessageDecoder
from kafka_chaos.faults.links.relay.frames import read_header
from kafka_chaos.harness.cluster.broker.client import BrokerUnreachable

TOPIC_ID = uuid.UUID(int=7)


def asking(version: int) -> LeaderAndIsrRequest:
    state = {"leader": 3, "leader_epoch": 4, "isr": [5, 6], "replicas": [5, 6, 8]}
    return leader_and_isr(version, controller=1, controller_epoch=2, topic_name="AAA", partition_index=1, **state)


def test_a_topic_without_an_id_goes_with_the_nil_one() -> None:
    assert bytes(16) in bytes(asking(5).encode())


@pytest.mark.parametrize("version", [4, 5])
def test_errors_by_partition(version: int) -> None:
    entry = {"partition_index": 1, "error_code": 11}
    old = {"error_code": 0, "partition_errors": [{"topic_name": "AAA", **entry}]}
    new = {"error_code": 0, "topics": [{"topic_id": TOPIC_ID, "partition_errors": [entry]}]}
    answer = old if version < 5 else new
    assert errors_of(answer) == ["NONE", "STALE_CONTROLLER_EPOCH"]
    assert errors_of({**answer, "error_code": 31}) == ["CLUSTER_AUTHORIZATION_FAILED"]


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
        answer = send_as_controller(f"127.0.0.1:{listener.getsockname()[1]}", asking(version), client_id="me")
        thread.join()
    assert answer == {"error_code": 11, "partition_errors": []}
    assert got[1] == b"", "nothing more is asked"
    header = read_header(memoryview(got[0]))
    assert header is not None
    assert (header.name, header.version, header.client_id) == ("LeaderAndIsr", version, "me")
    found = MessageDecoder().request(header, memoryview(got[0]), FetchSession())
    assert found is not None
    assert found.body["controller_epoch"] == 2


def test_a_broker_that_hangs_up_is_told() -> None:
    def hang_up(listener: socket.socket) -> None:
        listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))
        thread.start()
        with pytest.raises(BrokerUnreachable, match="LeaderAndIsr"):
            send_as_controller(f"127.0.0.1:{listener.getsockname()[1]}", LeaderAndIsrRequest(version=0))
        thread.join()
