"""Collects the containers' logs, and the events that the brokers' logs record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kafka_chaos.contract.events import LeaderElected, LogTruncated, PartitionOffline
from kafka_chaos.harness.cluster.cluster import Cluster
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


def emit_broker_events(
    folder: Path, *, topics: Mapping[str, str], monotonic_at_epoch_ns: int, events: EventBus
) -> None:
    """Emit the events that the brokers' logs in `folder` record for the lanes, each with the time of its line.

    `topics` maps topic names, which the logs use, to lane names.
    """
    for path in sorted(folder.glob("broker-*.log")):
        broker = int(path.stem.removeprefix("broker-"))
        with path.open(encoding="utf-8", errors="replace") as lines:
            for event in read_broker_log(
                lines, broker=broker, lanes=topics, monotonic_at_epoch_ns=monotonic_at_epoch_ns
            ):
                assert isinstance(event, LeaderElected | LogTruncated | PartitionOffline)
                events.emit(replace(event, lane=topics[event.lane]))
