"""Fakes of confluent-kafka's clients and messages."""

import struct
from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition


class Message:
    def __init__(self, topic: str, partition: int, offset: int, **more: Any) -> None:
        self._told = {
            "topic": topic, "partition": partition, "offset": offset, "error": None, "leader_epoch": 0, **more,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self._told.get(name)


class FakeProducer:
    """Holds what it is given until `deliver`."""

    def __init__(self, configs: dict[str, Any]) -> None:
        self.configs = configs
        self.queue: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self.refusal: Exception | None = None
        self.closed = False
        self.calls: list[str] = []

    def produce(self, topic: str, value: Any, key: Any, **options: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.queue.append((topic, value, key, options))

    def deliver(self, index: int, *, partition: int = 0, offset: int = 0) -> None:
        topic, _, _, options = self.queue.pop(index)
        options["on_delivery"](None, Message(topic, partition, offset))

    def poll(self, timeout: float = 0) -> int:
        return 0

    def purge(self) -> None:
        self.queue.clear()

    def close(self) -> None:
        self.closed = True

    def __len__(self) -> int:
        return len(self.queue)

    def init_transactions(self, timeout: float) -> None:
        self._called(f"init {timeout:g}")

    def begin_transaction(self) -> None:
        self._called("begin")

    def commit_transaction(self, timeout: float) -> None:
        self._called(f"commit {timeout:g}")

    def abort_transaction(self, timeout: float) -> None:
        self._called(f"abort {timeout:g}")

    def send_offsets_to_transaction(self, *offsets: object) -> None:
        self._called("send offsets")

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.refusal is not None:
            raise self.refusal


class FakeConsumer:
    """Hands out the messages that it was made with, and calls back as a rebalance would."""

    messages: list[Message]

    def __init__(self, configs: dict[str, Any]) -> None:
        self.configs = configs
        self.callbacks: dict[str, Any] = {}
        self.messages = []

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        (self.topic,) = topics
        self.callbacks = callbacks

    def poll(self, timeout: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def seek(self, partition: Any) -> None:
        pass

    def assign(self, partitions: Any) -> None:
        pass

    def close(self) -> None:
        self.is_open = False

    def memberid(self) -> str:
        return ""

    def consumer_group_metadata(self) -> bytes:
        return b""


class InGroup:
    """A consumer's group: it gives and takes partitions of the topic, and has a generation."""

    topic: str
    callbacks: dict[str, Any]
    generation: int = 1
    is_open = True

    def gives(self, *partitions: int) -> None:
        self.callbacks["on_assign"](self, [TopicPartition(self.topic, number) for number in partitions])

    def takes(self, *partitions: int, lost: bool = False) -> None:
        callback = self.callbacks["on_lost" if lost else "on_revoke"]
        callback(self, [TopicPartition(self.topic, number) for number in partitions])

    def memberid(self) -> str:
        return "member-1"

    def consumer_group_metadata(self) -> bytes:
        if not self.is_open:
            raise RuntimeError("Consumer closed")
        return b"CGMDv2:" + struct.pack("=i", self.generation) + b"group\0member-1\0"
