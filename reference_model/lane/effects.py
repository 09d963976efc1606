"""Building blocks of the lane's actions: their names, and the effects that several of them share."""

from typing import NamedTuple

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.protocol.isr import refuses_append, watermark_waits
from kafka_chaos.reference_model.protocol.rules import rules_of


class Action(NamedTuple):
    """One step: its name, and the `broker` (an index into the state's replicas) and `record` that take part, or −1.

    `detail`: a further word of the step's sentence. `from_socket`: the request had piled up in the broker's socket.
    """

    name: str
    broker: int = -1
    record: int = -1
    detail: str = ""
    from_socket: bool = False


Step = tuple[Action, states.LaneState]  # An action, and the state after it.


def observe(state: states.LaneState, lane: Lane) -> states.LaneState:
    """The state after consumers have read all that any broker shows them.

    A broker that takes itself for the leader shows what lies below its high watermark. Since 3.7 the high watermark
    waits while the ISR is smaller than min.insync.replicas (KAFKA-15583). Reading changes nothing else, so reading at
    once reaches every anomaly that reading later would.
    """
    reads = state.reads
    minimum = lane.min_insync_replicas if rules_of(lane).watermark_waits else 0
    for replica in state.replicas:
        if replica.role == states.LEADER and not watermark_waits(state.isr_size, minimum):
            visible = state.high_watermark
        elif _believes_it_leads_alone(replica) and not watermark_waits(1, minimum):
            visible = len(replica.log)
        else:
            continue
        reads |= states.reads_of(replica.log[:visible])
    return state if reads == state.reads else state._replace(reads=reads)


def _believes_it_leads_alone(replica: states.LaneReplica) -> bool:
    return replica.role == states.ZOMBIE and replica.believed_isr == states.SOLE


def too_few_in_sync(state: states.LaneState, lane: Lane, replica: states.LaneReplica) -> bool:
    """Whether the replica, by what it knows of its ISR, has to answer NOT_ENOUGH_REPLICAS."""
    if replica.role == states.LEADER:
        return refuses_append(state.isr_size, lane.min_insync_replicas)
    alone_is_too_few = _believes_it_leads_alone(replica) and refuses_append(1, lane.min_insync_replicas)
    return replica.believed_isr == states.SHORT or alone_is_too_few


def in_doubt(record: states.Record) -> states.Record:
    """The record after an attempt that may have reached the log: RETRY while attempts are left, and then INFO."""
    return states.Record(states.RETRY if record.attempts else states.INFO, record.attempts, states.NOWHERE)


def drop_connections(state: states.LaneState, broker: int, *, socket_survives: bool = False) -> states.LaneState:
    """The state after a broker's connections broke, so that the answers that it owed are lost.

    The unread requests in its socket are lost, too, unless `socket_survives`.
    """
    replica = state.replicas[broker]
    if not (replica.pending or replica.awaited or replica.unawaited):
        return state
    for index in (*(record for record, _ in replica.pending), *map(states.record_of, replica.awaited)):
        state = state.with_record(index, in_doubt(state.records[index]))
    unawaited = tuple(sorted(replica.unawaited + replica.awaited)) if socket_survives else ()
    return state.with_replica(broker, replica._replace(pending=(), awaited=(), unawaited=unawaited))
