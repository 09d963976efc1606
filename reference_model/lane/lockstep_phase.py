"""Lock-step phases: their fixed order of events makes some anomalies required, not only permitted.

The steps of a lock-step phase are all that happens to its lane from outside, so the lane lists no faults of its own.
They happen in order, each waits for the one before, and the load continues in between. The phase starts with a full
ISR, and the ISR shrinks only because the controller removes a failed broker: the phase ends before
`replica.lag.time.max.ms` passes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.effects import Action, Step
from kafka_chaos.reference_model.lane.faults import fail_broker
from kafka_chaos.reference_model.lane.replication import elect, expire, restart, thaw
from kafka_chaos.reference_model.lane.state import DEFAULT_SCOPE, DOWN, FOLLOWER, FROZEN_LEADER, OK, LaneState, Scope


class LockstepStep(StrEnum):
    """One step of the environment in a lock-step phase."""

    CUT_REPLICATION = "cut-replication"
    """The leader's replication port is closed to and from its followers; the control plane stays open."""
    HEAL_REPLICATION = "heal-replication"
    """The cut is lifted."""
    APPEND = "append"
    """The leader holds a record that no follower holds; with acks=0 or 1 it has been acknowledged."""
    KILL_LEADER = "kill-leader"
    """SIGKILL to the leader."""
    PAUSE_LEADER = "pause-leader"
    """The leader's process is frozen."""
    EXPIRE_SESSION = "expire-session"
    """The frozen leader's session, with ZooKeeper or with the controller, expires."""
    THAW = "thaw"
    """The frozen broker continues."""
    ELECT = "elect"
    """The controller elects a new leader."""
    RESTART = "restart"
    """Every broker that is down is started again."""


Lockstep = tuple[LockstepStep, ...]
"""The steps of a lock-step phase, in their order."""
CUT_THEN_KILL: Lockstep = tuple(map(LockstepStep, ("cut-replication", "append", "kill-leader", "elect", "restart")))
"""A phase that loses a record with acks=0 or 1: only the leader has it when the leader is killed."""


def parse_lockstep(steps: Iterable[str]) -> Lockstep:
    """A lock-step phase from its steps' names, as written in JSON; an unknown name raises `LaneError`."""
    lockstep = []
    for step in steps:
        try:
            lockstep.append(LockstepStep(step))
        except ValueError:
            raise LaneError("lockstep", step, f"steps out of {', '.join(LockstepStep)}") from None
    return tuple(lockstep)


def usual_scope(lane: Lane, lockstep: Sequence[LockstepStep] | None) -> Scope:
    """The scope of a search where the caller gives none.

    It has one more record where the step `append` waits for an acknowledged record: that record will be lost, and can
    show no other anomaly.
    """
    waits = lockstep is not None and LockstepStep.APPEND in lockstep and lane.acks != "all"
    return replace(DEFAULT_SCOPE, records=DEFAULT_SCOPE.records + 1) if waits else DEFAULT_SCOPE


def replication_is_cut(lockstep: Lockstep, steps_done: int) -> bool:
    """Whether followers can't fetch after `steps_done` steps: a cut lasts until it is lifted or its leader is gone."""
    cut = False
    for step in lockstep[:steps_done]:
        if step is LockstepStep.CUT_REPLICATION:
            cut = True
        elif step in (LockstepStep.HEAL_REPLICATION, LockstepStep.KILL_LEADER, LockstepStep.EXPIRE_SESSION):
            cut = False
    return cut


def next_step(state: LaneState, lane: Lane, lockstep: Lockstep) -> Iterator[Step]:
    """Every way the lock-step phase's next step can be taken in this state; none while its condition does not hold."""
    if state.lockstep_steps_done == len(lockstep):
        return
    after = state._replace(lockstep_steps_done=state.lockstep_steps_done + 1)
    step = lockstep[state.lockstep_steps_done]
    leader = state.leader
    match step:
        case LockstepStep.CUT_REPLICATION | LockstepStep.HEAL_REPLICATION if leader >= 0:
            yield Action(str(step), leader), after
        case LockstepStep.APPEND if leader >= 0 and _has_unreplicated_record(state, lane, leader):
            yield Action("append_awaited"), after
        case LockstepStep.KILL_LEADER if leader >= 0:
            yield Action("kill", leader), fail_broker(after, lane, leader, clean=False)
        case LockstepStep.PAUSE_LEADER if leader >= 0:
            frozen = state.replicas[leader]._replace(role=FROZEN_LEADER)
            yield Action("pause", leader), after.with_replica(leader, frozen)
        case LockstepStep.EXPIRE_SESSION:
            yield from expire(after, lane)
        case LockstepStep.THAW:
            yield from thaw(after, lane)
            # The frozen broker may have become a zombie when its session expired: then nothing changes.
            if not any(replica.role == FROZEN_LEADER for replica in state.replicas):
                yield Action("thawed"), after
        case LockstepStep.ELECT:
            yield from elect(after, lane)
        case LockstepStep.RESTART:
            while any(replica.role == DOWN for replica in after.replicas):
                _, after = next(restart(after, lane))
            yield Action("restart_all"), after
        case _:
            return


def _has_unreplicated_record(state: LaneState, lane: Lane, leader: int) -> bool:
    """Whether the leader holds a record that no follower holds. With acks=1, the record must be acknowledged, too."""
    replicated = max((len(r.log) for r in state.replicas if r.role == FOLLOWER), default=0)
    if lane.acks == "1":
        return any(record.status == OK and record.offset >= replicated for record in state.records)
    return len(state.replicas[leader].log) > replicated
