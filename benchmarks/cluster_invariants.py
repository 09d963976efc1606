"""Invariants of every state of the full model, at whatever moment its steps strike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_chaos.reference_model.lockstep.state import LEADER, ClusterConfig, ClusterState, Replica

ClusterInvariant = Callable[[ClusterState, ClusterConfig], bool]


def one_leader_per_epoch(state: ClusterState, config: ClusterConfig) -> bool:
    """No two brokers lead in one leader epoch."""
    epochs = [replica.leader_epoch for replica in state.replicas if replica.role == LEADER]
    return len(epochs) == len(set(epochs))


def leader_in_isr(state: ClusterState, config: ClusterConfig) -> bool:
    """ZooKeeper's leader is in ZooKeeper's ISR."""
    return not state.partition.leader or state.partition.leader in state.partition.isr


def followers_agree(state: ClusterState, config: ClusterConfig) -> bool:
    """A follower that has truncated holds the beginning of the log of its leader in the same epoch."""
    for follower in state.replicas:
        if not follower.leader or follower.role == LEADER or follower.truncating or not follower.runs:
            continue
        leader = state.replica(follower.leader)
        same = leader.role == LEADER and leader.leader_epoch == follower.leader_epoch
        if same and not _agree(leader, follower):
            return False
    return True


def strong_isr(state: ClusterState, config: ClusterConfig) -> bool:
    """Every member of ZooKeeper's ISR holds all that the leader of record has committed."""
    partition = state.partition
    if not partition.leader:
        return True
    leader = state.replica(partition.leader)
    if leader.role != LEADER or leader.leader_epoch != partition.leader_epoch:
        return True
    return all(
        entry in state.replica(broker).log
        for entry in leader.log
        if entry.offset < leader.high_watermark
        for broker in partition.isr
    )


def acknowledged_by_all_kept(state: ClusterState, config: ClusterConfig) -> bool:
    """Every acknowledged record is in the log of the leader of record, once it leads.

    Holds where every producer uses acks=all, elections are clean and no power is lost.
    """
    leader = next((r for r in state.replicas if r.broker == state.partition.leader), None)
    if leader is None or leader.role != LEADER or leader.leader_epoch != state.partition.leader_epoch:
        return True
    held = {entry.record for entry in leader.log}
    return all(record in held for record, _ in state.acknowledged)


def no_duplicate(state: ClusterState, config: ClusterConfig) -> bool:
    """No log holds a record twice. Holds where every producer is idempotent."""
    return all(len({entry.record for entry in r.log}) == len(r.log) for r in state.replicas)


def in_order(state: ClusterState, config: ClusterConfig) -> bool:
    """In every log, an idempotent producer's records have, by their first occurrences, the order it sent them in."""
    for replica in state.replicas:
        seen: set[str] = set()
        latest: dict[str, int] = {}
        for entry in replica.log:
            if entry.producer is None or entry.sequence is None or entry.record in seen:
                continue
            if entry.sequence < latest.get(entry.producer, 0):
                return False
            seen.add(entry.record)
            latest[entry.producer] = entry.sequence
    return True


def _agree(leader: Replica, follower: Replica) -> bool:
    held = {entry.offset: entry for entry in leader.log}
    return all(held.get(entry.offset) == entry for entry in follower.log if entry.offset >= leader.log_start)


CLUSTER_INVARIANTS: Mapping[str, ClusterInvariant] = {
    invariant.__name__: invariant
    for invariant in (
        one_leader_per_epoch,
        leader_in_isr,
        followers_agree,
        strong_isr,
        acknowledged_by_all_kept,
        no_duplicate,
        in_order,
    )
}
