"""The harness's own consumer of a lane, which follows it in a thread.

When the client reports that the log was truncated below its position (KIP-320), the consumer reads from the beginning
again.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.calls import Calls
from kafka_chaos.harness.workload.clients.following import Follower
from kafka_chaos.harness.workload.clients.partitions import known_partitions
from kafka_chaos.harness.workload.worker import Worker

_MOST_PER_POLL = 10_000
_POLL_TIMEOUT = 0.2
_LOOK_EVERY = 1.0
_ISOLATED = {"enable.partition.eof": True}
_POSITION_LOST = (KafkaError._LOG_TRUNCATION, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class RecordedConsumer(Follower):
    """Follows one lane in its own thread, until `drain` has seen it reach the end offsets.

    `start_offsets` maps partitions to first offsets; by default it begins at the topic's start. A topic that `grows_to`
    more than `partitions` is looked at again until it has: new partitions join the assignment, and are read from their
    start.
    """

    def __init__(
        self,
        *,
        topic: str,
        partitions: int,
        bootstrap_servers: str,
        configs: Mapping[str, object],
        on_error: Callable[[str], None],
        start_offsets: Mapping[int, int] | None = None,
        grows_to: int = 0,
        calls: Calls | None = None,
        **recorded: Any,
    ) -> None:
        """`recorded`: what every follower has, but for its `starts`. `calls` notes polls that take long."""
        self._calls = calls or Calls()
        starts = {number: (start_offsets or {}).get(number, 0) for number in range(partitions)}
        super().__init__(starts=starts, **recorded)
        self._topic = topic
        self._grows_to = grows_to
        self._looked_at = time.monotonic()
        self._codec = IdentityCodec(self.lane)
        self._on_error = on_error
        self._stop = threading.Event()
        self._consumer = new_client(
            Consumer,
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"kafka-chaos-{self.lane}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **({} if self._isolation is None else _ISOLATED | {"isolation.level": self._isolation}),
                **configs,
            },
        )
        self._assign()
        self._worker = Worker(self._run, name=f"consumer-{self._member}")
        self._worker.start()

    def goes_on(self) -> bool:
        """Whether its thread does; raises what the thread raised."""
        self._worker.raise_error()
        return self._worker.is_alive()

    def falls_short(self, problem: str) -> None:
        """The same, and report it."""
        isolation = f"{self._isolation} " if self._isolation else ""
        self._on_error(f"the {isolation}consumer of lane {self.lane} {problem}")
        super().falls_short(problem)

    def breaks(self, problem: str) -> None:
        """The same."""
        if self._shared is not None:
            self._shared.on_problem(problem)

    def close(self) -> None:
        """End the thread and write the last rows."""
        self._stop.set()
        self._worker.join()
        self.ended()
        self._consumer.close()

    def _assign(self) -> None:
        self.begins()
        starts = [(number, start or OFFSET_BEGINNING) for number, start in self._starts.items()]
        self._consumer.assign([TopicPartition(self._topic, number, start) for number, start in starts])

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._calls.awaiting(self.lane, self.name, "poll"):
                messages = self._consumer.consume(_MOST_PER_POLL, timeout=_POLL_TIMEOUT)
            self._take(messages)
            if len(self._starts) < self._grows_to and time.monotonic() - self._looked_at > _LOOK_EVERY:
                self._looked_at = time.monotonic()
                new = range(len(self._starts), known_partitions(self._consumer, self._topic))
                if new:
                    self._consumer.incremental_assign(
                        [TopicPartition(self._topic, one, OFFSET_BEGINNING) for one in new]
                    )
                    self.grows(new)

    def _take(self, messages: list[Any]) -> None:
        good = [message for message in messages if message.error() is None]
        if good:
            self._record(good)
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._rows.stands([(message.partition(), message.offset())])
            elif error is not None:
                self._on_error(f"{self.name}: {error.name()}")
                if error.code() in _POSITION_LOST:
                    self._assign()
                    break

    def _record(self, messages: list[Any]) -> None:
        decode = self._codec.decode
        identities = [decode(message.value()) for message in messages]
        if (-1, -1) in identities:
            identities = [
                self._codec.carried(None, message.headers()) if identity[0] < 0 else identity
                for message, identity in zip(messages, identities, strict=True)
            ]
        self.reads(
            partition=[message.partition() for message in messages],
            offset=[message.offset() for message in messages],
            producer_id=[producer_id for producer_id, _ in identities],
            seq=[seq for _, seq in identities],
            leader_epoch=[message.leader_epoch() for message in messages],
        )
