"""Collects the containers' logs, emits the events that they record, and finds the end of each partition's log."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kafka_chaos.contract.command.errors import counted, first_of
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import PartitionChanged, PartitionOffline
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, BrokerUnreachable, UnsupportedMechanism
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_ID_BASE
from kafka_chaos.harness.cluster.storage.collect import LeaderEnd, StoredLane
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.run.broker_logs import read_broker_log

_ANSWER_TIMEOUT = 5.0  # seconds


def collect_logs(cluster: Cluster, folder: Path, *, since: float | None = None) -> None:
    """Write every container's log to `<name>.log`; containers that were never created have none.

    `since`: the time, in seconds since the epoch, from which on lines are copied; None copies all lines.
    """
    for node in cluster.nodes:
        if node.exists():
            with (folder / f"{node.name}.log").open("wb") as file:
                for piece in node.log_stream(since=since):
                    file.write(piece)


def leader_ends(admin: ClusterAdmin, lanes: Iterable[StoredLane]) -> dict[tuple[str, int], LeaderEnd]:
    """Each partition's leader, high watermark and replicas, by topic and partition. No fault may be in effect.

    Raises `WaitTimeout` if a partition has no leader, or its high watermark does not reach the end of its log.
    """
    ends = {}
    lanes = list(lanes)
    # The final log ends at the high watermark: records beyond it would look lost.
    await_replicated(admin, [lane.lane for lane in lanes])
    for lane in lanes:
        partitions = admin.await_partitions(lane.lane)
        leaders = {number: admin.await_leader(lane.lane, number) for number in partitions}
        for number, end in admin.end_offsets(lane.lane, [*partitions]).items():
            ends[lane.topic, number] = LeaderEnd(leaders[number], end, partitions[number].replicas)
    return ends


def emit_broker_events(
    folder: Path,
    *,
    topics: Mapping[str, str],
    transactional_ids: Mapping[str, str],
    monotonic_at_epoch_ns: int,
    events: EventBus,
) -> None:
    """Emit the events that the logs of brokers and controllers in `folder` record for the lanes, with their times.

    `topics` and `transactional_ids` map the names in the logs to lanes' names. The loss of a partition's leader is
    logged by each controller that replays it, and a partition's state by many nodes: the earliest report counts.
    """
    earliest: dict[tuple[object, ...], PartitionOffline | PartitionChanged] = {}
    for path in sorted([*folder.glob("broker-*.log"), *folder.glob("controller-*.log")]):
        role, _, number = path.stem.rpartition("-")
        with path.open(encoding="utf-8", errors="replace") as lines:
            for event in read_broker_log(
                lines,
                node_id=int(number) + (CONTROLLER_ID_BASE if role == "controller" else 0),
                topics=topics,
                monotonic_at_epoch_ns=monotonic_at_epoch_ns,
                transactional_ids=transactional_ids,
            ):
                if not isinstance(event, PartitionOffline | PartitionChanged):
                    events.emit(event)
                else:
                    content = _content(event)
                    earliest[content] = min(event, earliest.get(content, event), key=lambda other: other.ts_ns)
    # The highest partition epoch, which shows whether a partition's last changes are missing.
    newest: dict[tuple[str, int], int] = {}
    for event in earliest.values():
        if isinstance(event, PartitionChanged):
            partition = event.lane, event.partition
            newest[partition] = max(event.partition_epoch, newest.get(partition, 0))
    for event in earliest.values():
        if isinstance(event, PartitionChanged):
            event = replace(event, newest=newest[event.lane, event.partition])
        events.emit(event)


def _content(event: PartitionOffline | PartitionChanged) -> tuple[object, ...]:
    """What a node reports of a partition, without the node and its time: equal for all reports of one change."""
    if isinstance(event, PartitionOffline):
        return event.lane, event.partition, event.leader_epoch
    return event.lane, event.partition, event.partition_epoch, None if event.isr is None else frozenset(event.isr)


def await_replicated(admin: ClusterAdmin, lanes: Sequence[str], *, timeout: float = 60.0) -> None:
    """Wait until the high watermark of every partition of these lanes is the end of its leader's log.

    A full ISR does not prove that: with acks=1, a leader acknowledges a record before its followers have it, and a
    follower may lack it for `replica.lag.time.max.ms` and stay in the ISR. Until then, consumers don't get the record.
    Every broker that claims to lead a partition is asked, which the client library can't do: it chooses the broker.
    Raises `WaitTimeout`, and `UnsupportedMechanism` if `BrokerClient` lacks the clients' SASL mechanism.
    """
    partitions = {admin.topic(lane): admin.partition_numbers(lane) for lane in lanes}
    behind: list[str] = []

    def replicated() -> bool:
        behind[:] = partitions_behind(admin, partitions)
        return not behind

    awaited = f"the records of {counted(len(lanes), 'lane')} to be replicated"
    wait_until(replicated, awaited, timeout=timeout, interval=0.1, seen=lambda: first_of(behind))


def partitions_behind(admin: ClusterAdmin, partitions: Mapping[str, Sequence[int]]) -> list[str]:
    """In words, which partitions have no leader, or a leader whose high watermark is not the end of its log.

    `partitions`: the numbers of the partitions to look at, by topic.
    """
    configs = {key: str(value) for key, value in admin.configs.items()}
    leaderless = {
        (topic, number): "no broker answers as its leader" for topic in partitions for number in partitions[topic]
    }
    lagging: dict[tuple[str, int], str] = {}
    for address in admin.addresses().values():
        try:
            with BrokerClient(address, timeout=_ANSWER_TIMEOUT, configs=configs) as client:
                # The log's end is asked for first: the high watermark, which is asked for later, must have reached it.
                ends = client.log_ends(partitions)
                watermarks = client.latest_offsets(partitions)
        except UnsupportedMechanism:
            raise
        except BrokerUnreachable:
            continue
        for partition in [partition for partition, (error, _) in watermarks.items() if error == NONE]:
            leaderless.pop(partition, None)
            (error, end), (_, watermark) = ends[partition], watermarks[partition]
            if error != NONE or watermark < end:
                lagging[partition] = f"high watermark {watermark}, log end {end if error == NONE else 'not reported'}"
    return [f"{topic}-{number}: {why}" for (topic, number), why in {**leaderless, **lagging}.items()]
