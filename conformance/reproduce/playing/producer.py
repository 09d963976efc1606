"""A producer that sends each request when a story says so, and learns of its answer when the story says so.

It is a client on the wire, like any other, but takes no step by itself: it sends a record again only where the story
does, which a producer with retries may do whenever an attempt failed or is in doubt. Records of one connection
keep their order. With idempotence it numbers its records. What it records of a record is what a producer learns: `ok`
where it was acknowledged, `info` where nobody said.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.identity import encode_identity
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.wire.kafka_python import InitProducerIdRequest
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, error_name

PRODUCER, OTHER = 0, 1
"""The producer of the story's records, and one whose records only keep followers behind: no story is about those."""
_INIT_PRODUCER_ID = 3
_ANSWER_TIMEOUT = 30.0


class ProduceConnection(BrokerClient):
    """A connection on which several Produce requests may be on their way."""

    def __init__(self, address: str) -> None:
        super().__init__(address, timeout=_ANSWER_TIMEOUT)
        self._answers: dict[int, Any] = {}
        # Known before a broker is frozen that would not tell.
        _ = self._newest_versions

    def send(self, topic: str, value: bytes, *, acks: str, sequence: Mapping[str, int]) -> int:
        """Send one record, and wait for nothing; `sequence`: of an idempotent producer. The request's number."""
        request = self._produce_request(topic, 0, value, acks=acks, timeout=_ANSWER_TIMEOUT, batch=sequence)
        number: int = self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())
        return number

    def answer(self, number: int) -> tuple[int, int]:
        """(error, offset) of the answer to a request; waits for it."""
        while number not in self._answers:
            try:
                received = self._socket.recv(1 << 16)
            except OSError as error:
                raise ClusterFailure(f"{self.address} did not answer the producer: {error}") from error
            if not received:
                raise ClusterFailure(f"{self.address} closed the producer's connection before it answered")
            self._answers.update(self._protocol.receive_bytes(received))
        answer = self._answers.pop(number).responses[0].partition_responses[0]
        return int(answer.error_code), int(answer.base_offset)

    def producer_id(self) -> tuple[int, int]:
        """InitProducerId: a new producer id, and its epoch."""
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=0,
            producer_id=-1,
            producer_epoch=-1,
            version=self._version(InitProducerIdRequest, _INIT_PRODUCER_ID),
        )
        refused = ""

        def given() -> Any:
            nonlocal refused
            answer = self.request(request)
            refused = error_name(answer.error_code)
            return answer if answer.error_code == NONE else None

        # A broker that has just started has no producer ids yet to give out.
        answer = wait_until(
            given, f"{self.address} to give out a producer id", timeout=_ANSWER_TIMEOUT, seen=lambda: refused
        )
        return int(answer.producer_id), int(answer.producer_epoch)


@dataclass
class Sent:
    """A producer's knowledge of one record: when it was first sent, and when and where it was acknowledged."""

    invoke_ns: int
    complete_ns: int | None = None
    offset: int | None = None


@dataclass
class StepProducer:
    """The producer of one lane. `address` tells where clients reach a broker."""

    lane: Lane
    topic: str
    address: Callable[[int], str]
    records: dict[int, Sent] = field(default_factory=dict)
    others: list[Sent] = field(default_factory=list)
    _connections: dict[int, list[ProduceConnection]] = field(default_factory=dict)
    _awaited: dict[int, tuple[ProduceConnection, int]] = field(default_factory=dict)
    """By record: the connection of its last attempt, and the number of the request."""
    _identity: tuple[int, int] | None = None

    def connect(self, broker: int) -> ProduceConnection:
        """The connection to a broker, which is made where there is none.

        With acks=all a broker reads nothing more from a connection until it has answered: what comes meanwhile takes
        another one.
        """
        connections = self._connections.setdefault(broker, [])
        blocked = {id(connection) for connection, _ in self._awaited.values()} if self.lane.acks == "all" else set()
        if not connections or id(connections[-1]) in blocked:
            connections.append(ProduceConnection(self.address(broker)))
        return connections[-1]

    def begin(self, broker: int) -> None:
        """Connect to the leader, and get a producer id where the lane needs one."""
        connection = self.connect(broker)
        if self.lane.idempotence:
            self._identity = connection.producer_id()

    def send(self, record: int, broker: int) -> None:
        """Send a record to a broker; its answer may come later."""
        sent = self.records.setdefault(record, Sent(time.monotonic_ns()))
        connection = self.connect(broker)
        value, sequence = self._value(PRODUCER, record), self._sequence(record)
        number = connection.send(self.topic, value, acks=self.lane.acks, sequence=sequence)
        if self.lane.acks == "0":
            sent.complete_ns = time.monotonic_ns()
        else:
            self._awaited[record] = connection, number

    def send_other(self, broker: int) -> None:
        """Another producer sends a record with acks=1, and does not wait for the answer."""
        with ProduceConnection(self.address(broker)) as connection:
            self._send_other(connection, acks="1")

    def send_last(self, broker: int) -> None:
        """Another producer sends a record with acks=all, which is acknowledged."""
        with ProduceConnection(self.address(broker)) as connection:
            error, offset = connection.answer(self._send_other(connection, acks="all"))
        if error != NONE:
            raise ClusterFailure(f"broker {broker} does not take a last record: {error_name(error)}")
        self.others[-1].complete_ns, self.others[-1].offset = time.monotonic_ns(), offset

    def _send_other(self, connection: ProduceConnection, *, acks: str) -> int:
        value = self._value(OTHER, len(self.others))
        self.others.append(Sent(time.monotonic_ns()))
        return connection.send(self.topic, value, acks=acks, sequence={})

    def answer(self, record: int) -> tuple[str, int]:
        """The answer to the record's last attempt: Kafka's name of the error, and the offset."""
        connection, number = self._awaited.pop(record)
        error, offset = connection.answer(number)
        if error == NONE:
            self.records[record].complete_ns = time.monotonic_ns()
            self.records[record].offset = offset
        return error_name(error), offset

    def awaits(self, broker: int) -> list[int]:
        """The records whose answer is awaited from a broker."""
        connections = self._connections.get(broker, [])
        return [record for record, (asked, _) in self._awaited.items() if asked in connections]

    def give_up(self, broker: int) -> None:
        """Close the connections to a broker: what it has not answered is in doubt."""
        for record in self.awaits(broker):
            del self._awaited[record]
        for connection in self._connections.pop(broker, []):
            connection.__exit__()

    def close(self) -> None:
        """End every connection; what was not answered stays in doubt."""
        for broker in list(self._connections):
            self.give_up(broker)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of `produced/`."""
        for producer, records in ((PRODUCER, self.records.items()), (OTHER, enumerate(self.others))):
            for seq, sent in records:
                yield {
                    "lane": self.lane.lane,
                    "producer_id": producer,
                    "seq": seq,
                    "partition": 0,
                    "offset": sent.offset,
                    "invoke_ns": sent.invoke_ns,
                    "complete_ns": sent.complete_ns,
                    "outcome": "info" if sent.complete_ns is None else "ok",
                }

    def _sequence(self, record: int) -> dict[str, int]:
        if self._identity is None:
            return {}
        producer_id, epoch = self._identity
        return {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": record}

    def _value(self, producer: int, seq: int) -> bytes:
        return encode_identity(self.lane.lane, producer, seq)
