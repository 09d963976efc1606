"""What librdkafka's consumers need to be members of a group as a lane describes it, and what a group has committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_chaos.contract.groups import AUTO, CLASSIC, Group
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.signals import new_client

_COMMITTED_TIMEOUT = 20.0
_HEARTBEAT_MS = 3_000


def group_configs(group: Group) -> dict[str, Any]:
    """The configs that a lane's group decides; brokers decide the rest where they assign (KIP-848)."""
    classic = {"session.timeout.ms": group.session_timeout_ms, "partition.assignment.strategy": group.assignor}
    return {
        # Librdkafka before 2.4 has no other one, and no such key.
        **(classic if group.protocol == CLASSIC else {"group.protocol": group.protocol}),
        "max.poll.interval.ms": group.max_poll_interval_ms,
        "enable.auto.commit": group.commits == AUTO,
    }


def member_configs(group: Group) -> dict[str, Any]:
    """The same, with what suits the harness's own members."""
    beats = {"heartbeat.interval.ms": max(1, min(_HEARTBEAT_MS, group.session_timeout_ms // 3))}
    return {
        **group_configs(group),
        **(beats if group.protocol == CLASSIC else {}),
        "auto.commit.interval.ms": 1_000,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def committed_by(
    group_id: str, topic: str, partitions: int, *, bootstrap_servers: str, configs: Mapping[str, str]
) -> dict[int, int]:
    """The offsets that a group has committed, by partition; a partition without is left out.

    Raises `ClusterFailure` if nobody tells.
    """
    connected = {**configs, "bootstrap.servers": bootstrap_servers, "group.id": group_id, "log_level": 0}
    client = new_client(Consumer, connected)
    try:
        found = client.committed([TopicPartition(topic, one) for one in range(partitions)], timeout=_COMMITTED_TIMEOUT)
    except KafkaException as failure:
        reason = failure.args[0].str()
        raise ClusterFailure(f"nobody tells what the group {group_id} has committed: {reason}") from failure
    finally:
        client.close()
    return {one.partition: one.offset for one in found if one.error is None and one.offset >= 0}
