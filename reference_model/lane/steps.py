"""All that can happen next in a lane: the base of every prediction.

Without a lock-step phase, each fault that is left may strike at any moment, and is healed at any later moment. In a
lock-step phase, the environment only takes the phase's next step.
"""

from collections.abc import Iterator

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import exchanges, replication
from kafka_chaos.reference_model.lane.effects import Step
from kafka_chaos.reference_model.lane.faults import strike
from kafka_chaos.reference_model.lane.lockstep_phase import Lockstep, next_step, replication_is_cut
from kafka_chaos.reference_model.lane.state import LaneState


def steps(state: LaneState, lane: Lane, lockstep: Lockstep | None, *, kept_isr: bool = False) -> Iterator[Step]:
    """Yield every possible (action, next state); the next states are not `canonical`. `kept_isr`: as in `Scope`."""
    yield from exchanges.send(state, lane)
    yield from exchanges.serve_socket(state, lane)
    if lane.acks != "0":
        yield from exchanges.answer(state, lane)
        yield from exchanges.request_timeout(state, lane)
        if lane.max_in_flight == 1 or lockstep is not None:
            yield from exchanges.give_up(state)
    yield from exchanges.fail_attempt(state, lane)
    if lockstep is None:
        yield from steps_of_brokers(state, lane, kept_isr=kept_isr)
    else:
        yield from replication.expand_isr(state, lane)
        yield from replication.learn(state, lane)
        if not replication_is_cut(lockstep, state.lockstep_steps_done):
            yield from replication.fetch(state, lane)
        yield from next_step(state, lane, lockstep)


def steps_of_brokers(state: LaneState, lane: Lane, *, kept_isr: bool = False) -> Iterator[Step]:
    """Yield every step of brokers and controller, and every fault, outside lock-step phases."""
    yield from replication.expand_isr(state, lane)
    yield from replication.learn(state, lane)
    yield from replication.fetch(state, lane)
    if not kept_isr:
        yield from replication.shrink_isr(state, lane)
    yield from replication.elect(state, lane)
    yield from replication.restart(state, lane)
    yield from replication.thaw(state, lane)
    yield from replication.expire(state, lane)
    yield from strike(state, lane)
