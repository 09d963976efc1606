"""All that can happen next in a lane: the base of every prediction.

With no course, any fault left may strike at any moment and is healed at any later one. With a course, its
next step is all that the environment does.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_chaos.reference_model.courses import Course, next_step, replication_is_cut
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_effects import Step
from kafka_chaos.reference_model.lane_faults import strike
from kafka_chaos.reference_model.lane_protocol import (
    answer,
    fail_attempt,
    give_up,
    request_timeout,
    send,
    serve_socket,
)
from kafka_chaos.reference_model.lane_replication import (
    elect,
    expand_isr,
    expire,
    fetch,
    learn,
    restart,
    shrink_isr,
    thaw,
)
from kafka_chaos.reference_model.lane_state import LaneState


def steps(state: LaneState, lane: Lane, course: Course | None) -> Iterator[Step]:
    """Every (action, next state); the next states are not yet `canonical`."""
    yield from send(state, lane)
    yield from serve_socket(state, lane)
    if lane.acks != "0":
        yield from answer(state, lane)
        yield from request_timeout(state, lane)
        if lane.max_in_flight == 1 or course is not None:
            yield from give_up(state)
    yield from fail_attempt(state, lane)
    yield from expand_isr(state)
    yield from learn(state)
    if course is None:
        yield from _free_environment(state, lane)
    else:
        if not replication_is_cut(course, state.position):
            yield from fetch(state)
        yield from next_step(state, lane, course)


def _free_environment(state: LaneState, lane: Lane) -> Iterator[Step]:
    yield from fetch(state)
    yield from shrink_isr(state)
    yield from elect(state, lane)
    yield from restart(state)
    yield from thaw(state)
    yield from expire(state, lane)
    yield from strike(state, lane)
