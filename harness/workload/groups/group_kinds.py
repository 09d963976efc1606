"""Consumer groups, the groups of loops, and share groups: what their members are told when they start."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.events import BEGINS
from kafka_chaos.contract.lane.groups import AUTO, CLASSIC, IN_TRANSACTION, Group, group_of, loop_group_of
from kafka_chaos.contract.lane.lanes import has_delivery_limit_per_group
from kafka_chaos.contract.lane.metadata import release
from kafka_chaos.contract.lane.share import COPIES, Share
from kafka_chaos.contract.lane.transactions import READ_COMMITTED, Transactional, transactional_id
from kafka_chaos.harness.clients.kinds import IN_PROCESS, parse_client
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.workload.client_process import EventHandler, SupervisedProcess
from kafka_chaos.harness.workload.clients.consumed import ConsumedRows
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.groups.dead_letters import read_dead_letters
from kafka_chaos.harness.workload.groups.load import GroupLoad
from kafka_chaos.harness.workload.groups.rows import LoopRows, ShareMemberRows
from kafka_chaos.harness.workload.groups.settings import MEMBER, MemberSettings, OutputSettings
from kafka_chaos.harness.workload.settings import LoadSettings

_MEMBER_MODULE = "kafka_chaos.harness.workload.groups.process"
_FREEZE_MARGIN_S = 2.0  # Beyond max.poll.interval.ms, so that the member is excluded.
_HEARTBEAT_MS = 3_000
_FAST_METADATA = {"topic.metadata.refresh.interval.ms": "1000"}
"""Lets a member, and so its group, learn of new partitions within a second instead of five minutes."""


class ConsumerGroup(GroupLoad):
    """The consumer group of a lane, or the group whose members are the lane's loop and read another lane (`read_lane`).

    A loop consumes from one lane, transforms, and produces to another.
    """

    group: Group

    def __init__(self, lane: LaneSpec, read_lane: LaneSpec, load: LoadSettings) -> None:
        self.loop = lane.loop if read_lane.lane != lane.lane else None
        _, group, group_id = reading_group(lane, read_lane)
        assert group is not None
        super().__init__(lane, read_lane, load, group, group_id)

    def member_settings(self, slot: int, number: int) -> MemberSettings:
        """The settings of the member process of this `number`, in this `slot`."""
        group = self.group
        configs = {
            **member_configs(group),
            **(_FAST_METADATA if self.read_lane.grows else {}),
            **self.lane.consumer_configs,
            # What the group decides overrides what the lane gives.
            **configs_decided_by(group),
            "group.id": self.group_id,
            **({"group.instance.id": f"{self.group_id}-{slot}"} if group.static else {}),
            "isolation.level": READ_COMMITTED,
            # A loop commits when its outputs are sent, so never by itself.
            **({} if self.loop is None else {"enable.auto.commit": False}),
            "bootstrap.servers": self.load.bootstrap_servers,
        }
        return MemberSettings(
            group=self.group_id,
            name=f"{self.group_id}-{number}",
            lane=self.read_lane.lane,
            topic=self.read_lane.topic_name,
            configs=configs,
            commits=group.commits,
            freeze_seconds=group.max_poll_interval_ms / 1000 + _FREEZE_MARGIN_S,
            output=None if self.loop is None else self._output_settings(slot, number),
        )

    def _output_settings(self, slot: int, number: int) -> OutputSettings:
        lane, load, transactions = self.lane, self.load, self.lane.transactional or Transactional()
        assert self.loop is not None
        configs = load.producer_configs(lane)
        if self.loop.offsets == IN_TRANSACTION:
            configs["transactional.id"] = transactional_id(lane.lane, slot)
        return OutputSettings(
            lane=lane.lane,
            topic=lane.topic_name,
            partitions=lane.partitions,
            record_size=load.workload.record_size,
            producer_id=number,
            configs=configs,
            offsets=self.loop.offsets,
            size=transactions.size,
            abort=transactions.abort,
            seed=f"{load.seed}/{lane.lane}/{number}",
            run_directory=str(load.tables.run_directory.resolve()),
            names_generation=release(lane.as_lane(()).version) >= (2, 5),
        )

    def start_member(self, slot: int, number: int) -> SupervisedProcess:
        """Start the member process of this number in this slot; if it is a loop's, add the records of its output."""
        settings = self.member_settings(slot, number)
        options: Any = {"isolation": READ_COMMITTED, "on_change": partial(self.note_change, settings["name"])}
        if (output := settings.get("output")) is None:
            return self.start_process(settings, ConsumedRows(self, **options))
        tables, own_id = self.load.tables, output["configs"].get("transactional.id")
        written = ProducedRows(tables, lane=self.lane.lane, producer_id=number, transactional_id=own_id, reserves=False)
        self.output.rows.append(written)
        return self.start_process(settings, LoopRows(self, output=written, **options))

    def start_process(self, settings: MemberSettings, rows: EventHandler) -> SupervisedProcess:
        """Start a member as a process of the lane's client. For librdkafka, the program is `_MEMBER_MODULE`."""
        client, command = parse_client(self.lane.client), list[str]()
        if client is None or client.kind.name == IN_PROCESS:
            # Without a version, it is librdkafka as the harness imports it.
            command = command_of(_MEMBER_MODULE, packages=None if client is None else client.packages)
        name, configs = settings["name"], settings["configs"]
        start = self.load.process_starter(self.lane, MEMBER, name, settings, configs, command=command, may_end=True)
        return start(rows)


