"""An outer bound of a lane that knows nothing but logs, for the question whether replicas diverge.

The ISR is forgotten: any replica that is there may be elected, which includes every election that an ISR, eligible
replicas or the lane's election policy allow. So are the producer and the records' names: whoever takes itself for the
leader appends at any moment. A leader epoch has one leader, which appends at its log end and drops nothing while it
leads, so leader epoch and offset name one append, and whose record it was adds nothing. A broker that shuts down in a
controlled way is one that is killed before the election; whatever makes a zombie of a leader is an expired session.

If no follower diverges here, none diverges in any state of the lane.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.lane.state import (
    DOWN,
    FOLLOWER,
    LEADER,
    ZOMBIE,
    Scope,
    truncated,
    truncation_of,
)
from kafka_chaos.reference_model.protocol.entries import appended, leader_epoch_of
from kafka_chaos.reference_model.protocol.truncation import Truncation
from kafka_chaos.reference_model.search import Budget, breadth_first
from kafka_chaos.reference_model.tuples import each_taken, exchanged

LogReplica = tuple[int, int, tuple[int, ...]]
"""A replica: its role, the leader epoch it leads in (0 where it does not), its log, whose entries hold nothing."""
LogState = tuple[tuple[LogReplica, ...], int, int, tuple[str, ...]]
"""The replicas in ascending order, the leader epoch, the appends left, the faults left."""

SEEN_AS = {"stop": "kill", "pause": "session-expiry", "partition": "session-expiry"}
"""What a fault kind does to logs, by the name of the kind that does no more than that."""


def initial_logs(lane: Lane, scope: Scope) -> LogState:
    """One leader, empty logs, and as many appends as all records together have attempts."""
    followers = ((FOLLOWER, 0, ()),) * (lane.replication_factor - 1)
    faults = tuple(sorted(SEEN_AS.get(kind, kind) for kind in lane.faults))
    return (*followers, (LEADER, 0, ())), 0, sum(scope.attempts_of(lane)), faults


def log_steps(state: LogState, rule: Truncation) -> Iterator[LogState]:
    """Every next state, its leader epochs counted anew (as `state.canonical` does: that changes nothing).

    `rule`: how a new follower truncates its log.
    """
    replicas, epoch, appends, faults = state
    leader_log = next((log for role, _, log in replicas if role == LEADER), None)
    for index, (role, leads_in, log) in enumerate(replicas):
        if role in (LEADER, ZOMBIE) and appends:
            grown = (role, leads_in, (*log, appended(0, leads_in)))
            yield _packed(exchanged(replicas, index, grown), epoch, appends - 1, faults)
        for after in _heard(role, log, leader_log, rule):
            yield _packed(exchanged(replicas, index, after), epoch, appends, faults)
        if leader_log is None and role != DOWN:
            yield _packed(_elected(replicas, index, epoch + 1, rule), epoch + 1, appends, faults)
        if role != DOWN:
            for kind, rest in each_taken(faults):
                for struck in _struck(kind, role, leads_in, log):
                    yield _packed(exchanged(replicas, index, struck), epoch, appends, rest)


def _heard(
    role: int, log: tuple[int, ...], leader_log: tuple[int, ...] | None, rule: Truncation
) -> Iterator[LogReplica]:
    """A restart, a zombie that learns of its successor, a fetch."""
    if leader_log is None:
        if role == DOWN:
            yield FOLLOWER, 0, log
    elif role in (ZOMBIE, DOWN):
        yield FOLLOWER, 0, truncated(log, leader_log, rule)
    elif role == FOLLOWER and len(log) < len(leader_log):
        yield FOLLOWER, 0, leader_log[: len(log) + 1]


def _packed(replicas: tuple[LogReplica, ...], epoch: int, appends: int, faults: tuple[str, ...]) -> LogState:
    used = {leader_epoch_of(value) for _, _, log in replicas for value in log}
    used.update(leads_in for role, leads_in, _ in replicas if role in (LEADER, ZOMBIE))
    if epoch >= len(used) > 0:
        numbers = {number: place for place, number in enumerate(sorted(used))}
        replicas = tuple(
            (role, numbers.get(leads_in, 0), tuple([appended(0, numbers[leader_epoch_of(value)]) for value in log]))
            for role, leads_in, log in replicas
        )
        epoch = len(used) - 1
    return tuple(sorted(replicas)), epoch, appends, faults


def _elected(replicas: tuple[LogReplica, ...], index: int, epoch: int, rule: Truncation) -> tuple[LogReplica, ...]:
    log = replicas[index][2]
    followers = (
        (role, leads_in, truncated(other, log, rule) if role == FOLLOWER else other)
        for at, (role, leads_in, other) in enumerate(replicas)
        if at != index
    )
    return ((LEADER, epoch, log), *followers)


def _struck(kind: str, role: int, leads_in: int, log: tuple[int, ...]) -> Iterator[LogReplica]:
    if kind == "power-loss":
        yield from ((DOWN, 0, log[:kept]) for kept in range(len(log) + 1))
    elif kind == "session-expiry" and role == LEADER:
        yield ZOMBIE, leads_in, log
    else:
        yield DOWN, 0, log


def logs_diverge(state: LogState) -> bool:
    """Whether some follower's log is not the beginning of the leader's."""
    leader_log = next((log for role, _, log in state[0] if role == LEADER), None)
    if leader_log is None:
        return False
    return any(role == FOLLOWER and log != leader_log[: len(log)] for role, _, log in state[0])


def may_diverge(lane: Lane, scope: Scope, budget: Budget) -> bool | None:
    """Whether replicas may come to differ, as far as logs alone decide it; None: the budget ended the search."""
    diverged = False

    def visit(state: LogState) -> bool:
        nonlocal diverged
        diverged = diverged or logs_diverge(state)
        return diverged

    rule = truncation_of(lane)
    search = breadth_first(initial_logs(lane, scope), lambda state: log_steps(state, rule), visit, budget)
    return diverged if search.complete or diverged else None
