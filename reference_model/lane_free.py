"""An outer bound of what a lane can do, much smaller than the lane itself: the producer is let off its leash.

Every state of the lane maps to one of these by forgetting what the producer knows, and every step of the lane to
steps of these: any record may be appended at any moment by whoever takes itself for the leader, as often as the
lane's attempts allow, and counts as acknowledged as soon as any producer could have been told so. What no state
here shows, no state of the lane shows; what some state here shows, the lane itself still has to show.

Consequences for the state: a frozen leader that keeps its leadership is one that does nothing, requests in
sockets and pending answers are appends and acknowledgements of some other moment. `LaneState.reads` holds the
acknowledgements in its upper bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from kafka_chaos.reference_model.anomalies import Anomaly
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.reference_model.lane_anomalies import Ending, diverged, pairs
from kafka_chaos.reference_model.lane_effects import Step, observe, too_few_in_sync
from kafka_chaos.reference_model.lane_faults import strike
from kafka_chaos.reference_model.lane_idempotence import append_outdated, check_sequence
from kafka_chaos.reference_model.lane_replication import (
    depose,
    elect,
    expand_isr,
    fetch,
    learn,
    restart,
    shrink_isr,
)
from kafka_chaos.reference_model.lane_state import (
    FROZEN_LEADER,
    LEADER,
    NEW,
    NOWHERE,
    OK,
    ZOMBIE,
    LaneState,
    Record,
    attempts,
    entry,
    entry_record,
    high_watermark,
    initial_state,
    leader_index,
    read_bit,
    replace_at,
    replace_record,
)

ACKNOWLEDGED = 16
"""The first bit of the acknowledgements in `LaneState.reads`."""
READ = (1 << ACKNOWLEDGED) - 1


def kept_observations(lane: Lane, open_questions: Set[Anomaly]) -> int:
    """The bits of `LaneState.reads` that an answer to one of the questions may depend on."""
    keep = ~READ if lane.idempotence and lane.min_insync_replicas > 1 else 0
    told_apart = lane.acks == "1" or lane.min_insync_replicas > 1
    if open_questions & {Anomaly.LOST_WRITE, Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET}:
        keep |= ~READ if told_apart else READ
    if open_questions & {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}:
        keep |= READ
    return keep


def free_initial_state(lane: Lane) -> LaneState:
    """The lane's own initial state."""
    return initial_state(lane)


def unnamed_initial_state(lane: Lane) -> LaneState:
    """The same with one record that may be appended as often as both together.

    Enough to ask whether replicas diverge: a leader epoch has one leader, which appends at its log end and drops
    nothing while it leads, so leader epoch and offset name one append, and whose record it was adds nothing.
    """
    state = initial_state(lane)
    together = Record(NEW, sum(attempts(lane)), NOWHERE)
    return state._replace(records=(together, *(Record(NEW, 0, NOWHERE) for _ in state.records[1:])))


def free_steps(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """Every next state; not yet `canonical`."""
    for after in _next_states(state, lane):
        yield _acknowledge(after, lane)


def _next_states(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    yield from _append_anything(state, lane)
    for step in _of_the_brokers(state, lane):
        yield step[1]
    for _, struck in strike(state, lane):
        frozen = next((i for i, r in enumerate(struck.replicas) if r.role == FROZEN_LEADER), None)
        yield struck if frozen is None else depose(struck, lane, frozen)


def _acknowledge(state: LaneState, lane: Lane) -> LaneState:
    """Note what a leader with enough replicas in sync may acknowledge by now.

    With a minimum of one that is all that consumers may read, and needs no note of its own.
    """
    if lane.acks != "all" or lane.min_insync_replicas == 1:
        return state
    leader = leader_index(state.replicas)
    if leader < 0 or too_few_in_sync(state, lane, state.replicas[leader]):
        return state
    reads = state.reads
    log = state.replicas[leader].log
    for offset in range(high_watermark(state.replicas)):
        reads |= read_bit(entry_record(log[offset]), offset) << ACKNOWLEDGED
    return state if reads == state.reads else state._replace(reads=reads)


def _of_the_brokers(state: LaneState, lane: Lane) -> Iterator[Step]:
    if leader_index(state.replicas) >= 0:
        yield from fetch(state)
        yield from shrink_isr(state)
        yield from expand_isr(state)
        yield from learn(state)
    else:
        yield from elect(state, lane)
    yield from restart(state)


def _append_anything(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    for broker, replica in enumerate(state.replicas):
        if replica.role not in (LEADER, ZOMBIE) or (lane.acks == "all" and too_few_in_sync(state, lane, replica)):
            continue
        for index, record in enumerate(state.records):
            if record.attempts == 0:
                continue
            spent = Record(record.status, record.attempts - 1, NOWHERE)
            left = state._replace(records=replace_record(state.records, index, spent))
            if lane.idempotence:
                yield from _append_in_sequence(state, left, lane, broker, index)
            else:
                yield _append(left, lane, broker, index)


def _append(state: LaneState, lane: Lane, broker: int, index: int) -> LaneState:
    replica = state.replicas[broker]
    log = (*replica.log, entry(index, replica.leader_epoch, state.producer_epoch if index else 0))
    appended = replica._replace(log=log)
    reads = state.reads
    if lane.acks == "1":
        reads |= read_bit(index, len(log) - 1) << ACKNOWLEDGED
    return observe(state._replace(replicas=replace_at(state.replicas, broker, appended), reads=reads))


def _append_in_sequence(state: LaneState, left: LaneState, lane: Lane, broker: int, index: int) -> Iterator[LaneState]:
    """The idempotent producer's appends, and its renewal of the producer epoch behind what may be gone."""
    told = _first_may_be_acknowledged(state, lane)
    seen = state._replace(records=replace_record(state.records, 0, state.records[0]._replace(status=OK)))
    known, checked = check_sequence(seen if told else state, broker, index)
    if known is None:
        if checked.producer_epoch != state.producer_epoch:
            yield state._replace(producer_epoch=checked.producer_epoch)
    elif known == NOWHERE:
        replica = left.replicas[broker]
        log = (*replica.log, entry(index, replica.leader_epoch, left.producer_epoch if index else 0))
        yield observe(left._replace(replicas=replace_at(left.replicas, broker, replica._replace(log=log))))
    if index == 1 and state.producer_epoch == 1:
        for _, appended in append_outdated(left, broker):
            yield appended


def _first_may_be_acknowledged(state: LaneState, lane: Lane) -> bool:
    if lane.min_insync_replicas == 1:
        return state.records[0].attempts < attempts(lane)[0]
    return any(record == 0 for record, _ in pairs(state.reads >> ACKNOWLEDGED))


def free_ending(state: LaneState, lane: Lane) -> Ending | None:
    """What the most talkative run that ends in this state leaves behind."""
    leader = leader_index(state.replicas)
    if leader < 0:
        return None
    log = state.replicas[leader].log
    read = pairs(state.reads & READ)
    if lane.acks == "0":
        acknowledged = [(index, NOWHERE) for index in range(len(state.records))]
    elif lane.acks == "1" or lane.min_insync_replicas > 1:
        acknowledged = pairs(state.reads >> ACKNOWLEDGED)
    else:
        acknowledged = read
    return Ending([entry_record(value) for value in log], acknowledged, read, diverged(state, log))
