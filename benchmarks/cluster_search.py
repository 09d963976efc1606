"""Every interleaving of a few external actions with all that the full model does of itself.

Scenarios ask where the cluster settles after each step; this asks what it may pass through when the steps do not
wait. Each action given happens at most once, in the order of its group, at any moment; an action that a state
refuses waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cluster_invariants import CLUSTER_INVARIANTS

from kafka_chaos.reference_model.lockstep.brokers import end_parked_fetch
from kafka_chaos.reference_model.lockstep.clients import send_astray, send_while_leaderless
from kafka_chaos.reference_model.lockstep.cluster_model import URGENT, InternalAction
from kafka_chaos.reference_model.lockstep.environment import ACTIONS
from kafka_chaos.reference_model.lockstep.state import FOLLOWER, LEADER, ActionError, ClusterConfig, ClusterState
from kafka_chaos.reference_model.lockstep.stepping import Step
from kafka_chaos.reference_model.search import Budget, Search, breadth_first


def checkpoint_high_watermark(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A broker writes its high watermark to replication-offset-checkpoint; optional."""
    for replica in state.replicas:
        if replica.runs and replica.role in (LEADER, FOLLOWER):
            written = replica._replace(checkpointed_high_watermark=replica.high_watermark)
            if written != replica:
                yield state.with_replica(written)


OPTIONAL: tuple[InternalAction, ...] = (end_parked_fetch, checkpoint_high_watermark, send_astray, send_while_leaderless)
Progress = tuple[ClusterState, tuple[int, ...]]
"""A state, and how many actions of each group have been taken."""


@dataclass(frozen=True, slots=True)
class ClusterSearch:
    """The result of a search: for each broken invariant the shortest trace to a breach."""

    states: int
    complete: bool
    cpu_seconds: float
    breaches: Mapping[str, tuple[str, ...]]


def search_cluster(
    config: ClusterConfig,
    groups: Sequence[Sequence[Step]],
    *,
    max_states: int = 2_000_000,
    optional: tuple[InternalAction, ...] = OPTIONAL,
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
    progress: Progress, config: ClusterConfig, groups: Sequence[Sequence[Step]], optional: tuple[InternalAction, ...]
) -> Iterator[tuple[str, Progress]]:
    """All that may happen next, as (name, what it leads to)."""
    state, taken = progress
    for internal in (*URGENT, *optional):
        for after in internal(state, config):
            yield internal.__name__, (after, taken)
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
    optional: tuple[InternalAction, ...],
) -> tuple[str, ...]:
    path = search.path(at)
    return tuple(
        next(said for said, reached in steps(before, config, groups, optional) if reached == after)
        for before, after in pairwise(path)
    )
