"""Requests to a broker of the caller's choice: a client library would choose the broker itself.

The messages are kafka-python's, in the newest version that both this module and the broker know. Nothing is retried: an
answer is what this broker says at this moment.
"""

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, partial
from typing import Any, Self, TypeVar

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.metadata import KRAFT, ZOOKEEPER
from kafka_chaos.contract.wire import kafka_python as wire
from kafka_chaos.faults.cluster import HARNESS_CLIENT_ID, Leadership, PartitionId

# The newest version of each request that this module knows; `_version` takes an older one for an older broker.
_LIST_OFFSETS_VERSION = 6
_METADATA_VERSION = 8
_FIND_COORDINATOR_VERSION = 3
"""The last version that asks for the coordinator of a single key."""
_PRODUCE_VERSION = 8
_DESCRIBE_QUORUM_VERSION = 1
_LATEST_TIMESTAMP = -1
"""The timestamp by which ListOffsets asks for the latest offset."""
_FIRST_PRODUCE_WITH_BATCHES = 3
"""The first version of Produce that takes message format v2."""
CONSUMER = -1
"""The replica id of a consumer in Fetch and ListOffsets."""
DEBUGGING_CONSUMER = -2
"""A replica id in Fetch and ListOffsets: even followers before KIP-392 answer, and the latest offset is the log end."""
MAX_BYTES = 1 << 20
"""The size limit of a record batch, and of an answer to Fetch: more than any test record needs."""
LEADER_FETCH_VERSION = 10
"""The last version of Fetch that only a leader answers (KIP-392 lets followers answer consumers from 11 on)."""
FETCH_VERSION = 12
"""A version of Fetch that followers answer, too, and that has topics' names instead of their ids."""

# Kafka's error codes.
NONE = 0
NOT_LEADER_OR_FOLLOWER = 6
_ERROR_NAMES = {
    NONE: "NONE",
    NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_OR_FOLLOWER",
    121: "INVALID_RECORD_STATE",
    122: "SHARE_SESSION_NOT_FOUND",
    123: "INVALID_SHARE_SESSION_EPOCH",
}
"""Error names that kafka-python lacks, or has in a former form."""
_PLAIN, _SCRAM = "PLAIN", "SCRAM-"

T = TypeVar("T")


class CoordinatorKind(IntEnum):
    """The kind of a coordinator's key: a consumer group, or a transactional id."""

    GROUP = 0
    TRANSACTION = 1


class BrokerUnreachable(ClusterFailure):
    """The broker refused the connection or the login, or closed the connection before it answered."""


class UnsupportedMechanism(BrokerUnreachable):
    """This module can't log in by the clients' SASL mechanism, so it can't send requests to single brokers."""


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """A broker's answer to a fetch: Kafka's error code, and if the code is `NONE`, offsets and records."""

    error: int
    high_watermark: int
    log_start: int
    records: bytes


@dataclass(frozen=True, slots=True)
class QuorumAnswer:
    """KRaft's quorum of controllers: the node id of its leader, the active controller (−1: none), and leader epoch."""

    leader: int
    leader_epoch: int


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    from kafka.errors import kafka_errors

    error = kafka_errors.get(code)
    return _ERROR_NAMES.get(code) or (error.message if error is not None else f"error {code}")


