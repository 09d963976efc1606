"""Requests to one chosen broker, which a client library would send only to the leader that it knows.

The messages are kafka-python's, in the newest version that is used here and that the broker knows. Nothing is retried:
an answer is what this broker says at this moment.
"""

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Self, TypeVar

from kafka_chaos.contract.lane.metadata import KRAFT, ZOOKEEPER
from kafka_chaos.contract.wire.kafka_python import (
    ApiVersionsRequest,
    DescribeQuorumRequest,
    FindCoordinatorRequest,
    InvalidReceiveError,
    KafkaProtocol,
    ListOffsetsRequest,
    MemoryRecordsBuilder,
    MetadataRequest,
    ProduceRequest,
)
from kafka_chaos.faults.cluster import Leadership, Partition
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable, log_in, over_tls

_LIST_OFFSETS = 6
_METADATA = 8
_FIND_COORDINATOR = 3
"""The last version that asks for one key."""
_PRODUCE = 8
_DESCRIBE_QUORUM = 1
_LATEST = -1
_FIRST_WITH_BATCHES = 3
"""The first version of Produce that takes message format v2."""
CONSUMER = -1
DEBUGGING_CONSUMER = -2
"""A replica id whose fetches a follower answers too, before KIP-392. Its latest offset is the log's end."""
ENOUGH = 1 << 20

T = TypeVar("T")


class CoordinatorKind(IntEnum):
    """The kind of a coordinator's key: a consumer group, or a transactional id."""

    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """A broker's metadata of a partition: `error` is the partition's, `leader` None where it knows none."""

    error: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QuorumAnswer:
    """The controllers' quorum (KRaft): node id of the leader, which is the active controller, or −1, and its epoch."""

    leader: int
    leader_epoch: int


NONE = 0
NOT_LEADER_OR_FOLLOWER = 6

