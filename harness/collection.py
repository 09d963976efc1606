"""Collects what the containers leave behind: their logs, and the events that the brokers' logs tell of."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kafka_chaos.harness.broker_logs import read_broker_log
from kafka_chaos.harness.cluster import Cluster
from kafka_chaos.harness.events import EventBus


def collect_logs(cluster: Cluster, folder: Path) -> None:
    """Write every container's log to `<name>.log`; containers that were never created have none."""
    for node in cluster.nodes:
        if node.exists():
            with (folder / f"{node.name}.log").open("wb") as file:
                for piece in node.log_stream():
                    file.write(piece)


def emit_broker_events(folder: Path, *, lanes: Collection[str], monotonic_at_epoch_ns: int, events: EventBus) -> None:
    """Emit what the brokers' logs in `folder` tell of the lanes, each with the time of its line."""
    for path in sorted(folder.glob("broker-*.log")):
        broker = int(path.stem.removeprefix("broker-"))
        with path.open(encoding="utf-8", errors="replace") as lines:
            for event in read_broker_log(
                lines, broker=broker, lanes=lanes, monotonic_at_epoch_ns=monotonic_at_epoch_ns
            ):
                events.emit(event)
