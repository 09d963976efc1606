"""Every interleaving of a few external actions with all that the full model does of itself.

Scenarios ask where the cluster settles after each step; this asks what it may pass through when the steps do not
wait. Each action given happens at most once, in the order of its group, at any moment; an action that a state
refuses waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafka_chaos.reference_model.lockstep.brokers import checkpoint_high_watermark, end_parked_fetch
from kafka_chaos.reference_model.lockstep.clients import send_astray, send_to_unnamed
from kafka_chaos.reference_model.lockstep.cluster_model import URGENT, Internal, Step
from kafka_chaos.reference_model.lockstep.environment import ACTIONS
from kafka_chaos.reference_model.lockstep.processes import ActionError
from kafka_chaos.reference_model.lockstep.state import LEADER, ClusterConfig, ClusterState, Replica
from kafka_chaos.reference_model.search import Budget, Search, breadth_first

OPTIONAL: tuple[Internal, ...] = (end_parked_fetch, checkpoint_high_watermark, send_astray, send_to_unnamed)
Progress = tuple[ClusterState, tuple[int, ...]]
"""A state, and how many actions of each group have been taken."""
ClusterInvariant = Callable[[ClusterState, ClusterConfig], bool]


@dataclass(frozen=True, slots=True)
class ClusterSearch:
    """What a search found: for each broken invariant the shortest story to a breach."""

    states: int
    complete: bool
    cpu_seconds: float
    breaches: Mapping[str, tuple[str, ...]]


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
    """What the leader of record has committed is on every member of ZooKeeper's ISR."""
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


def search_cluster(
    config: ClusterConfig,
    groups: Sequence[Sequence[Step]],
    *,
    max_states: int = 2_000_000,
    optional: tuple[Internal, ...] = OPTIONAL,
) -> ClusterSearch:
    """Search all interleavings of the groups' actions with the cluster's own; stops at `max_states`."""
    breaches: dict[str, Progress] = {}

    def visit(progress: Progress) -> bool:
        for name, holds in CLUSTER_INVARIANTS.items():
            if name not in breaches and not holds(progress[0], config):
                breaches[name] = progress
        return False

    def successors(progress: Progress) -> list[Progress]:
        return [after for _, after in steps(progress, config, groups, optional)]

    search = breadth_first((config.initial(), (0,) * len(groups)), successors, visit, Budget(max_states))
    stories = {name: _story(search, at, config, groups, optional) for name, at in breaches.items()}
    return ClusterSearch(len(search.parents), search.complete, search.cpu_seconds, stories)


def steps(
    progress: Progress, config: ClusterConfig, groups: Sequence[Sequence[Step]], optional: tuple[Internal, ...]
) -> Iterator[tuple[str, Progress]]:
    """All that may happen next, as (sentence, what it leads to)."""
    state, taken = progress
    for internal in (*URGENT, *optional):
        for sentence, after in internal(state, config):
            yield sentence, (after, taken)
    for number, group in enumerate(groups):
        if taken[number] == len(group):
            continue
        action = group[taken[number]]
        try:
            after = ACTIONS[action.name](state, config, **dict(action.arguments))
        except ActionError:
            continue
        counted = (*taken[:number], taken[number] + 1, *taken[number + 1 :])
        arguments = ", ".join(f"{name} {value}" for name, value in action.arguments)
        yield f"— {action.name.replace('_', ' ')}: {arguments}", (after, counted)


def _story(
    search: Search[Progress],
    at: Progress,
    config: ClusterConfig,
    groups: Sequence[Sequence[Step]],
    optional: tuple[Internal, ...],
) -> tuple[str, ...]:
    path = search.path(at)
    return tuple(
        next(said for said, reached in steps(before, config, groups, optional) if reached == after)
        for before, after in pairwise(path)
    )
