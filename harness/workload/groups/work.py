"""The work of a group: what its members read, write and are told when they begin, and what it has committed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.groups import AUTO, CLASSIC, Group
from kafka_chaos.contract.lane.transactions import transactional_id
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.groups.settings import MemberSettings, OutputSettings
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess, Taker

_FROZEN_LONGER = 2.0

StartMember = Callable[[MemberSettings, Taker], SupervisedProcess]
"""Starts a member of another client, which reports its problems itself."""

OnChange = Callable[[str, str, str], None]
"""Learns what became of a member: its group, its name, and a change of `MemberChanged`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """A group and what it reads: `group_id` of the members in `settings`, partitions 0 to `partitions` of `lane`.

    `configs`: of its consumers, over the usual ones; `client_configs`: those for a secured listener.
    `output`: what a loop writes; its `configs` get a `transactional.id` of each member's own if it uses transactions.
    """

    group_id: str
    settings: Group
    lane: str
    topic: str
    partitions: int
    isolation: str
    bootstrap_servers: str
    client_configs: Mapping[str, str]
    duration: float
    configs: Mapping[str, Any] = field(default_factory=dict)
    output: OutputSettings | None = None


def _consumer_configs(work: GroupWork, place: int) -> dict[str, Any]:
    """librdkafka's configs of the member in this place."""
    group = work.settings
    return {
        **member_configs(group),
        **work.configs,
        # What the group decides goes before what the lane gives.
        **group_configs(group),
        "group.id": work.group_id,
        **({"group.instance.id": f"{work.group_id}-{place}"} if group.static else {}),
        "isolation.level": work.isolation,
        # In a loop, the member itself commits.
        **({} if work.output is None else {"enable.auto.commit": False}),
        **work.client_configs,
        "bootstrap.servers": work.bootstrap_servers,
    }


def member_settings(work: GroupWork, place: int, number: int) -> MemberSettings:
    """The settings of the member of this number, in this place of the group."""
    output = work.output
    if output is not None:
        configs = dict(output.configs)
        if "transactional.id" in configs:
            configs["transactional.id"] = transactional_id(output.lane, place)
        output = replace(output, configs=configs, producer_id=number, seed=f"{output.seed}/{number}")
    return MemberSettings(
        group=work.group_id,
        name=f"{work.group_id}-{number}",
        lane=work.lane,
        topic=work.topic,
        configs=_consumer_configs(work, place),
        commits=work.settings.commits,
        freeze_seconds=work.settings.max_poll_interval_ms / 1000 + _FROZEN_LONGER,
        output=output,
    )


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


def committed_by(group_id: str, topic: str, partitions: int, configs: Mapping[str, str]) -> dict[int, int]:
    """The offsets that a group has committed, by partition; a partition without is left out.

    `configs`: how clients connect. Raises `ClusterFailure` if nobody tells.
    """
    client = new_client(Consumer, {**configs, "group.id": group_id, "log_level": 0})
    try:
        found = client.committed([TopicPartition(topic, one) for one in range(partitions)], timeout=_COMMITTED_TIMEOUT)
    except KafkaException as failure:
        reason = failure.args[0].str()
        raise ClusterFailure(f"nobody tells what the group {group_id} has committed: {reason}") from failure
    finally:
        client.close()
    return {one.partition: one.offset for one in found if one.error is None and one.offset >= 0}
