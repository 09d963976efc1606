"""One of the controller's requests sent to one broker by us, and its answer.

Any listener takes them: brokers tell controllers by epochs, and where there is an authorizer by the principal, not by
where they call. Nothing is retried; what is returned is this broker's own answer.
"""

from __future__ import annotations

import socket

from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.wire.codec import Body
from kafka_chaos.harness.cluster.wire.frames import MAX_FRAME, SIZE_BYTES, decode_response, encode_request
from kafka_chaos.harness.cluster.wire.primitives import WireError
from kafka_chaos.harness.cluster.wire.schema import Api

CLIENT_ID = "kafka-chaos"
_CORRELATION_ID = 1


def send_as_controller(
    address: str, api: Api, version: int, body: Body, *, client_id: str = CLIENT_ID, timeout: float = 10.0
) -> Body:
    """Send `body` to the broker at `address` (`host:port`) and decode the answer; `timeout` in seconds per wait.

    Raises `WireError` for a body that the version can't hold or an answer that isn't one, `BrokerUnreachable` where the
    broker does not take the connection or breaks it off, as it does on a request that it can't read.
    """
    request = encode_request(api, version, body, correlation_id=_CORRELATION_ID, client_id=client_id)
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout) as connection:
            connection.sendall(request)
            size = int.from_bytes(_receive(connection, address, api, SIZE_BYTES), "big")
            if size > MAX_FRAME:
                raise WireError(f"{address} announces an answer of {size} bytes", f"{api.name} v{version}")
            answer = _receive(connection, address, api, size)
    except OSError as error:
        raise BrokerUnreachable(f"{address} did not answer {api.name} v{version}: {error}") from error
    correlation_id, answered = decode_response(api, version, answer)
    if correlation_id != _CORRELATION_ID:
        raise WireError(f"answered {correlation_id}, expected {_CORRELATION_ID}", f"{api.name} v{version}")
    return answered


def _receive(connection: socket.socket, address: str, api: Api, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(min(size - len(received), 1 << 16))
        if not piece:
            raise BrokerUnreachable(f"{address} closed the connection before it answered {api.name}")
        received += piece
    return bytes(received)