def reading_group(lane: LaneSpec, read_lane: LaneSpec) -> tuple[str, Group | None, str]:
    """The group by which `lane` reads `read_lane`: the lane's key for it, the group's settings, and its id.

    The key is `group` if `read_lane` is the lane itself, and `loop` if it is the source of the lane's loop.
    """
    if lane.loop is None or read_lane.lane == lane.lane:
        return "group", lane.group, group_of(lane.lane)
    return "loop", lane.loop.group, loop_group_of(lane.lane)


def configs_decided_by(group: Group) -> dict[str, Any]:
    """The configs of a member that the group's settings decide; in KIP-848's protocol, brokers decide the others."""
    classic = {"session.timeout.ms": group.session_timeout_ms, "partition.assignment.strategy": group.assignor}
    return {
        # The classic protocol is not named, since librdkafka before 2.4 has no key for it.
        **(classic if group.protocol == CLASSIC else {"group.protocol": group.protocol}),
        "max.poll.interval.ms": group.max_poll_interval_ms,
        "enable.auto.commit": group.commits == AUTO,
    }


def member_configs(group: Group) -> dict[str, Any]:
    """The configs of the harness's own members: those that the group's settings decide, and those that suit a load."""
    heartbeat = {"heartbeat.interval.ms": max(1, min(_HEARTBEAT_MS, group.session_timeout_ms // 3))}
    return {
        **configs_decided_by(group),
        **(heartbeat if group.protocol == CLASSIC else {}),
        "auto.commit.interval.ms": 1_000,
        "auto.offset.reset": group.reset,
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def offsets_committed_by(group_id: str, read_lane: LaneSpec, load: LoadSettings) -> dict[int, int]:
    """The offsets that a group has committed, by partition of the lane; partitions without a commit are left out.

    Raises `ClusterFailure` if no broker answers.
    """
    configs: Mapping[str, str] = {**load.client_configs, "bootstrap.servers": load.bootstrap_servers}
    client = new_client(Consumer, {**configs, "group.id": group_id, "log_level": 0})
    partitions = [TopicPartition(read_lane.topic_name, number) for number in range(read_lane.partitions)]
    try:
        committed = client.committed(partitions, timeout=20.0)
    except KafkaException as failure:
        reason = failure.args[0].str()
        raise ClusterFailure(f"no broker reports what the group {group_id} has committed: {reason}") from failure
    finally:
        client.close()
    return {entry.partition: entry.offset for entry in committed if entry.error is None and entry.offset >= 0}


SHARER = "sharer"
"""The role of members of share groups, in the client protocol."""
_FREEZE_FACTOR = 1.5  # Of the lock's duration, so that the member's records are delivered to others.


class ShareGroup(GroupLoad):
    """The share group of a lane, which acknowledges records and commits no offsets. Members are processes."""

    group: Share

    def __init__(self, lane: LaneSpec, load: LoadSettings) -> None:
        assert lane.share is not None
        super().__init__(lane, lane, load, lane.share, lane.group_id)

    def start_member(self, slot: int, number: int) -> SupervisedProcess:
        """Start the member process of this number."""
        lane, share, name = self.lane, self.group, f"{self.group_id}-{number}"
        self.note_change(name, BEGINS)
        configs: dict[str, object] = {
            "share.record.lock.duration.ms": share.lock_ms,
            "share.auto.offset.reset": share.start,
            "share.isolation.level": share.isolation,
        }
        # Before Kafka 4.4, groups have no limit of deliveries: brokers' configs have it.
        if has_delivery_limit_per_group(lane.as_lane(())):
            configs["share.delivery.count.limit"] = share.delivery_limit
        if lane.dead_letter_topic is not None:
            configs["errors.deadletterqueue.topic.name"] = lane.dead_letter_topic
            configs["errors.deadletterqueue.copy.record.enable"] = share.dead_letters == COPIES
        settings = {
            "group": self.group_id,
            "acknowledgement": share.acknowledgement,
            "release": share.release,
            "reject": share.reject,
            "freeze_seconds": share.lock_ms * _FREEZE_FACTOR / 1000,
            "seed": f"{self.load.seed}/{name}",
            "group_configs": configs,
        }
        start = self.load.process_starter(lane, SHARER, name, settings, lane.consumer_configs, may_end=True)
        return start(ShareMemberRows(self, name))

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float) -> None:
        """Wait as every group does, but for positions reported from now on: an older one may be from amid the load."""
        self.forget_positions(self)
        super().drain(end_offsets, timeout=timeout)

    def leave(self) -> None:
        """Let every member leave, and read the dead letters: once the group was drained, brokers have written them."""
        super().leave()
        if self.lane.dead_letter_topic is not None:
            for row in read_dead_letters(self.lane, self.lane.dead_letter_topic, self.load):
                self.load.tables.add("dead_letters", row)
