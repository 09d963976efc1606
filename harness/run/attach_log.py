"""Reads the final log of an attached cluster's topic with a plain consumer, from this run's first record on.

Guarantee: exactly one row per record between the given offsets; a file appears whole or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kafka_chaos.contract.columns import LOG, arrow_schema
from kafka_chaos.contract.identity import IDENTITY_HEADER, UNDECODABLE
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.history.writer import HistoryWriter

LOG_SCHEMA = arrow_schema(LOG)
_MOST_ROWS = 100_000
_TIMEOUT = 120.0


def read_log(
    lane: LaneSpec,
    *,
    bootstrap_servers: str,
    configs: Mapping[str, object],
    start_offsets: Mapping[int, int],
    end_offsets: Mapping[int, int],
    folder: Path,
) -> int:
    """Read a lane's records from `start_offsets` up to (excluding) `end_offsets` into `folder`; returns the count."""
    consumer = new_client(
        Consumer,
        {
            "group.id": "kafka-chaos-log",
            "log_level": 0,
            **configs,
            "bootstrap.servers": bootstrap_servers,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
        },
    )
    writer = HistoryWriter(folder)
    try:
        return _Reading(lane, consumer, writer).read(start_offsets, end_offsets)
    finally:
        consumer.close()
        writer.close()


class _Reading:
    def __init__(self, lane: LaneSpec, consumer: Consumer, writer: HistoryWriter) -> None:
        self._lane = lane
        self._consumer = consumer
        self._writer = writer
        self._codec = IdentityCodec(lane.lane)
        self._rows: list[dict[str, Any]] = []
        self._count = 0

    def read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> int:
        topic = self._lane.topic_name
        left = {number for number, end in ends.items() if end > starts[number]}
        self._consumer.assign([TopicPartition(topic, number, starts[number]) for number in sorted(left)])
        deadline = time.monotonic() + _TIMEOUT
        while left:
            if time.monotonic() > deadline:
                raise ClusterFailure(f"the log of topic {topic} was not read to its end within {_TIMEOUT:g} s")
            for message in self._consumer.consume(10_000, timeout=0.5):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                elif error is not None:
                    raise ClusterFailure(f"the log of topic {topic} can't be read: {error.name()}")
                elif int(message.offset() or 0) < ends[int(message.partition() or 0)]:
                    self._take(message)
        self._flush()
        return self._count

    def _take(self, message: Any) -> None:
        own = [value for key, value in message.headers() or () if key == IDENTITY_HEADER]
        carrier = own[-1] if own else message.value()
        producer_id, seq = self._codec.decode(carrier) if isinstance(carrier, bytes) else UNDECODABLE
        self._rows.append(
            {
                "lane": self._lane.lane,
                "partition": message.partition(),
                "offset": message.offset(),
                "producer_id": producer_id,
                "seq": seq,
                "key": None,
            }
        )
        self._count += 1
        if len(self._rows) >= _MOST_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write(pa.Table.from_pylist(self._rows, schema=LOG_SCHEMA))
            self._rows = []