_NAMES = {NONE: "NONE", NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_OR_FOLLOWER"}
"""Where kafka-python has none, or a former one."""


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    from kafka.errors import kafka_errors

    known = kafka_errors.get(code)
    return _NAMES.get(code) or (known.message if known is not None else f"error {code}")


class BrokerClient:
    """A connection to one broker; a context manager.

    `timeout` is in seconds, for connecting and for each answer. `configs`: librdkafka's keys for TLS and SASL. Without
    a `login`, a broker that asks for one answers ApiVersions alone. Raises `BrokerUnreachable`.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 3.0,
        configs: Mapping[str, str] | None = None,
        login: bool = True,
        client_id: str = "kafka-chaos",
    ) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._protocol = KafkaProtocol(client_id=client_id)
        try:
            self._socket = over_tls(socket.create_connection((host, int(port)), timeout), host, configs or {})
        except OSError as error:
            raise BrokerUnreachable(f"{address} does not take a connection: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if login:
            log_in(self.request, address, configs or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for each answer from now on."""
        self._socket.settimeout(timeout)

    def request(self, request: Any) -> Any:
        """Send a request of kafka-python and wait for its answer."""
        self._protocol.send_request(request)
        try:
            self._socket.sendall(self._protocol.send_bytes())
            while True:
                received = self._socket.recv(1 << 16)
                if not received:
                    raise BrokerUnreachable(f"{self.address} closed the connection before it answered {request.name}")
                answers = self._protocol.receive_bytes(received)
                if answers:
                    return answers[0][1]
        except OSError as error:
            raise BrokerUnreachable(f"{self.address} did not answer {request.name}: {error}") from error
        except InvalidReceiveError as error:
            # What a TLS listener answers to a plaintext request.
            raise BrokerUnreachable(f"{self.address} did not answer {request.name} in Kafka's protocol") from error

    def metadata_mode(self) -> str:
        """The mode of its cluster: only brokers in KRaft mode pass DescribeQuorum on (KIP-595)."""
        return KRAFT if DescribeQuorumRequest.API_KEY in self._newest_versions else ZOOKEEPER

    def _version(self, request: Any, wanted: int) -> int:
        """The version of a request to use: `wanted`, or the newest that this broker knows if that is older."""
        return min(wanted, self._newest_versions[request.API_KEY])

    @cached_property
    def _newest_versions(self) -> dict[int, int]:
        """By API key, the newest version that this broker knows."""
        return {api.api_key: api.max_version for api in self.request(ApiVersionsRequest(version=0)).api_keys}

    def latest_offset(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """(error, offset) of ListOffsets for the latest offset, which only a leader answers."""
        return self.latest_offsets({topic: [partition]})[topic, partition]

    def latest_offsets(
        self, partitions: Mapping[str, Iterable[int]], *, committed: bool = False, replica_id: int = CONSUMER
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """The same of many partitions in one request: (topic, partition) to (error, offset).

        `committed`: of a consumer that reads what is committed, whose end is the last stable offset.
        """
        found = self._list_offsets(partitions, committed=committed, replica_id=replica_id)
        return {place: (one.error_code, one.offset) for place, one in found.items()}

    def log_ends(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Where this broker's own replicas end, its high watermark or not: (topic, partition) to (error, offset)."""
        return self.latest_offsets(partitions, replica_id=DEBUGGING_CONSUMER)

    def high_watermarks(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """Of the partitions that this broker leads: (topic, partition) to (leader epoch, high watermark).

        Empty where the broker does not tell leader epochs (before 2.1).
        """
        return {
            place: (found.leader_epoch, found.offset)
            for place, found in self._list_offsets(partitions).items()
            if found.error_code == NONE and found.leader_epoch >= 0
        }

    def _list_offsets(
        self, partitions: Mapping[str, Iterable[int]], *, committed: bool = False, replica_id: int = CONSUMER
    ) -> dict[tuple[str, int], Any]:
        """ListOffsets for the latest offsets: a consumer gets the high watermark, or the last stable offset."""
        asked = ListOffsetsRequest.ListOffsetsTopic
        topics = [
            asked(
                name=topic,
                partitions=[
                    asked.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=_LATEST)
                    for number in numbers
                ],
            )
            for topic, numbers in partitions.items()
        ]
        version = self._version(ListOffsetsRequest, _LIST_OFFSETS)
        level = int(committed)
        request = ListOffsetsRequest(replica_id=replica_id, isolation_level=level, topics=topics, version=version)
        return {
            (topic.name, found.partition_index): found
            for topic in self.request(request).topics
            for found in topic.partitions
        }

    def produce(
        self, topic: str, record: str, *, acks: str = "all", partition: int = 0, timeout: float = 60.0
    ) -> tuple[int, int]:
        """Send one record, once: (error, offset) as this broker answers. acks=0 has no answer: use a producer.

        `timeout` is how long the broker may wait for the ISR, in seconds.
        """
        request = self._produce_request(topic, partition, record.encode(), acks=acks, timeout=timeout)
        answer = self.request(request).responses[0].partition_responses[0]
        return int(answer.error_code), int(answer.base_offset)

    def _produce_request(
        self,
        topic: str,
        partition: int,
        value: bytes,
        *,
        acks: str,
        timeout: float,
        version: int = _PRODUCE,
        transactional_id: str | None = None,
        batch: Mapping[str, Any] | None = None,
    ) -> Any:
        """A Produce request with one record; `batch`: what its batch says of an idempotent producer."""
        version = self._version(ProduceRequest, version)
        builder = MemoryRecordsBuilder(2 if version >= _FIRST_WITH_BATCHES else 1, 0, ENOUGH, **(batch or {}))
        builder.append(timestamp=None, key=None, value=value, headers=[])
        builder.close()
        data = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=builder.buffer())
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=-1 if acks == "all" else int(acks),
            timeout_ms=int(timeout * 1000),
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
            version=version,
        )

    def metadata(self, topic: str, partition: int = 0) -> MetadataAnswer:
        """This broker's metadata of the partition."""
        topics = [MetadataRequest.MetadataRequestTopic(name=topic)]
        answer = self._metadata(topics).topics[0]
        for found in answer.partitions:
            if found.partition_index == partition:
                leader = found.leader_id if found.leader_id >= 0 else None
                return MetadataAnswer(found.error_code, leader, found.leader_epoch, tuple(sorted(found.isr_nodes)))
        return MetadataAnswer(answer.error_code, None, -1, ())

    def leadership(self) -> dict[Partition, Leadership]:
        """This broker's metadata of all partitions."""
        return {
            (topic.name, found.partition_index): Leadership(
                found.leader_id if found.leader_id >= 0 else None,
                found.leader_epoch,
                tuple(found.replica_nodes),
                tuple(found.isr_nodes),
            )
            for topic in self._metadata(None).topics
            for found in topic.partitions
        }

    def coordinator(self, key: str, kind: CoordinatorKind) -> int | None:
        """The coordinator of this group or transactional id as this broker knows it; None where it knows none."""
        version = self._version(FindCoordinatorRequest, _FIND_COORDINATOR)
        answer = self.request(FindCoordinatorRequest(key=key, key_type=int(kind), version=version))
        return int(answer.node_id) if answer.error_code == NONE else None

    def controller(self) -> int | None:
        """The controller in this broker's metadata."""
        controller = int(self._metadata([]).controller_id)
        return controller if controller >= 0 else None

    def brokers(self) -> frozenset[int]:
        """The brokers in this broker's metadata."""
        return frozenset(int(broker.node_id) for broker in self._metadata([]).brokers)

    def _metadata(self, topics: Sequence[Any] | None) -> Any:
        version = self._version(MetadataRequest, _METADATA)
        return self.request(MetadataRequest(topics=topics, allow_auto_topic_creation=False, version=version))

    def quorum(self) -> QuorumAnswer | None:
        """The quorum as its leader describes it, to whom the broker passes this on; None where none does."""
        log = DescribeQuorumRequest.TopicData(
            topic_name="__cluster_metadata",
            partitions=[DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)],
        )
        answer = self.request(DescribeQuorumRequest(topics=[log], version=_DESCRIBE_QUORUM))
        found = answer.topics[0].partitions[0] if answer.error_code == NONE and answer.topics else None
        if found is None or found.error_code != NONE:
            return None
        return QuorumAnswer(int(found.leader_id), int(found.leader_epoch))


def answers(addresses: Iterable[str], ask: Callable[[BrokerClient], T], **connection: Any) -> Iterator[T]:
    """The answers of one broker after the other, without those that do not answer.

    `connection`: keywords of `BrokerClient`.
    """
    for address in addresses:
        try:
            with BrokerClient(address, **connection) as broker:
                answer = ask(broker)
        except BrokerUnreachable:
            continue
        yield answer