class BrokerClient:
    """A connection to one broker; a context manager.

    `timeout` is in seconds, for connecting and for each answer. `configs`: librdkafka's keys for TLS and SASL. Without
    `login`, a broker that requires a login answers only ApiVersions. Raises `BrokerUnreachable`.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 3.0,
        configs: Mapping[str, str] | None = None,
        login: bool = True,
        client_id: str = HARNESS_CLIENT_ID,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._protocol = wire.KafkaProtocol(client_id=client_id)
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
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def set_timeout(self, seconds: float) -> None:
        """Let each request from now on wait up to `seconds` for its answer."""
        self._socket.settimeout(seconds)

    def request(self, request: Any) -> Any:
        """Send a request of kafka-python and return its answer. Raises `BrokerUnreachable` if none comes in time."""
        self._protocol.send_request(request)
        try:
            self._socket.sendall(self._protocol.send_bytes())
            while True:
                received = self._socket.recv(1 << 16)
                if not received:
                    raise BrokerUnreachable(f"{self.address} closed the connection before it answered {request.name}")
                answered = self._protocol.receive_bytes(received)
                if answered:
                    _correlation_id, answer = answered[0]
                    return answer
        except OSError as error:
            raise BrokerUnreachable(f"{self.address} did not answer {request.name}: {error}") from error
        except wire.InvalidReceiveError as error:
            # A TLS listener answers a plaintext request like this.
            raise BrokerUnreachable(f"{self.address} did not answer {request.name} in Kafka's protocol") from error

    def metadata_mode(self) -> str | None:
        """The metadata mode of the broker's cluster, by the requests that only brokers in this mode know.

        Only KRaft mode has DescribeQuorum (KIP-595), and only ZooKeeper mode has LeaderAndIsr. None: the broker knows
        neither, like some brokers that are not Apache Kafka.
        """
        if wire.DescribeQuorumRequest.API_KEY in self._newest_versions:
            return KRAFT
        return ZOOKEEPER if wire.ApiKey.LeaderAndIsr in self._newest_versions else None

    def ask(self, kind: Any, newest: int, **fields: Any) -> Any:
        """The answer to a request of this kind, in the version `newest`, or in an older one if the broker is older."""
        return self.request(kind(version=self._version(kind, newest), **fields))

    def _version(self, kind: Any, newest: int) -> int:
        """The version to use for a kind of request: `newest`, or the newest that this broker knows if that is older."""
        return min(newest, self._newest_versions[kind.API_KEY])

    @cached_property
    def _newest_versions(self) -> dict[int, int]:
        """The newest version of each API, by its key, that this broker knows."""
        return {api.api_key: api.max_version for api in self.request(wire.ApiVersionsRequest(version=0)).api_keys}

    def latest_offset(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """A partition's latest offset, which only its leader tells: (error code, offset)."""
        return self.latest_offsets({topic: [partition]})[topic, partition]

    def latest_offsets(
        self, partitions: Mapping[str, Iterable[int]], *, committed: bool = False, replica_id: int = CONSUMER
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """The latest offsets of many partitions: (error code, offset) by (topic, partition).

        `committed`: ask as a consumer in isolation level read_committed, whose end is the last stable offset.
        """
        entries = self._list_offsets(partitions, committed=committed, replica_id=replica_id)
        return {partition: (entry.error_code, entry.offset) for partition, entry in entries.items()}

    def log_ends(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """The log end offsets of this broker's own replicas: (error code, offset) by (topic, partition)."""
        return self.latest_offsets(partitions, replica_id=DEBUGGING_CONSUMER)

    def high_watermarks(self, partitions: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], tuple[int, int]]:
        """The high watermarks of the partitions that this broker leads: (leader epoch, offset) by (topic, partition).

        Empty if the broker tells no leader epochs (before 2.1).
        """
        return {
            partition: (entry.leader_epoch, entry.offset)
            for partition, entry in self._list_offsets(partitions).items()
            if entry.error_code == NONE and entry.leader_epoch >= 0
        }

    def _list_offsets(
        self, partitions: Mapping[str, Iterable[int]], *, committed: bool = False, replica_id: int = CONSUMER
    ) -> dict[tuple[str, int], Any]:
        """The answer to ListOffsets by (topic, partition).

        The offset for a consumer is the last stable offset if `committed`, else the high watermark.
        """
        kind = wire.ListOffsetsRequest.ListOffsetsTopic
        latest = partial(kind.ListOffsetsPartition, current_leader_epoch=-1, timestamp=_LATEST_TIMESTAMP)
        topics = [
            kind(name=topic, partitions=[latest(partition_index=number) for number in numbers])
            for topic, numbers in partitions.items()
        ]
        fields = {"replica_id": replica_id, "isolation_level": int(committed), "topics": topics}
        answer = self.ask(wire.ListOffsetsRequest, _LIST_OFFSETS_VERSION, **fields)
        return {(topic.name, entry.partition_index): entry for topic in answer.topics for entry in topic.partitions}

    def fetch(
        self, topic: str, partition: int = 0, *, offset: int = 0, leader_epoch: int = -1, version: int = FETCH_VERSION
    ) -> FetchAnswer:
        """Fetch as a consumer that knows `leader_epoch` (−1: none), in `version` or the broker's older version."""
        used_version = self._version(wire.FetchRequest, version)
        # An old follower answers only debugging consumers. With LEADER_FETCH_VERSION, no follower is meant to answer.
        debugging = used_version <= LEADER_FETCH_VERSION < version
        fetch_partition = wire.FetchRequest.FetchTopic.FetchPartition(
            partition=partition, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=MAX_BYTES
        )
        # The rest has the protocol's defaults: without a wait, a session and a rack, and with what is not committed.
        answer = self.ask(
            wire.FetchRequest,
            used_version,
            replica_id=DEBUGGING_CONSUMER if debugging else CONSUMER,
            max_bytes=MAX_BYTES,
            topics=[wire.FetchRequest.FetchTopic(topic=topic, partitions=[fetch_partition])],
        )
        fetched = answer.responses[0].partitions[0]
        return FetchAnswer(fetched.error_code, fetched.high_watermark, fetched.log_start_offset, fetched.records or b"")

    def produce(
        self, topic: str, record: str, *, acks: str = "all", partition: int = 0, timeout: float = 60.0
    ) -> tuple[int, int]:
        """Send one record without retries, and return the broker's (error code, offset).

        `timeout` is how long the broker may wait for the ISR, in seconds. acks=0 has no answer: use a producer for it.
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
        version: int = _PRODUCE_VERSION,
        transactional_id: str | None = None,
        batch: Mapping[str, Any] | None = None,
    ) -> Any:
        """A Produce request with one record; `batch`: the id, epoch and sequence number of an idempotent producer."""
        version = self._version(wire.ProduceRequest, version)
        magic = 2 if version >= _FIRST_PRODUCE_WITH_BATCHES else 1
        builder = wire.MemoryRecordsBuilder(magic, compression_type=0, batch_size=MAX_BYTES, **(batch or {}))
        builder.append(timestamp=None, key=None, value=value, headers=[])
        builder.close()
        data = wire.ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=builder.buffer())
        return wire.ProduceRequest(
            transactional_id=transactional_id,
            acks=-1 if acks == "all" else int(acks),
            timeout_ms=int(timeout * 1000),
            topic_data=[wire.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
            version=version,
        )

    def metadata(self, topic: str, partition: int = 0) -> Leadership:
        """A partition's leadership in this broker's metadata; a missing partition has no leader, and epoch −1."""
        topics = [wire.MetadataRequest.MetadataRequestTopic(name=topic)]
        return self.leadership(topics).get((topic, partition), Leadership(None, -1, (), ()))

    def leadership(self, topics: Sequence[Any] | None = None) -> dict[PartitionId, Leadership]:
        """The leadership of the topics' partitions in this broker's metadata; without `topics`, of all topics."""
        leadership = {}
        for topic in self._metadata(topics).topics:
            for state in topic.partitions:
                leader = state.leader_id if state.leader_id >= 0 else None
                replicas, isr = tuple(state.replica_nodes), tuple(state.isr_nodes)
                leadership[topic.name, state.partition_index] = Leadership(leader, state.leader_epoch, replicas, isr)
        return leadership

    def coordinator(self, key: str, kind: CoordinatorKind) -> int | None:
        """The node id of a group's or transactional id's coordinator, as this broker knows it; None if unknown."""
        answer = self.ask(wire.FindCoordinatorRequest, _FIND_COORDINATOR_VERSION, key=key, key_type=int(kind))
        return int(answer.node_id) if answer.error_code == NONE else None

    def controller(self) -> int | None:
        """The controller's node id in this broker's metadata; None if the metadata names none."""
        controller = int(self._metadata([]).controller_id)
        return controller if controller >= 0 else None

    def brokers(self) -> frozenset[int]:
        """The node ids of the brokers in this broker's metadata."""
        return frozenset(int(broker.node_id) for broker in self._metadata([]).brokers)

    def _metadata(self, topics: Sequence[Any] | None) -> Any:
        return self.ask(wire.MetadataRequest, _METADATA_VERSION, topics=topics, allow_auto_topic_creation=False)

    def quorum(self) -> QuorumAnswer | None:
        """The quorum of controllers as its leader describes it; None if the broker reaches no leader."""
        kind = wire.DescribeQuorumRequest.TopicData
        metadata_log = kind(topic_name="__cluster_metadata", partitions=[kind.PartitionData(partition_index=0)])
        answer = self.request(wire.DescribeQuorumRequest(topics=[metadata_log], version=_DESCRIBE_QUORUM_VERSION))
        state = answer.topics[0].partitions[0] if answer.error_code == NONE and answer.topics else None
        if state is None or state.error_code != NONE:
            return None
        return QuorumAnswer(int(state.leader_id), int(state.leader_epoch))


def active_controller(addresses: Iterable[str], configs: Mapping[str, str]) -> int | None:
    """The node id of KRaft's active controller, from the first broker that knows it; None if no broker does."""
    quorums = ask_each(addresses, BrokerClient.quorum, timeout=1.0, configs=configs)
    return next((quorum.leader for quorum in quorums if quorum is not None and quorum.leader >= 0), None)


def ask_each(addresses: Iterable[str], ask: Callable[[BrokerClient], T], **connection: Any) -> Iterator[T]:
    """Connect to each broker in turn, and yield what `ask` returns; brokers that do not answer are left out.

    `connection`: keywords of `BrokerClient`.
    """
    for address in addresses:
        try:
            with BrokerClient(address, **connection) as broker:
                answer = ask(broker)
        except BrokerUnreachable:
            continue
        yield answer


# --- TLS, and SCRAM or PLAIN, from the librdkafka keys that other clients get -----------------------------------------


def over_tls(connection: socket.socket, host: str, configs: Mapping[str, str]) -> socket.socket:
    """The connection, over TLS if `configs` ask for it; the broker's certificate then has to name `host`."""
    if not configs.get("security.protocol", "PLAINTEXT").upper().endswith("SSL"):
        return connection
    context = ssl.create_default_context(cafile=configs.get("ssl.ca.location"))
    if "ssl.certificate.location" in configs:
        context.load_cert_chain(configs["ssl.certificate.location"], configs.get("ssl.key.location"))
    return context.wrap_socket(connection, server_hostname=host)


def log_in(request: Callable[[Any], Any], address: str, configs: Mapping[str, str]) -> None:
    """Authenticate if `configs` ask for SASL. `request` sends a request to the broker and returns its answer.

    Raises `BrokerUnreachable` if the broker refuses, `UnsupportedMechanism` for another mechanism than SCRAM or PLAIN.
    """
    if not configs.get("security.protocol", "PLAINTEXT").upper().startswith("SASL"):
        return
    mechanism = configs.get("sasl.mechanisms") or configs.get("sasl.mechanism", "GSSAPI")
    if mechanism != _PLAIN and not mechanism.startswith(_SCRAM):
        problem = f"sasl.mechanisms: {mechanism}: expected PLAIN or SCRAM for single requests"
        raise UnsupportedMechanism(f"{address}: {problem}")
    _checked(address, request(wire.SaslHandshakeRequest(mechanism=mechanism, version=1)))
    if mechanism == _PLAIN:
        credentials = f"\0{configs['sasl.username']}\0{configs['sasl.password']}"
        _checked(address, request(wire.SaslAuthenticateRequest(auth_bytes=credentials.encode(), version=1)))
        return
    scram = wire.ScramClient(configs["sasl.username"], configs["sasl.password"], mechanism)
    first = request(wire.SaslAuthenticateRequest(auth_bytes=scram.first_message(), version=1))
    scram.process_server_first_message(_checked(address, first).auth_bytes)
    final = request(wire.SaslAuthenticateRequest(auth_bytes=scram.final_message(), version=1))
    scram.process_server_final_message(_checked(address, final).auth_bytes)


def _checked(address: str, answer: Any) -> Any:
    if answer.error_code:
        reason = getattr(answer, "error_message", None) or f"error {answer.error_code}"
        raise BrokerUnreachable(f"{address} refuses the login: {reason}")
    return answer
