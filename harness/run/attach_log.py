"""Reads the final log of an attached cluster's topic with a plain consumer, from this run's first record on.

Guarantee: exactly one row per record between the given offsets; a file appears whole or not at all.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kafka_chaos.contract.columns import LOG, arrow_schema
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.history.writer import HistoryWriter

LOG_SCHEMA = arrow_schema(LOG)
_MOST_ROWS = 100_000
_TIMEOUT = 120.0


def read_log(
    lane: LaneSpec, configs: Mapping[str, object], starts: Mapping[int, int], ends: Mapping[int, int], folder: Path
) -> None:
    """Read a lane's records from offsets `starts` up to (excluding) `ends` into `folder`. `configs`: the client's."""
    usual = {"group.id": "kafka-chaos-log", "log_level": 0}
    reads = {"auto.offset.reset": "error", "enable.partition.eof": True, "isolation.level": "read_uncommitted"}
    consumer = new_client(Consumer, {**usual, **configs, **reads, "enable.auto.commit": False})
    writer, codec = HistoryWriter(folder), IdentityCodec(lane.lane)
    try:
        messages = _messages(consumer, lane.topic_name, starts, ends)
        while rows := [_row(lane.lane, codec, message) for message in islice(messages, _MOST_ROWS)]:
            writer.write(pa.Table.from_pylist(rows, schema=LOG_SCHEMA))
    finally:
        consumer.close()
        writer.close()


def _messages(consumer: Consumer, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Message]:
    left = {number for number, end in ends.items() if end > starts[number]}
    consumer.assign([TopicPartition(topic, number, starts[number]) for number in sorted(left)])
    deadline = time.monotonic() + _TIMEOUT
    while left:
        if time.monotonic() > deadline:
            raise ClusterFailure(f"the log of topic {topic} was not read to its end within {_TIMEOUT:g} s")
        for message in consumer.consume(10_000, timeout=0.5):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            elif error is not None:
                raise ClusterFailure(f"the log of topic {topic} can't be read: {error.name()}")
            elif int(message.offset() or 0) < ends[int(message.partition() or 0)]:
                yield message


def _row(lane: str, codec: IdentityCodec, message: Any) -> dict[str, Any]:
    place = {"lane": lane, "partition": message.partition(), "offset": message.offset()}
    producer_id, seq = codec.carried(message.value(), message.headers())
    return {**place, "producer_id": producer_id, "seq": seq, "key": None}
