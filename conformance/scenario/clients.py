"""Producers and consumers of a scenario. Each producer has one request in flight; all answers are kept in order."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.signals import new_client

NAME_HEADER = "record"
"""The header with the name of a tombstone; the name of any other record is its value."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that a producer got for a record: an offset (None with acks=0), or the name of Kafka's error."""

    record: str
    producer: str
    offset: int | None
    error: str | None
    arrival: float
    """When the answer arrived, by this process's monotonic clock, in seconds."""


@dataclass
class Producers:
    """The producers of one act on one topic; a context manager that ends them."""

    bootstrap_servers: str
    topic: str
    _producers: dict[str, Producer] = field(default_factory=dict)
    _answers: list[Answer] = field(default_factory=list)
    _errors: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._poll_producers, name=f"producers of {self.topic}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        for producer in self._producers.values():
            producer.purge()
            producer.poll(0)

    def send(
        self,
        record: str,
        *,
        producer: str = "p",
        acks: str = "all",
        idempotent: bool = False,
        key: str | None = None,
        tombstone: bool = False,
        configs: Mapping[str, object] | None = None,
        partition: int = 0,
    ) -> None:
        """Hand a record to the producer of this name; `answers` will have the answer.

        A producer keeps the settings of its first record. A tombstone has no value, so a header carries its name.
        """
        client = self._producers.get(producer)
        if client is None:
            client = self._producers[producer] = self._make(producer, acks, idempotent, configs or {})

        def note_answer(error: KafkaError | None, message: Message) -> None:
            offset = message.offset() if error is None and acks != "0" else None
            with self._lock:
                error_name = None if error is None else str(error.name())
                self._answers.append(Answer(record, producer, offset, error_name, time.monotonic()))

        value = None if tombstone else record.encode()
        headers: list[tuple[str, str | bytes | None]] = [(NAME_HEADER, record.encode())] if tombstone else []
        client.produce(self.topic, value=value, key=key, headers=headers, partition=partition, on_delivery=note_answer)

    def answers(self) -> tuple[Answer, ...]:
        """All answers so far, in the order of arrival."""
        with self._lock:
            return tuple(self._answers)

    def acknowledged(self) -> tuple[tuple[str, int | None], ...]:
        """(record, offset) of every acknowledgement, in the order of arrival."""
        return tuple((answer.record, answer.offset) for answer in self.answers() if answer.error is None)

    def errors(self) -> tuple[str, ...]:
        """The names of the errors that producers reported besides answers, such as broken connections."""
        with self._lock:
            return tuple(self._errors)

    def _make(self, name: str, acks: str, idempotent: bool, configs: Mapping[str, object]) -> Producer:
        def note_error(error: KafkaError) -> None:
            with self._lock:
                self._errors.append(str(error.name()))

        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": name,
            "acks": acks,
            "enable.idempotence": idempotent,
            "max.in.flight": 1,
            "linger.ms": 0,
            "retry.backoff.ms": 100,
            "retry.backoff.max.ms": 100,
            "reconnect.backoff.max.ms": 250,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "message.timeout.ms": 300_000,
            # Brokers are broken on purpose: lines about that in the log would only distract.
            "log_level": 0,
            "error_cb": note_error,
            **configs,
        }
        return new_client(Producer, settings)

    def _poll_producers(self) -> None:
        while not self._ending.is_set():
            for producer in list(self._producers.values()):
                producer.poll(0)
            self._ending.wait(0.02)


def read_partitions(
    bootstrap_servers: str,
    topic: str,
    partitions: Sequence[int] = (0,),
    *,
    timeout: float = 20.0,
    isolation: str = "read_committed",
) -> dict[int, list[tuple[int, str]]]:
    """By partition, (offset, name) of each record that a consumer reads from the first offset to the end.

    Raises `ClusterFailure` on an error, or if no record comes for `timeout` seconds before the end.
    """
    consumer = new_client(
        Consumer,
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "kafka-chaos-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "log_level": 0,
        },
    )
    records: dict[int, list[tuple[int, str]]] = {number: [] for number in partitions}
    unfinished = set(partitions)
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        while unfinished:
            message = consumer.poll(timeout)
            if message is None:
                raise ClusterFailure(f"a consumer of {topic} did not reach the end within {timeout} s")
            error, number = message.error(), message.partition() or 0
            if error is None:
                records[number].append((message.offset() or 0, (message.value() or b"").decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(number)
            elif error.fatal() or not error.retriable():
                raise ClusterFailure(f"a consumer of {topic} got {error.name()}") from KafkaException(error)
        return records
    finally:
        consumer.close()


def commit_an_offset(bootstrap_servers: str, topic: str) -> None:
    """Let a consumer group with the name of the topic read one record of the topic and commit its offset."""
    consumer = new_client(
        Consumer,
        {"bootstrap.servers": bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0},
    )
    try:
        consumer.subscribe([topic])

        def try_to_commit() -> bool:
            message = consumer.poll(0.5)
            if message is None or message.error() is not None:
                return False
            consumer.commit(message=message, asynchronous=False)
            return True

        wait_until(try_to_commit, "a consumer group to commit an offset", timeout=60)
    finally:
        consumer.close()
