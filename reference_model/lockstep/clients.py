"""How producers send records, and how brokers append and acknowledge them: one action, one function.

Sources: Kafka's documentation of the producer and topic configurations, KIP-98 (sequence numbers). All actions but
`send_astray` and `send_while_leaderless` are urgent: they happen at once.

Left out: batches of more than one record, more than one request in flight (which `lane/exchanges.py` allows),
consumers, transactions.
"""

from collections.abc import Iterator

from kafka_chaos.reference_model.lockstep.brokers import append, with_advanced_watermark
from kafka_chaos.reference_model.lockstep.producers import Entry, remembered
from kafka_chaos.reference_model.lockstep.state import (
    ANY_CLIENT,
    CLIENTS,
    LEADER,
    ClusterConfig,
    ClusterState,
    Pending,
    Produce,
    Replica,
)
from kafka_chaos.reference_model.protocol.isr import is_committed, refuses_append
from kafka_chaos.reference_model.protocol.sequences import Refusal, check_batch
from kafka_chaos.reference_model.tuples import without


def send(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A producer sends, or sends again, its first unanswered record to a broker that leads; urgent.

    A producer has one request in flight: a broker takes no second request from a connection before it has answered.
    """
    yield from _send_to_leaders(state, config, names_itself=True)


def send_while_leaderless(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A producer sends its first unanswered record to a broker that still leads, though told that there is no leader.

    Optional: only a client whose own metadata are older does so.
    """
    yield from _send_to_leaders(state, config, names_itself=False)


def _send_to_leaders(state: ClusterState, config: ClusterConfig, *, names_itself: bool) -> Iterator[ClusterState]:
    """Each producer's first record reaches a leader. `names_itself`: the broker's own metadata name it the leader."""
    for produce in _first_of_each_producer(state):
        for replica in state.replicas:
            serves = replica.role == LEADER and replica.runs and not state.is_cut(CLIENTS, ANY_CLIENT, replica.broker)
            if serves and (replica.leader == replica.broker) is names_itself:
                yield from _handle(state, config, replica, produce)


def send_astray(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A producer with acks=0 loses its first unanswered record to a former leader, which closes the connection.

    Optional: a client that knows the leader, or knows that there is none, does not send to a former one.
    """
    for produce in _first_of_each_producer(state):
        if produce.acks == "0" and state.partition.leader_epoch > 0:
            yield _acknowledged(_without_outgoing(state, produce), produce.record, None)


def _first_of_each_producer(state: ClusterState) -> Iterator[Produce]:
    """The unanswered records that may be sent now: a producer has one request in flight."""
    busy = {pending.produce.producer for pending in state.pending}
    for produce in dict.fromkeys(state.outgoing):
        if produce.producer not in busy:
            busy.add(produce.producer)
            yield produce


def _handle(state: ClusterState, config: ClusterConfig, leader: Replica, produce: Produce) -> Iterator[ClusterState]:
    """The leader refuses the record, has it already (then `checked` is its offset), or appends it."""
    if produce.acks == "all" and refuses_append(len(leader.isr), config.effective_min_isr):
        yield from _answered_with(state, produce, "NOT_ENOUGH_REPLICAS")
        return
    checked: Refusal | int | None = None
    if produce.sequence is not None:
        checked = check_batch(remembered(leader.producers, produce.producer), 0, produce.sequence)
    if isinstance(checked, Refusal):
        yield from _answered_with(state, produce, checked.value)
        return
    offset = leader.log_end if checked is None else checked
    if checked is None:
        producer = produce.producer if produce.idempotent else None
        entry = Entry(
            offset, produce.record, leader.leader_epoch, producer, produce.sequence, produce.key, produce.tombstone
        )
        leader = with_advanced_watermark(append(leader, (entry,), offset + 1), config)
    after = _without_outgoing(state.with_replica(leader), produce)
    if produce.acks == "all":
        yield after._replace(pending=(*after.pending, Pending(produce, leader.broker, offset)))
    else:
        yield _acknowledged(after, produce.record, None if produce.acks == "0" else offset)


def _answered_with(state: ClusterState, produce: Produce, error: str) -> Iterator[ClusterState]:
    if produce.error != error:  # The same error changes nothing: the cluster would never settle.
        failed = tuple(produce._replace(error=error) if p == produce else p for p in state.outgoing)
        yield state._replace(outgoing=failed)


def _without_outgoing(state: ClusterState, produce: Produce) -> ClusterState:
    return state._replace(outgoing=without(state.outgoing, state.outgoing.index(produce)))


def _acknowledged(state: ClusterState, record: str, offset: int | None) -> ClusterState:
    return state._replace(acknowledged=(*state.acknowledged, (record, offset)))


def answer(state: ClusterState, config: ClusterConfig) -> Iterator[ClusterState]:
    """A leader answers a request with acks=all once its high watermark has passed the record; urgent.

    If the broker no longer leads, is gone, or leads again without the record, the producer tries again.
    """
    for pending in state.pending:
        replica = state.replica(pending.broker)
        rest = state._replace(pending=tuple(other for other in state.pending if other != pending))
        cannot_answer = replica.role != LEADER or pending.offset >= replica.log_end
        if not replica.up or (replica.runs and cannot_answer):
            error = "NOT_LEADER_OR_FOLLOWER" if replica.up else "NETWORK_EXCEPTION"
            yield _retried(rest, pending, error)
        elif replica.runs and is_committed(pending.offset, replica.high_watermark):
            if refuses_append(len(replica.isr), config.effective_min_isr):
                yield _retried(rest, pending, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
            else:
                yield _acknowledged(rest, pending.produce.record, pending.offset)


def _retried(state: ClusterState, pending: Pending, error: str) -> ClusterState:
    """The state after a producer has learned that it has to send a record again."""
    return state._replace(outgoing=(pending.produce._replace(error=error), *state.outgoing))
