"""The partitions of a topic: where to begin reading, how clients learn of new ones, how a producer uses all in turn."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.workload.worker import Worker

_ASK_TIMEOUT_S = 1.0
_READ_TIMEOUT = 120.0  # seconds in which more of a topic has to come


def start_positions(consumer: Consumer, topic: str, starts: Mapping[int, int]) -> list[TopicPartition]:
    """Where to begin reading: at these offsets, by partition, or at later ones if retention has removed what was there.

    Offset 0 stands for a log's beginning. For any other, the partition's leader is asked, if it answers.
    """
    places = []
    for number, start in starts.items():
        place = TopicPartition(topic, number, start or OFFSET_BEGINNING)
        if start:
            with suppress(KafkaException):
                place.offset = max(start, consumer.get_watermark_offsets(place, timeout=_ASK_TIMEOUT_S)[0])
        places.append(place)
    return places


def messages_between(
    consumer: Consumer, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[Message]:
    """Consume a topic's records between these offsets, given by partition, in the order in which they arrive.

    The consumer tells of the ends of partitions (`enable.partition.eof`). Raises `ClusterFailure` on an error, or if no
    record comes for two minutes.
    """
    unfinished = {number for number, end in ends.items() if end > starts[number]}
    consumer.assign(start_positions(consumer, topic, {number: starts[number] for number in sorted(unfinished)}))
    deadline = time.monotonic() + _READ_TIMEOUT
    while unfinished:
        if time.monotonic() > deadline:
            raise ClusterFailure(f"the log of topic {topic} was not read to its end: no record for {_READ_TIMEOUT:g} s")
        for message in consumer.consume(10_000, timeout=0.5):
            error = message.error()
            partition, offset = int(message.partition() or 0), int(message.offset() or 0)
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                # A new leader may not know yet that records were replicated: its log seems to end before them.
                if offset >= ends[partition]:
                    unfinished.discard(partition)
            elif error is not None:
                raise ClusterFailure(f"the log of topic {topic} can't be read: {error.name()}")
            elif offset < ends[partition]:
                yield message
                deadline = time.monotonic() + _READ_TIMEOUT


class RoundRobin:
    """Assigns record `seq` to partition `first` + `seq` modulo the number of partitions at that time.

    `count`: the present number of partitions. Only the thread that sends may call `grow`.
    """

    def __init__(self, count: int, *, first: int = 0) -> None:
        self.count = count
        self.first = first
        self._first_seqs = [0]
        self._counts = [count]

    def grow(self, count: int, first_seq: int) -> None:
        """Set the number of partitions from record `first_seq` on."""
        self.count = count
        self._counts.append(count)
        self._first_seqs.append(first_seq)

    def partitions_of(self, seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The partition of each record, by its `seq`."""
        growths = np.searchsorted(np.array(self._first_seqs), seqs, side="right") - 1
        numbers: npt.NDArray[np.int64] = self.first + seqs % np.array(self._counts)[growths]
        return numbers.astype(np.int32)


class PartitionWatch(Worker):
    """Asks the cluster every half second, in a thread, until a topic has grown from `count` to `final_count`.

    `count`: the number of partitions by the last answer. Without the watch, a client of librdkafka asks only every five
    minutes (`topic.metadata.refresh.interval.ms`); with it, the client learns of new partitions as well. The
    watch has to `end` before the client is closed.
    """

    def __init__(self, client: Any, topic: str, *, count: int, final_count: int) -> None:
        super().__init__(lambda: self._ask(client, topic, final_count), name=f"partitions-of-{topic}")
        self.count = count
        if count < final_count:
            self.start()

    def _ask(self, client: Any, topic: str, final_count: int) -> None:
        while self.count < final_count and not self.ending.wait(0.5):
            with suppress(KafkaException):
                metadata = client.list_topics(topic, timeout=_ASK_TIMEOUT_S).topics[topic]
                self.count = max(self.count, len(metadata.partitions))
