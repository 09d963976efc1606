"""A group's coordinator as one consumer sees it, without brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.harness.identity import IDENTITY_HEADER, IdentityCodec
from tests.plugin.application.fakes import InGroup, Message

LANE = "orders"
CODEC = IdentityCodec(LANE)


class Died(Exception):
    """Stands for SIGKILL."""


def record(partition: int, offset: int, identity: tuple[int, int], *, in_header: bool = False) -> Message:
    """A record that was read, with its identity as its value, or in a header, as an application's has it."""
    carried = CODEC.encode(*identity)
    as_header = {"value": b"the application's own", "headers": [(IDENTITY_HEADER, carried)]}
    return Message(LANE, partition, offset, leader_epoch=4, **(as_header if in_header else {"value": carried}))


def failure(partition: int, offset: int, code: int, *reason: str) -> Message:
    return Message(LANE, partition, offset, error=KafkaError(code, *reason))


def end_of(partition: int, offset: int) -> Message:
    return failure(partition, offset, KafkaError._PARTITION_EOF)


@dataclass
class FakeConsumer(InGroup):
    """`polls` are what each poll gives; a rebalance stands among them as a function."""

    polls: list[list[Message] | Callable[[FakeConsumer], None]] = field(default_factory=list)
    refusal: KafkaError | None = None
    generation: int = 1
    committed_offsets: list[dict[int, int]] = field(default_factory=list)
    sought: list[tuple[int, int]] = field(default_factory=list)
    closed: bool = False
    topic: str = LANE
    callbacks: dict[str, Any] = field(default_factory=dict)

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        assert topics == [LANE]
        self.callbacks = callbacks

    def consume(self, most: int, timeout: float) -> list[Message]:
        given = self.polls.pop(0) if self.polls else []
        if callable(given):
            given(self)
            return []
        return given

    def commit(self, offsets: Sequence[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        if self.refusal is not None:
            raise KafkaException(self.refusal)
        self.committed_offsets.append({one.partition: one.offset for one in offsets})
        return list(offsets)

    def seek(self, place: TopicPartition) -> None:
        self.sought.append((place.partition, place.offset))

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeOrders:
    """Leaves once the consumer has nothing left to give."""

    consumer: FakeConsumer
    freezing: int = 0
    must_crash: bool = False

    def take_freeze(self) -> bool:
        self.freezing -= 1
        return self.freezing >= 0

    def must_leave(self) -> bool:
        return not self.consumer.polls
