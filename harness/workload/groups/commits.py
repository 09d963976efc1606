"""Commits of a member: what it asked for, and what it learned of it.

| what the client said | outcome |
| --- | --- |
| no error | ok |
| the coordinator refused the member, and no connection failed meanwhile | fail |
| anything else | info: an attempt whose answer was lost may have taken effect |
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_chaos.harness.workload.groups.assignment import Assignment, Tell

REFUSALS = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
    }
)
"""What a coordinator answers to a member that it no longer knows in this generation."""


def next_offsets(messages: Iterable[Any]) -> dict[int, int]:
    """The offsets to commit for these messages: per partition, the next one to read."""
    offsets: dict[int, int] = {}
    for message in messages:
        offsets[message.partition()] = max(offsets.get(message.partition(), 0), message.offset() + 1)
    return offsets


class Commits:
    """The commits of one member for `topic`. `errors` counts the errors of its connections so far."""

    def __init__(self, client: Any, topic: str, assignment: Assignment, tell: Tell) -> None:
        self.errors = 0
        self._client = client
        self._topic = topic
        self._assignment = assignment
        self._tell = tell
        self._numbers = itertools.count()
        self._last_ns = 0

    def partitions(self, offsets: Mapping[int, int]) -> list[TopicPartition]:
        """The offsets as the client takes them."""
        return [TopicPartition(self._topic, partition, offset) for partition, offset in sorted(offsets.items())]

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit and wait for the answer; returns whether all was acknowledged."""
        number, errors = self.asks(offsets), self.errors
        try:
            answers = self._client.commit(offsets=self.partitions(offsets), asynchronous=False)
            failed = {answer.partition: answer.error for answer in answers or () if answer.error is not None}
        except KafkaException as failure:
            failed = dict.fromkeys(offsets, failure.args[0])
        self.learns(number, failed, certain=self.errors == errors)
        return not failed

    def asks(
        self,
        offsets: Mapping[int, int],
        *,
        producer_id: int | None = None,
        transaction: int | None = None,
        since_ns: int | None = None,
    ) -> int:
        """A commit is about to be sent, or was at `since_ns` at the earliest; returns its number."""
        number = next(self._numbers)
        self._tell(
            "commit",
            number=number,
            consumer=self._assignment.name,
            offsets=sorted(offsets.items()),
            producer_id=producer_id,
            transaction=transaction,
            ns=time.monotonic_ns() if since_ns is None else since_ns,
        )
        return number

    def learns(self, number: int, failed: Mapping[int, KafkaError], *, certain: bool) -> None:
        """The commit was answered; `failed` are the partitions with an error. `certain`: no connection failed."""
        errors = [(partition, _outcome(error, certain), error.name()) for partition, error in failed.items()]
        self._tell("committed", number=number, errors=errors, ns=time.monotonic_ns())

    def automatic(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """The client committed by itself (callback `on_commit`). It was not asked for before its last answer."""
        since = max(self._last_ns, self._assignment.begun_ns)
        self._last_ns = time.monotonic_ns()
        stored = [one for one in partitions if one.offset >= 0]
        if stored:
            failed = {one.partition: found for one in stored if (found := one.error or error) is not None}
            number = self.asks({one.partition: one.offset for one in stored}, since_ns=since)
            self.learns(number, failed, certain=False)


def _outcome(error: KafkaError, certain: bool) -> str:
    return "fail" if certain and error.code() in REFUSALS else "info"
