"""The actions of brokers, producer and consumers of a lane without faults: one action, one function.

Each function yields every way its action can be taken in a state, as (action, next state). Sources: Kafka's
documentation ("Replication", producer and topic configurations), KIP-101, KIP-279, KIP-320 (truncation and
fencing by leader epoch), KIP-98 and KIP-360 (idempotence), KIP-679 (defaults).

Left out here, and covered by `explore` in full: late LeaderAndIsr requests (a live broker learns of an election at
once; only a zombie does not), and the delay of the high watermark (a leader knows it as soon as it holds).

Left out altogether: preferred leader election and reassignment (with `auto.leader.rebalance.enable`, a lane may see one
more clean move of its leader per fault: ask with one more `stop`); transactions, compaction and retention.

Three facts of Kafka 3.9 that the full model (`lockstep/`) has and the lane has coarser:

- Since 3.7 (KAFKA-15583) the high watermark waits while the ISR is smaller than min.insync.replicas. Here consumers
  read nothing new meanwhile. The watermark itself advances, which only matters to a follower that wants to join the
  ISR: it needs the records above the old watermark here. One that was slow and never left the ISR does not. Tests
  compare both forms: they show the same anomalies.
- The controller first removes a dead leader (leader -1, one leader epoch) and then elects (another one): one epoch
  here. Leader epochs are only compared, so how far they rise changes nothing.
- A broker that learns of a partition without a leader keeps its epoch and role: here nobody learns of it.

Every replica holds earlier batches of the lane's idempotent producer. So no broker meets an unknown producer, of which
Kafka 3.9 accepts any first sequence number (KAFKA-15591, KAFKA-19880; the full model has that rule).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.predict.effects import (
    Action,
    Step,
    drop_connections,
    in_doubt,
    observe,
    too_few_in_sync,
)
from kafka_chaos.reference_model.predict.idempotence import append_outdated, check_sequence
from kafka_chaos.reference_model.predict.state import (
    DOWN,
    FOLLOWER,
    FROZEN_LEADER,
    INFO,
    LEADER,
    NEW,
    NO_PENDING,
    NOWHERE,
    OK,
    OUTDATED,
    RETRY,
    SOLE,
    WAITING,
    ZOMBIE,
    LaneReplica,
    LaneState,
    Record,
    entry,
    high_watermark,
    with_record,
    with_replica,
)

ACCEPTED = Record(OK, 0, NOWHERE)
"""A record that the producer counts as acknowledged once it is sent: acks=0."""


def send(state: LaneState, lane: Lane) -> Iterator[Step]:
    """The producer sends a record, or sends it again, to a broker that it takes for the leader."""
    for index, record in enumerate(state.records):
        if not may_send(state, lane, index):
            continue
        for broker, replica in enumerate(state.replicas):
            if replica.role in (DOWN, FOLLOWER) or replica.leader_epoch < state.known_epoch:
                continue
            # What the producer learns of this broker it does not know when it takes another one for the leader.
            addressed = state._replace(known_epoch=replica.leader_epoch)
            if replica.role in (LEADER, ZOMBIE):
                yield from _deliver(addressed, lane, broker, index, awaited=True)
            elif replica.role == FROZEN_LEADER and not replica.socket & 1 << index:
                if lane.acks == "0":
                    status, queued = ACCEPTED, replica._replace(abandoned=replica.abandoned | 1 << index)
                else:
                    status, queued = _attempted(record), replica._replace(socket=replica.socket | 1 << index)
                yield (
                    Action("queue", broker, index),
                    with_record(with_replica(addressed, broker, queued), index, status),
                )


def may_send(state: LaneState, lane: Lane, index: int) -> bool:
    """Whether the producer's limits (retries, in-flight requests) allow an attempt for this record now."""
    record = state.records[index]
    if record.status not in (NEW, RETRY) or record.attempts == 0:
        return False
    if index == 0:
        return True
    before = state.records[index - 1].status
    return before in (OK, INFO) if lane.max_in_flight == 1 else before != NEW


def serve_socket(state: LaneState, lane: Lane) -> Iterator[Step]:
    """A thawed broker reads a request that had piled up in its socket."""
    for broker, replica in enumerate(state.replicas):
        if replica.role not in (LEADER, ZOMBIE) or not (replica.socket | replica.abandoned):
            continue
        for index in range(len(state.records)):
            bit = 1 << index
            for awaited, waiting in ((True, replica.socket), (False, replica.abandoned)):
                if not waiting & bit:
                    continue
                emptied = (
                    replica._replace(socket=replica.socket & ~bit)
                    if awaited
                    else replica._replace(abandoned=replica.abandoned & ~bit)
                )
                read = with_replica(state, broker, emptied)
                for action, after in _deliver(read, lane, broker, index, awaited=awaited, again=True):
                    yield action._replace(from_socket=True), after
        if replica.abandoned & OUTDATED:
            emptied = replica._replace(abandoned=replica.abandoned & ~OUTDATED)
            yield from append_outdated(with_replica(state, broker, emptied), lane, broker)


