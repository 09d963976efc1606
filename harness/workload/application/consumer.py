"""A consumer for a user's application: a `confluent_kafka.Consumer` that records everything it receives.

A name in the history denotes one uninterrupted assignment: an assignment, a seek, and a position that was reset
(`auto.offset.reset`, KIP-320) each begin a new one; a position that went back otherwise does not (`member.py`). In a
lane with a group, or in a loop, its assignments and its commits are recorded, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.application.member import Callbacks, Member
from kafka_chaos.harness.workload.clients.calls import Calls
from kafka_chaos.harness.workload.clients.following import behind
from kafka_chaos.harness.workload.history.writer import CONSUMED_SCHEMA, RowBuffer
from kafka_chaos.harness.workload.tables import LoadTables

Rebalanced = Callable[[Any, Any], None]
_RESETS_TO_THE_START = ("smallest", "earliest", "beginning")


class ConsumerRecorder:
    """Records what all consumers of one lane's application receive; `has_groups`: what their groups do, too."""

    def __init__(
        self, lane: LaneSpec, tables: LoadTables, *, has_groups: bool = False, calls: Calls | None = None
    ) -> None:
        self.tables = tables
        self.has_groups = has_groups
        self.calls = calls or Calls()
        self.begins_at_0 = lane.transactional is None and lane.cleanup_policy is None
        self.clients: list[RecordingConsumer] = []
        self.group_ids: set[str] = set()
        self.lane = lane.lane
        self.topic = lane.topic_name
        self.consumed = 0
        self.codec = IdentityCodec(lane.lane)
        self._rows = RowBuffer(CONSUMED_SCHEMA, tables.consumed)
        self._last_ns = 0
        self._position: dict[int, int] = {}
        self._lock = threading.Lock()

    def client(self, configs: Mapping[str, object]) -> RecordingConsumer:
        """Add a client."""
        client = RecordingConsumer(self, configs, f"{self.lane}-application-{len(self.clients) + 1}")
        self.clients.append(client)
        self.group_ids.add(str(configs["group.id"]))
        return client

    def finish(self) -> None:
        """The application has ended: what its clients left open has no end in the history."""
        for client in self.clients:
            client.member.ended()
        self.clients = []

    def member_with(self, metadata: object) -> Member | None:
        """The member whose group metadata these are."""
        return next((client.member for client in self.clients if client.member.metadata() == metadata), None)

    def behind(self, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The partitions that were not read to their end: (read, end) by number."""
        with self._lock:
            return behind(self._position, ends)

    def record(self, name: str, message: Any) -> None:
        """Record a message that a client received."""
        with self._lock:
            self._last_ns = max(self._last_ns + 1, time.monotonic_ns())
            producer_id, seq = self.codec.carried(message.value(), message.headers())
            self._rows.add(
                {
                    "lane": self.lane,
                    "consumer": name,
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "producer_id": producer_id,
                    "seq": seq,
                    "leader_epoch": message.leader_epoch(),
                    "poll_ns": self._last_ns,
                }
            )
            self.consumed += 1
            end = message.offset() + 1
            self._position[message.partition()] = max(self._position.get(message.partition(), 0), end)


class RecordingConsumer:
    """Behaves as a `confluent_kafka.Consumer`; other methods are passed on to the client."""

    def __init__(self, recorder: ConsumerRecorder, configs: Mapping[str, object], name: str) -> None:
        """`name` begins the names of its assignments."""
        self._recorder = recorder
        self._resets_to = str(configs.get("auto.offset.reset", "latest"))
        self._last: dict[int, Any] = {}
        observed = Callbacks(configs)
        self._client = new_client(Consumer, observed.configs)
        self.member = observed.member = Member(
            self._client,
            configs,
            name=name,
            lane=recorder.lane,
            topic=recorder.topic,
            tables=recorder.tables,
            has_groups=recorder.has_groups,
            calls=recorder.calls,
        )

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Rebalanced | None = None,
        on_revoke: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
    ) -> None:
        """As `confluent_kafka.Consumer.subscribe`; callbacks get this consumer."""

        def assigned(_: Any, partitions: Any) -> None:
            self._last = {}
            self.member.given(partitions)
            if on_assign is not None:
                on_assign(self, partitions)

        def taken(callback: Rebalanced | None) -> Rebalanced:
            def take(_: Any, partitions: Any) -> None:
                if callback is not None:
                    callback(self, partitions)
                self.member.taken(partitions)

            return take

        callbacks = {"on_revoke": taken(on_revoke), "on_lost": taken(on_lost or on_revoke)}
        self._client.subscribe(list(topics), on_assign=assigned, **callbacks)

    def assign(self, partitions: Sequence[Any]) -> None:
        """As `confluent_kafka.Consumer.assign`."""
        self._last = {}
        self.member.replaced(partitions)
        self._client.assign(list(partitions))

    def incremental_assign(self, partitions: Sequence[Any]) -> None:
        """As `confluent_kafka.Consumer.incremental_assign`."""
        self._last = {}
        self.member.given(partitions)
        self._client.incremental_assign(list(partitions))

    def seek(self, partition: Any) -> None:
        """As `confluent_kafka.Consumer.seek`."""
        self._client.seek(partition)
        self._back()

    def poll(self, timeout: float = -1) -> Any:
        """As `confluent_kafka.Consumer.poll`."""
        message = self._client.poll(timeout)
        self._take([message])
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """As `confluent_kafka.Consumer.consume`."""
        messages = self._client.consume(num_messages, timeout)
        self._take(messages)
        return list(messages)

    def commit(self, *values: Any, **named: Any) -> Any:
        """As `confluent_kafka.Consumer.commit`."""
        return self.member.commit(*values, **named)

    def close(self) -> None:
        """As `confluent_kafka.Consumer.close`."""
        self._client.close()
        self.member.closed()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def _take(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if message is not None and message.error() is None and message.topic() == self._recorder.topic:
                self._take_one(message)
        self.member.polled()

    def _take_one(self, message: Any) -> None:
        partition, offset = message.partition(), message.offset()
        last = self._last.get(partition)
        if last is not None and offset <= last.offset() and self._was_reset(message, last):
            self._back()
        self._last[partition] = message
        self.member.receives(partition, offset)
        self._recorder.record(self.member.name, message)

    def _was_reset(self, message: Any, last: Any) -> bool:
        """Whether a position that went back was reset: to the start of the log or, after a truncation, to its end,
        from where on every record has a later leader epoch than those that were read."""
        if self._resets_to == "error":
            return False
        if self._resets_to not in _RESETS_TO_THE_START or not self._recorder.begins_at_0 or message.offset() == 0:
            return True
        epoch, before = message.leader_epoch(), last.leader_epoch()
        return epoch is None or before is None or epoch > before

    def _back(self) -> None:
        self._last = {}
        self.member.sought()
