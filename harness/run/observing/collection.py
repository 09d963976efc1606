"""Collects the containers' logs, the events that they record, and where the partitions' logs end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from kafka_chaos.contract.events import LeaderElected, LogTruncated, PartitionOffline
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.replicated import await_replicated
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_IDS
from kafka_chaos.harness.cluster.storage.collect import LeaderEnd, StoredLane
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.run.broker_logs import read_broker_log


def collect_logs(cluster: Cluster, folder: Path, *, since: float | None = None) -> None:
    """Write every container's log to `<name>.log`; containers that were never created have none.

    `since`: copies only lines logged from then on, in seconds since the epoch.
    """
    for node in cluster.nodes:
        if node.exists():
            with (folder / f"{node.name}.log").open("wb") as file:
                for piece in node.log_stream(since=since):
                    file.write(piece)


def leader_ends(admin: ClusterAdmin, lanes: Iterable[StoredLane]) -> dict[tuple[str, int], LeaderEnd]:
    """Each partition's leader, high watermark and replicas, by topic and partition; no fault may be in progress.

    Raises `WaitTimeout` if a partition has no leader, or its high watermark does not become the end of its log.
    """
    found = {}
    lanes = list(lanes)
    # The final log ends at the high watermark: what is behind it would look lost.
    await_replicated(admin, [lane.lane for lane in lanes])
    for lane in lanes:
        numbers = admin.partition_numbers(lane.lane)
        leaders = {number: admin.await_leader(lane.lane, number) for number in numbers}
        replicas = {number: state.replicas for number, state in admin.partitions(lane.lane).items()}
        for number, end in admin.end_offsets(lane.lane, numbers).items():
            found[lane.topic, number] = LeaderEnd(leaders[number], end, replicas.get(number, ()))
    return found


def emit_broker_events(
    folder: Path, *, topics: Mapping[str, str], monotonic_at_epoch_ns: int, events: EventBus
) -> None:
    """Emit the events that the logs of brokers and controllers in `folder` record for the lanes, with their times.

    `topics` maps topic names, which the logs use, to lane names. Every controller that replays an epoch without a
    leader logs it: the first counts.
    """
    offline: dict[tuple[str, int, int], PartitionOffline] = {}
    for path in sorted([*folder.glob("broker-*.log"), *folder.glob("controller-*.log")]):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for event in read_broker_log(
                lines, broker=_node(path.stem), lanes=topics, monotonic_at_epoch_ns=monotonic_at_epoch_ns
            ):
                assert isinstance(event, LeaderElected | LogTruncated | PartitionOffline)
                found = replace(event, lane=topics[event.lane])
                if isinstance(found, PartitionOffline):
                    place = (found.lane, found.partition, found.leader_epoch)
                    offline[place] = min(found, offline.get(place, found), key=lambda one: one.ts_ns)
                else:
                    events.emit(found)
    for event in offline.values():
        events.emit(event)


def _node(name: str) -> int:
    """The id of a node by its name: `broker-1` is 1, `controller-1` is 101."""
    role, _, number = name.rpartition("-")
    return int(number) + (CONTROLLER_IDS if role == "controller" else 0)
