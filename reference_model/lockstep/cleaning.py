"""Retention and compaction: what leaves a log without being lost to the protocol.

Sources: Kafka's documentation of `cleanup.policy`, `retention.ms`, `retention.bytes` and log compaction. Every
replica cleans its own log. Only closed segments are cleaned: retention rolls an expired active segment first,
compaction leaves the active one alone. Nothing at or above the high watermark is deleted by retention.

Left out: segment sizes and times, the compaction lag options and `delete.retention.ms`: an action says what has
expired, and whether tombstones have.
"""

from __future__ import annotations

from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState, Replica


def roll(state: ClusterState, config: ClusterConfig, broker: int) -> ClusterState:
    """A broker closes its active segment; the new one is named by its base offset, the log end offset."""
    replica = state.replica(broker)
    return state.with_replica(replica._replace(active_segment=replica.log_end))


def apply_retention(state: ClusterState, config: ClusterConfig, expired_below: int | None = None) -> ClusterState:
    """Every running broker deletes its segments of records below an offset that have expired, or of all.

    With no offset all records have expired, and the active segment is rolled first.
    """
    for replica in state.replicas:
        if replica.runs:
            state = state.with_replica(_deleted(replica, expired_below))
    return state


def _deleted(replica: Replica, expired_below: int | None) -> Replica:
    active = replica.log_end if expired_below is None else replica.active_segment
    limit = replica.log_end if expired_below is None else expired_below
    start = max(replica.log_start, min(limit, active, replica.high_watermark))
    kept = tuple(entry for entry in replica.log if entry.offset >= start)
    known = [line for line in replica.epochs if line[1] <= start]
    later = tuple(line for line in replica.epochs if line[1] > start)
    epochs = ((known[-1][0], start), *later) if known else later
    return replica._replace(log=kept, log_start=start, active_segment=active, epochs=epochs)


def compact(state: ClusterState, config: ClusterConfig, *, drop_tombstones: bool = False) -> ClusterState:
    """Every running broker keeps the last record per key in its closed segments; offsets stay as they are.

    `drop_tombstones`: `delete.retention.ms` has passed since they were cleaned, so that they go as well.
    """
    for replica in state.replicas:
        if replica.runs:
            state = state.with_replica(_compacted(replica, drop_tombstones))
    return state


def _compacted(replica: Replica, drop_tombstones: bool) -> Replica:
    cleanable = min(replica.active_segment, replica.high_watermark)
    last = {entry.key: entry.offset for entry in replica.log if entry.key is not None and entry.offset < cleanable}
    kept = tuple(
        entry
        for entry in replica.log
        if entry.offset >= cleanable
        or entry.key is None
        or (last[entry.key] == entry.offset and not (entry.tombstone and drop_tombstones))
    )
    return replica._replace(log=kept)
