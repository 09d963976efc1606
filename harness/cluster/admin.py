"""An admin client: it reads the metadata that clients get (topics, leaders, ISRs, the controller), and changes topics.

Requests for metadata have a short time-out, since brokers are asked while faults are injected.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.configuration import config_text
from kafka_chaos.faults.cluster import HARNESS_CLIENT_ID
from kafka_chaos.harness.signals import new_client, signals_held_back

METADATA_TIMEOUT = 2.0  # seconds
_NOT_AUTHORIZED = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_Request = Callable[..., dict[Any, Any]]
"""A method of confluent-kafka's AdminClient, which returns a future for each thing that it is asked about."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition in the metadata that clients get; `leader` is None while the partition has no leader."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class ClusterAdmin:
    """An admin client of the whole cluster.

    Methods take the name of a topic, or of a lane: `topics` maps lanes' names to their topics' names, if these differ.
    Only `alter_configs` and `configuration` take no lanes' names. `configs`: further keys of the client, as for SASL.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topics: Mapping[str, str] | None = None,
        configs: Mapping[str, str | int | float] | None = None,
    ) -> None:
        self._topics = topics or {}
        self.configs = configs or {}
        self._refusal = ""
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "client.id": HARNESS_CLIENT_ID,
            "socket.timeout.ms": 30_000,
            # Brokers are down on purpose: reconnect at once when they are back, without a log line.
            "reconnect.backoff.max.ms": 250,
            "log_level": 0,
            "error_cb": self._note_refusal,
            # A metadata request for a topic must not create the topic, as brokers allow by default.
            "allow.auto.create.topics": False,
            **self.configs,
        }
        self._client = new_client(AdminClient, self._settings, yields=False)

    def by_topic_names(self) -> Self:
        """A copy of this client whose methods take only names of topics, even if a lane is named like a topic."""
        client = copy(self)
        client._topics = {}
        return client

    def refusal(self) -> str:
        """Why brokers refused this client's login or certificate; empty if none did."""
        self._client.poll(0.1)
        return self._refusal

    def _note_refusal(self, error: KafkaError) -> None:
        text = " ".join(error.str().split())
        # With TLS 1.3, a broker refuses a certificate after the handshake: librdkafka reports a failed transport.
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) or "SSL routines" in text:
            self._refusal = text

    def create_topic(
        self, topic: str, *, replica_assignment: Sequence[Sequence[int]], configs: Mapping[str, object]
    ) -> None:
        """Create a topic whose partition i has the replicas `replica_assignment[i]`, preferred leader first."""
        name = self.topic(topic)
        assigned = [list(replicas) for replicas in replica_assignment]
        texts = {key: config_text(value) for key, value in configs.items()}
        new_topic = NewTopic(name, num_partitions=len(assigned), replica_assignment=assigned, config=texts)
        problem, already_created = f"topic {name} could not be created", KafkaError.TOPIC_ALREADY_EXISTS
        self._answer(problem, self._client.create_topics, new_topic, name, ok_on_retry=already_created)

    def add_partitions(self, topic: str, count: int, *, replica_assignment: Sequence[Sequence[int]]) -> None:
        """Raise a topic's partitions to `count`.

        `replica_assignment`: the replicas of each new partition, preferred leader first.
        """
        name = self.topic(topic)
        growth = NewPartitions(name, count, replica_assignment=[list(replicas) for replicas in replica_assignment])
        problem, already_added = f"partitions could not be added to topic {name}", KafkaError.INVALID_PARTITIONS
        self._answer(problem, self._client.create_partitions, growth, name, ok_on_retry=already_added)

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Request that topics are deleted; raises `ClusterFailure` for the first that is refused."""
        names = [self.topic(topic) for topic in topics]
        for name, future in (self._ask(self._client.delete_topics, names) if names else {}).items():
            try:
                future.result()
            except KafkaException as error:
                raise ClusterFailure(f"topic {name} could not be deleted: {error.args[0].str()}") from error

    def alter_configs(self, kind: ResourceType, name: str, configs: Mapping[str, object | None]) -> None:
        """Set configs of a topic or a group; None removes the topic's or group's own value (KIP-339)."""
        entries = []
        for key, value in configs.items():
            operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            text = None if value is None else config_text(value)
            entries.append(ConfigEntry(key, text, incremental_operation=operation))
        resource = ConfigResource(kind, name, incremental_configs=entries)
        problem = f"the configs of {name} could not be altered"
        self._answer(problem, self._client.incremental_alter_configs, resource, resource)

    def configuration(self, kind: ResourceType, name: str) -> Mapping[str, Any] | None:
        """The configuration of a topic or a broker, by key; None if this client may not read it."""
        resource = ConfigResource(kind, name)
        try:
            answers = self._ask(self._client.describe_configs, [resource], timeout=20.0)
            entries: Mapping[str, Any] = answers[resource].result()
        except KafkaException as error:
            if error.args[0].code() in _NOT_AUTHORIZED:
                return None
            problem = f"the configuration of {kind.name.lower()} {name} can't be read"
            raise EnvironmentFailure(f"{problem}: {error.args[0].str()}") from error
        return entries

    def topics(self) -> list[str]:
        """The names of all topics that are not Kafka's own; none while no broker answers in time."""
        metadata = self._metadata()
        return [] if metadata is None else sorted(name for name in metadata.topics if not name.startswith("__"))

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        """The topic's partitions; empty while no broker knows the topic or no broker answers in time."""
        name = self.topic(topic)
        metadata = self._metadata(name)
        if metadata is None or name not in metadata.topics or metadata.topics[name].error is not None:
            return {}
        return {number: _state(partition) for number, partition in metadata.topics[name].partitions.items()}

    def await_partitions(self, topic: str, *, timeout: float = 30) -> dict[int, PartitionState]:
        """Wait until a broker knows the topic, and return the topic's partitions; raises `WaitTimeout`."""
        return wait_until(lambda: self.partitions(topic), f"the partitions of {topic} to be known", timeout=timeout)

    def partition_numbers(self, topic: str) -> range:
        """Wait until a broker knows the topic, and return the partitions' numbers; raises `WaitTimeout`."""
        return range(len(self.await_partitions(topic)))

    def controller(self) -> int | None:
        """The controller's broker id; None while there is none or no broker answers in time."""
        metadata = self._metadata()
        return metadata.controller_id if metadata is not None and metadata.controller_id >= 0 else None

    def live_brokers(self) -> frozenset[int]:
        """The ids of the registered brokers; empty while no broker answers in time."""
        metadata = self._metadata()
        return frozenset(metadata.brokers) if metadata is not None else frozenset()

    def addresses(self) -> dict[int, str]:
        """The addresses of the registered brokers for clients, by id; empty while no broker answers in time."""
        metadata = self._metadata()
        return {} if metadata is None else {b.id: f"{b.host}:{b.port}" for b in metadata.brokers.values()}

    def end_offsets(
        self, topic: str, partitions: Sequence[int], *, committed: bool = False, timeout: float = 30
    ) -> dict[int, int]:
        """Each partition's end for a consumer: its high watermark, or with `committed` its last stable offset.

        The request is repeated while leaders move, each time by a new client: the old one would remember former leader
        epochs, or wait for leaders until it gives up.
        """
        refused = ""
        name = self.topic(topic)
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[int, int] | None:
            nonlocal refused
            asked = {TopicPartition(name, number): _LATEST for number in partitions}
            answers = self._ask(partial(self._client.list_offsets, isolation_level=isolation), asked, timeout=10)
            try:
                return {partition.partition: future.result().offset for partition, future in answers.items()}
            except KafkaException as error:
                refused = error.args[0].str()
                self._client = new_client(AdminClient, self._settings, yields=False)
                return None

        return wait_until(ask, f"the end offsets of {topic}", timeout=timeout, seen=lambda: refused)

    def await_stable_end(self, topic: str, partitions: Sequence[int], *, timeout: float) -> None:
        """Wait until no transaction is open: every last stable offset is the high watermark. Raises `WaitTimeout`."""
        open_ends: dict[int, tuple[int, int]] = {}
        """The last stable offset and the high watermark of each partition with an open transaction."""

        def all_ended() -> bool:
            stable = self.end_offsets(topic, partitions, committed=True)
            ends = self.end_offsets(topic, partitions)
            open_ends.clear()
            open_ends.update({number: (stable[number], end) for number, end in ends.items() if stable[number] < end})
            return not open_ends

        def seen() -> str:
            places = [f"partition {number} at offset {stable} of {end}" for number, (stable, end) in open_ends.items()]
            return f"the last stable offset stands still in {', '.join(places)}"

        wait_until(all_ended, f"all transactions in {topic} to end", timeout=timeout, interval=0.1, seen=seen)

    def await_brokers(self, count: int, *, timeout: float = 30) -> None:
        """Wait until the broker that answers knows a controller and `count` brokers.

        A new broker knows neither until the controller updates it. A client that asks earlier asks again only late.
        """
        wait_until(
            lambda: len(self.live_brokers()) >= count and self.controller() is not None,
            f"{count} brokers and a controller to be known",
            timeout=timeout,
            seen=lambda: f"brokers {sorted(self.live_brokers())}, controller {self.controller()}",
        )

    def await_leader(self, topic: str, partition: int, *, other_than: int | None = None, timeout: float = 30) -> int:
        """Wait until the partition has a leader (other than `other_than`, if set), and return the leader's id."""

        def leader() -> int | None:
            state = self.partitions(topic).get(partition)
            return state.leader if state is not None and state.leader != other_than else None

        awaited = f"a leader of {topic}-{partition}" + (f" other than broker {other_than}" if other_than else "")
        return wait_until(leader, awaited, timeout=timeout, seen=lambda: str(self.partitions(topic)))

    def await_full_isr(self, topics: Sequence[str], *, timeout: float = 60) -> None:
        """Wait until every replica of every partition is in its ISR and every partition has a leader."""

        # A topic that no broker knows yet lags, too: it counts as partition -1, which has no leader.
        def lagging() -> list[str]:
            return [
                f"{topic}-{number} {state}"
                for topic in topics
                for number, state in (self.partitions(topic) or {-1: PartitionState(None, (), ())}).items()
                if state.leader is None or set(state.isr) != set(state.replicas)
            ]

        awaited = f"all replicas of {len(topics)} topics to be in sync"
        wait_until(lambda: not lagging(), awaited, timeout=timeout, interval=0.1, seen=lambda: "; ".join(lagging()[:5]))

    def _answer(self, problem: str, request: _Request, asked: Any, key: Any, *, ok_on_retry: int | None = None) -> Any:
        """Call `request` with `asked`, one thing to ask for, and return the answer that has this `key`.

        Raises `ClusterFailure`, whose message begins with `problem`, if the answer is an error. Since 2.10, librdkafka
        gives a request up if its broker is missing in the metadata of another broker, as may happen after a restart
        (librdkafka #4557). Such a request is sent again. If the repeated request gets the error code `ok_on_retry`, the
        first request was carried out.
        """
        given_up = False

        # `wait_until` waits for a true value. A tuple is true even if the answer in it is None, as for a created topic.
        def answer() -> tuple[Any] | None:
            nonlocal given_up
            try:
                return (self._ask(request, [asked])[key].result(),)
            except KafkaException as error:
                if given_up and error.args[0].code() == ok_on_retry:
                    return (None,)
                given_up = error.args[0].code() == KafkaError._DESTROY_BROKER
                if not given_up:
                    raise ClusterFailure(f"{problem}: {error.args[0].str()}") from error
                return None

        return wait_until(answer, "a broker that stays in the metadata", timeout=30, seen=lambda: problem)[0]

    def _ask(self, request: _Request, asked: object, *, timeout: float = 30) -> dict[Any, Any]:
        # confluent-kafka would report an interrupt in this call as a wrong argument. The call returns at once.
        with signals_held_back():
            return request(asked, request_timeout=timeout)

    def topic(self, topic: str) -> str:
        """The name of a lane's topic. `topic`: the lane's name, or a topic's name, which is returned unchanged."""
        return self._topics.get(topic, topic)

    def _metadata(self, topic: str | None = None) -> Any | None:
        try:
            return self._client.list_topics(topic, timeout=METADATA_TIMEOUT)
        except KafkaException:
            return None


def _state(partition: Any) -> PartitionState:
    leader = partition.leader if partition.leader >= 0 else None
    return PartitionState(leader, tuple(partition.replicas), tuple(partition.isrs))
