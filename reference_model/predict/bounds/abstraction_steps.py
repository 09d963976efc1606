"""The steps of the outer bound (`bounds/abstraction.py`): an unconstrained producer beside the lane's own brokers.

A step corresponds to one step of the lane, or it is idle: a zombie that counts as a follower. In the lane that happens
beside other steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.predict.anomalies import Ending, diverged, pairs
from kafka_chaos.reference_model.predict.effects import observe, too_few_in_sync
from kafka_chaos.reference_model.predict.exchanges import answerable
from kafka_chaos.reference_model.predict.faults import strike
from kafka_chaos.reference_model.predict.idempotence import append_outdated, check_sequence
from kafka_chaos.reference_model.predict.replication import (
    elect,
    expand_isr,
    expire,
    fetch,
    learn,
    restart,
    shrink_isr,
    thaw,
)
from kafka_chaos.reference_model.predict.state import (
    FOLLOWER,
    LEADER,
    NO_PENDING,
    NOWHERE,
    OK,
    SHORT,
    ZOMBIE,
    LaneReplica,
    LaneState,
    Record,
    entry,
    entry_record,
    follow_leader,
    leader_index,
    replace_at,
    with_log,
    with_record,
    with_replica,
    with_replicas,
)

UNREAD = 1
"""`LaneReplica.abandoned` in the bound: requests may lie unread in the broker's socket, of whichever record."""
AWAITED = 1 << 1
"""`LaneReplica.socket` in the bound: the producer may await the answer to one of them, of the second record."""


def environment_steps(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """What brokers, the controller and faults do."""
    for actions in (
        fetch(state, lane),
        shrink_isr(state, lane),
        expand_isr(state, lane),
        learn(state, lane),
        elect(state, lane),
        restart(state),
        thaw(state, lane),
        expire(state, lane),
        strike(state, lane),
    ):
        for _, after in actions:
            yield after


def settle(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """With clean elections, a zombie outside the ISR may count as a follower (`state.canonical`); idle."""
    if lane.unclean_leader_election:
        return
    for broker, replica in enumerate(state.replicas):
        if replica.role == ZOMBIE and not replica.in_isr:
            follower = LaneReplica(FOLLOWER, False, replica.log, NO_PENDING, 0, 0, 0, SHORT)
            yield with_replicas(state, follow_leader(replace_at(state.replicas, broker, follower)))


def append_anything(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """Whoever takes itself for the leader appends any record that has an attempt left.

    Where nothing can lie in the broker's socket the request has just been sent: the record is not acknowledged, and the
    broker leads in the known leader epoch or in a later one.
    """
    for broker, replica in enumerate(state.replicas):
        if replica.role not in (LEADER, ZOMBIE) or (lane.acks == "all" and too_few_in_sync(state, lane, replica)):
            continue
        for index, record in enumerate(state.records):
            if record.attempts == 0:
                continue
            asked = state
            if not replica.abandoned:
                if record.status == OK or replica.leader_epoch < state.known_epoch:
                    continue
                asked = _sent(state, replica, index)
            spent = record._replace(attempts=record.attempts - 1)
            left = with_record(asked, index, spent)
            if lane.idempotence:
                yield from _append_in_sequence(asked, left, lane, broker, index)
            else:
                yield _append(left, lane, broker, index)


def _sent(state: LaneState, replica: LaneReplica, index: int) -> LaneState:
    """The producer addresses the replica: it knows of its leader epoch and awaits no other answer for the record."""
    replicas = state.replicas
    if index == 1:
        replicas = tuple([other._replace(socket=0) if other.socket else other for other in replicas])
    return state._replace(replicas=replicas, known_epoch=replica.leader_epoch)


def _append(state: LaneState, lane: Lane, broker: int, index: int) -> LaneState:
    replica = state.replicas[broker]
    log = (*replica.log, entry(index, replica.leader_epoch, state.producer_epoch if index else 0))
    return observe(with_replica(state, broker, with_log(replica, log)), lane)


def _append_in_sequence(state: LaneState, left: LaneState, lane: Lane, broker: int, index: int) -> Iterator[LaneState]:
    """The idempotent producer's appends, and its renewal of the producer epoch behind what may be gone.

    Only an answer that the producer awaits renews anything: to a request that it may send now, or to one in the socket
    that it has not given up. Of a record that was acknowledged elsewhere only such are left that it has.
    """
    known, checked = check_sequence(state, broker, index)
    replica = state.replicas[broker]
    if known is None and checked.producer_epoch != state.producer_epoch:
        is_awaited = replica.leader_epoch >= state.known_epoch or replica.socket & AWAITED
        if is_awaited and state.records[index].status != OK:
            yield checked
    elif known == NOWHERE:
        yield _append(left, lane, broker, index)
    if index == 1 and state.producer_epoch == 1 and replica.abandoned:
        for _, appended in append_outdated(left, lane, broker):
            yield appended


def acknowledge(state: LaneState, lane: Lane) -> Iterator[LaneState]:
    """A broker that holds a record may have answered for it just now."""
    if lane.acks == "0":
        return
    for replica in state.replicas:
        if replica.role not in (LEADER, ZOMBIE) or (lane.acks == "all" and too_few_in_sync(state, lane, replica)):
            continue
        for offset, value in enumerate(replica.log):
            record = state.records[entry_record(value)]
            if record.status != OK and answerable(state, lane, replica, offset):
                yield with_record(state, entry_record(value), Record(OK, record.attempts, offset))


def free_ending(state: LaneState, lane: Lane) -> Ending | None:
    """What a run that ends in this state leaves behind, requests in sockets or not.

    With acks=0 every record may count as acknowledged.
    """
    leader = leader_index(state.replicas)
    if leader < 0:
        return None
    log = state.replicas[leader].log
    if lane.acks == "0":
        acknowledged = [(index, NOWHERE) for index in range(len(state.records))]
    else:
        acknowledged = [(index, record.offset) for index, record in enumerate(state.records) if record.status == OK]
    return Ending([entry_record(value) for value in log], acknowledged, pairs(state.reads), diverged(state, log))
