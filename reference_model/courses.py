"""Courses: what a lock-stepped schedule enforces, so that an anomaly can be not only permitted but required.

A course is the whole environment of its lane: its steps happen in the order given, each waits for the one
before, the load goes on in between, and no other fault strikes. It starts with a full ISR, and the ISR shrinks
only because the controller removes a failed broker: a lock-stepped schedule ends before
`replica.lag.time.max.ms` passes. A course's lane therefore names no free faults beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from kafka_chaos.reference_model.lane import Lane, LaneError
from kafka_chaos.reference_model.lane_effects import Action, Step
from kafka_chaos.reference_model.lane_faults import fail_broker
from kafka_chaos.reference_model.lane_replication import elect, expire, restart, thaw
from kafka_chaos.reference_model.lane_state import (
    DOWN,
    FOLLOWER,
    FROZEN_LEADER,
    NOWHERE,
    OK,
    LaneState,
    leader_index,
    replace_at,
)


class CourseStep(StrEnum):
    """One step of the environment in a lock-stepped schedule."""

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
    """The frozen leader's ZooKeeper session expires."""
    THAW = "thaw"
    """The frozen broker runs on."""
    ELECT = "elect"
    """The controller elects a new leader."""
    RESTART = "restart"
    """Every broker that is down is started again."""


Course = tuple[CourseStep, ...]


def parse_course(steps: Iterable[str]) -> Course:
    """A course from its steps' names, as they stand in JSON; an unknown one raises `LaneError`."""
    course = []
    for step in steps:
        try:
            course.append(CourseStep(step))
        except ValueError:
            raise LaneError("course", step, f"steps out of {', '.join(CourseStep)}") from None
    return tuple(course)


def replication_is_cut(course: Course, position: int) -> bool:
    """Whether the followers can't fetch after the first `position` steps: a cut lasts until it is lifted or its
    leader is gone."""
    cut = False
    for step in course[:position]:
        if step is CourseStep.CUT_REPLICATION:
            cut = True
        elif step in (CourseStep.HEAL_REPLICATION, CourseStep.KILL_LEADER, CourseStep.EXPIRE_SESSION):
            cut = False
    return cut


def next_step(state: LaneState, lane: Lane, course: Course) -> Iterator[Step]:
    """Every way the course's next step can be taken in this state; none while its condition does not hold."""
    if state.position == len(course):
        return
    after = state._replace(position=state.position + 1)
    step = course[state.position]
    leader = leader_index(state.replicas)
    match step:
        case CourseStep.CUT_REPLICATION | CourseStep.HEAL_REPLICATION if leader >= 0:
            yield Action(str(step), leader), after
        case CourseStep.APPEND if leader >= 0 and _has_lonely_record(state, lane, leader):
            yield Action("condition"), after
        case CourseStep.KILL_LEADER if leader >= 0:
            log = state.replicas[leader].log
            yield Action("kill", leader), fail_broker(after, lane, leader, len(log))
        case CourseStep.PAUSE_LEADER if leader >= 0:
            frozen = state.replicas[leader]._replace(role=FROZEN_LEADER)
            yield Action("pause", leader), after._replace(replicas=replace_at(state.replicas, leader, frozen))
        case CourseStep.EXPIRE_SESSION:
            yield from expire(after, lane)
        case CourseStep.THAW:
            yield from thaw(after)
            if not any(replica.role == FROZEN_LEADER for replica in state.replicas):
                yield Action("thawed"), after
        case CourseStep.ELECT:
            yield from elect(after, lane)
        case CourseStep.RESTART:
            yield from _restart_all(after)
        case _:
            return


def _has_lonely_record(state: LaneState, lane: Lane, leader: int) -> bool:
    replicated = max((len(r.log) for r in state.replicas if r.role == FOLLOWER), default=0)
    lonely = state.replicas[leader].log[replicated:]
    if lane.acks == "1":
        return any(r.status == OK and r.offset >= replicated > NOWHERE for r in state.records)
    return bool(lonely)


def _restart_all(state: LaneState) -> Iterator[Step]:
    while any(replica.role == DOWN for replica in state.replicas):
        _, state = next(restart(state))
    yield Action("restart_all"), state
