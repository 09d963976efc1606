"""Reads a share group's dead letters (KIP-1191) from their topic, once the group has processed its lane.

A broker writes a dead letter, with acks=all, before it counts the record as done with. So no letter is under way once
the group has no lag, and up to the high watermark, the topic holds all of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.clients.partitions import messages_between
from kafka_chaos.harness.workload.settings import LoadSettings

_HEADER = "__dlq.errors."
_COUNTS = ("partition", "offset", "delivery.count")  # the headers that hold a number, in decimal digits


def read_dead_letters(lane: LaneSpec, topic: str, load: LoadSettings) -> Iterator[dict[str, Any]]:
    """The rows of `dead_letters/` from a lane's `topic` for them. Raises `ClusterFailure` if it can't be read whole."""
    codec = IdentityCodec(lane.lane)
    configs = {**load.client_configs, "bootstrap.servers": load.bootstrap_servers, "group.id": topic, "log_level": 0}
    required = {"enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True}
    consumer = new_client(Consumer, {**configs, **required})
    try:
        places = [TopicPartition(topic, number) for number in range(lane.initial_partitions)]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=60.0)[1] for place in places}
        for message in messages_between(consumer, topic, dict.fromkeys(ends, 0), ends):
            yield row_of_letter(lane, codec, message)
    except KafkaException as failure:
        raise ClusterFailure(f"the dead letters in {topic} could not be read: {failure.args[0].str()}") from failure
    finally:
        consumer.close()


def row_of_letter(lane: LaneSpec, codec: IdentityCodec, message: Any) -> dict[str, Any]:
    """The row of a letter: what its headers do not say is null, and so is the place of another topic's record."""
    headers: Mapping[str, str] = {
        name.removeprefix(_HEADER): content.decode(errors="replace")
        for name, content in message.headers() or ()
        if isinstance(content, bytes)
    }
    numbers = {name: int(headers[name]) for name in _COUNTS if headers.get(name, "").isdecimal()}
    is_of_lane = headers.get("topic") == lane.topic_name
    key, value = message.key(), message.value()
    producer_id, seq = (None, None) if value is None else codec.decode(value)
    return {
        "lane": lane.lane,
        "partition": message.partition(),
        "offset": message.offset(),
        "source_group": headers.get("group"),
        "source_partition": numbers.get("partition") if is_of_lane else None,
        "source_offset": numbers.get("offset") if is_of_lane else None,
        "producer_id": producer_id,
        "seq": seq,
        "key": None if key is None else key.decode(errors="replace"),
        "delivery_count": numbers.get("delivery.count"),
        "cause": headers.get("message"),
    }