def _deliver(
    state: LaneState, lane: Lane, broker: int, index: int, *, awaited: bool, again: bool = False
) -> Iterator[Step]:
    """A broker that takes itself for the leader handles a produce request.

    `awaited`: the producer still waits for the answer; `again`: the attempt was counted when it was queued.
    """
    replica, record = state.replicas[broker], state.records[index]
    if lane.acks == "all" and too_few_in_sync(state, lane, replica):
        rejected = _rejected(record) if awaited else record
        yield Action("not_enough_replicas", broker, index), with_record(state, index, rejected)
        return
    known, renewed = check_sequence(state, broker, index) if lane.idempotence else (NOWHERE, state)
    if known is None:
        heard = with_record(renewed, index, _rejected(record))
        yield Action("out_of_order_sequence", broker, index), heard if awaited else state
        return
    offset, log = known, replica.log
    if known == NOWHERE:
        offset = len(log)
        log = (*log, entry(index, replica.leader_epoch, state.producer_epoch if index else 0))
    pending = replica.pending
    if awaited and lane.acks != "0":
        pending = (*pending[:index], offset, *pending[index + 1 :])
    if lane.acks == "0":
        record = ACCEPTED
    elif awaited and not again:
        record = _attempted(record)
    name = "append" if known == NOWHERE else "duplicate_sequence"
    after = with_record(with_replica(state, broker, replica._replace(log=log, pending=pending)), index, record)
    yield Action(name, broker, index, str(offset)), observe(after, lane)


def answer(state: LaneState, lane: Lane) -> Iterator[Step]:
    """A broker answers an append: the acknowledgement, or NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    for broker, replica in enumerate(state.replicas):
        if replica.role not in (LEADER, ZOMBIE) or replica.pending == NO_PENDING:
            continue
        for index, offset in enumerate(replica.pending):
            if offset == NOWHERE or not answerable(state, lane, replica, offset):
                continue
            enough = lane.acks != "all" or not too_few_in_sync(state, lane, replica)
            record = Record(OK, 0, offset) if enough else in_doubt(state.records[index])
            name = "acknowledge" if enough else "not_enough_replicas_after_append"
            yield Action(name, broker, index, str(offset)), _without_pending(state, broker, index, record)


def answerable(state: LaneState, lane: Lane, replica: LaneReplica, offset: int) -> bool:
    """Whether the broker may answer for what it holds at an offset: with acks=all, its ISR as it knows it holds it."""
    if lane.acks == "1":
        return True
    if replica.role == LEADER:
        return high_watermark(state.replicas) > offset
    return replica.believed_isr == SOLE


def request_timeout(state: LaneState, lane: Lane) -> Iterator[Step]:
    """No answer comes in time, so the attempt is in doubt.

    From a frozen broker none comes to anybody, and the producer closes the connection; what lies in the
    broker's socket stays there. With acks=all a slow follower, or a zombie's lack of any, holds the answer
    back until the broker answers REQUEST_TIMED_OUT.
    """
    for broker, replica in enumerate(state.replicas):
        if replica.role == FROZEN_LEADER and (replica.socket or replica.pending != NO_PENDING):
            yield Action("close", broker), drop_connections(state, broker, socket_survives=True)
        elif replica.role in (LEADER, ZOMBIE) and lane.acks == "all" and replica.pending != NO_PENDING:
            for index, offset in enumerate(replica.pending):
                if offset != NOWHERE and not answerable(state, lane, replica, offset):
                    record = in_doubt(state.records[index])
                    yield Action("timeout", broker, index), _without_pending(state, broker, index, record)


def fail_attempt(state: LaneState, lane: Lane) -> Iterator[Step]:
    """An attempt reaches no log: nobody leads, or the addressed broker no longer does (NOT_LEADER_OR_FOLLOWER).

    With acks=0 the producer never learns of it.
    """
    led = any(replica.role in (LEADER, FROZEN_LEADER) for replica in state.replicas)
    if led and state.leader_epoch == 0:
        return
    for index, record in enumerate(state.records):
        if record.status == NEW and may_send(state, lane, index):
            status = ACCEPTED if lane.acks == "0" else _rejected(record)
            yield Action("no_leader", -1, index), with_record(state, index, status)


def give_up(state: LaneState) -> Iterator[Step]:
    """The producer's delivery time-out passes: outcome `info`, and the next record may go.

    Where the next record need not wait for this one, giving up differs from never trying again in name only.
    """
    for index, record in enumerate(state.records):
        if record.status == RETRY:
            yield Action("give_up", -1, index), with_record(state, index, Record(INFO, 0, NOWHERE))


def _attempted(record: Record) -> Record:
    return Record(WAITING, record.attempts - 1, NOWHERE)


def _rejected(record: Record) -> Record:
    """Certainly not appended by this attempt: it does not count against the retries."""
    attempts = record.attempts + (record.status == WAITING)
    return Record(RETRY, attempts, NOWHERE)


def _without_pending(state: LaneState, broker: int, index: int, record: Record) -> LaneState:
    replica = state.replicas[broker]
    pending = (*replica.pending[:index], NOWHERE, *replica.pending[index + 1 :])
    return with_record(with_replica(state, broker, replica._replace(pending=pending)), index, record)
