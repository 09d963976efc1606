"""The actions by which a lane's producer and brokers exchange requests and answers: one action, one function.

Each function yields every way its action can be taken in a state, as (action, next state). Sources: Kafka's
documentation ("Replication", producer and topic configurations), KIP-101, KIP-279, KIP-320 (truncation and
fencing by leader epoch), KIP-98 and KIP-360 (idempotence), KIP-679 (defaults).

Left out here, and covered in full by `explore/`: late LeaderAndIsr requests (a live broker learns of an election at
once; only a zombie does not), and the delay of the high watermark (a leader advances it at once).

Left out altogether: preferred leader election and reassignment (with `auto.leader.rebalance.enable`, the leader may
move cleanly once more per fault; to cover that, give the lane one more `stop` in `faults` for each fault); compaction
and retention. Transactions are in `transactions/`.

Connections end by faults alone, not by `connections.max.idle.ms` and not because a client leaves a broker that is gone
from the metadata (librdkafka does, since 2.10). A leader that runs and is reached receives what is sent to it, and
answers within `request.timeout.ms` as soon as it can.

The model of a lane simplifies three behaviours of Kafka 3.9, which the model beside real brokers (`lockstep/`) has:

- Since 3.7 (KAFKA-15583) the high watermark waits while the ISR is smaller than min.insync.replicas. In a lane it
  advances, but consumers read nothing new meanwhile. This matters only to a follower that is to join the ISR: it
  must first reach the watermark, which is higher in a lane. Followers that are still in the ISR are not affected.
  Tests compare a watermark that waits with one that advances: both show the same anomalies.
- The controller first removes a dead leader (leader −1, in a new leader epoch), and then elects another in the next
  leader epoch. A lane counts one epoch for both: epochs are only compared, so how far they rise changes nothing.
- A broker that learns that its partition has no leader keeps its epoch and role. In a lane no broker learns of that.

Brokers refuse the first batch of a producer unless it has sequence number 0, even if they hold no earlier batch: Kafka
promises that. Before the fix of KAFKA-15591, brokers take any first batch: a known defect (`predict/defects.py`).
"""

from collections.abc import Iterator

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane import state as states
from kafka_chaos.reference_model.lane.effects import Action, Step, drop_connections, in_doubt, observe, too_few_in_sync
from kafka_chaos.reference_model.lane.idempotence import after_refusal, check_sequence
from kafka_chaos.reference_model.protocol.entries import entry_of
from kafka_chaos.reference_model.protocol.isr import is_committed
from kafka_chaos.reference_model.protocol.leaders import may_be_addressed
from kafka_chaos.reference_model.protocol.sequences import Refusal
from kafka_chaos.reference_model.tuples import each_taken

ACCEPTED = states.Record(states.OK, 0, states.NOWHERE)
"""A record that the producer counts as acknowledged once it is sent: acks=0."""


def send(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """The producer sends a record, or sends it again, to a broker that it takes for the leader."""
    for index, record in enumerate(state.records):
        if not may_send(state, lane, index):
            continue
        request = states.produce_request(index, state.producer_epoch)
        for broker, replica in state.representative_replicas():
            if replica.role in (states.DOWN, states.FOLLOWER) or not may_be_addressed(
                replica.leader_epoch, state.addressed_epoch
            ):
                continue
            # By sending, the producer takes this broker for the leader, and its epoch for the current one.
            addressed = state._replace(addressed_epoch=replica.leader_epoch)
            if replica.role != states.FROZEN_LEADER:
                yield from deliver(addressed, lane, broker, request, awaited=True)
                continue
            # The request lies unread in the socket: in `unawaited` if the producer waits for no answer.
            if lane.acks == "0":
                sent_record, queued = ACCEPTED, replica._replace(unawaited=_with_request(replica.unawaited, request))
            else:
                queued = replica._replace(awaited=_with_request(replica.awaited, request))
                sent_record = _attempted(record)
            yield Action("queue", broker, index), addressed.with_replica(broker, queued).with_record(index, sent_record)


def may_send(state: states.LaneState, lane: Lane, index: int) -> bool:
    """Whether the record has attempts left, and the limit of requests in flight allows one now."""
    record = state.records[index]
    if record.status not in (states.NEW, states.RETRY) or record.attempts == 0:
        return False
    if index == 0:
        return True
    previous_status = state.records[index - 1].status
    if lane.max_in_flight == 1:
        return previous_status in (states.OK, states.INFO)
    in_flight = sum([other.status == states.WAITING for other in state.records])
    return previous_status != states.NEW and in_flight < lane.max_in_flight


def serve_socket(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """A thawed broker reads a request that had piled up in its socket."""
    for broker, replica in state.representative_replicas():
        if replica.role not in (states.LEADER, states.ZOMBIE):
            continue
        for request, unread in each_taken(replica.awaited):
            read = state.with_replica(broker, replica._replace(awaited=unread))
            yield from _from_socket(deliver(read, lane, broker, request, awaited=True, was_counted=True))
        for request, unread in each_taken(replica.unawaited):
            read = state.with_replica(broker, replica._replace(unawaited=unread))
            yield from _from_socket(deliver(read, lane, broker, request, awaited=False))


def _from_socket(delivered: Iterator[Step]) -> Iterator[Step]:
    for action, after in delivered:
        yield action._replace(from_socket=True), after


def _with_request(requests: tuple[int, ...], request: int) -> tuple[int, ...]:
    return tuple(sorted((*requests, request)))


def deliver(
    state: states.LaneState, lane: Lane, broker: int, request: int, *, awaited: bool, was_counted: bool = False
) -> Iterator[Step]:
    """A broker that takes itself for the leader handles a produce request.

    `awaited`: the producer still waits for the answer. `was_counted`: the attempt was counted when it was queued.
    """
    replica, index = state.replicas[broker], states.record_of(request)
    record = state.records[index]
    if lane.acks == "all" and too_few_in_sync(state, lane, replica):
        rejected = _rejected(record) if awaited else record
        yield Action("not_enough_replicas", broker, index), state.with_record(index, rejected)
        return
    # The record's offset if the log holds it already, None if it is to be appended, or a refusal.
    checked = check_sequence(state, broker, request) if lane.idempotence else None
    if isinstance(checked, Refusal):
        producer_told = after_refusal(state, request, checked).with_record(index, _rejected(record))
        yield Action("out_of_order_sequence", broker, index, checked.value), producer_told if awaited else state
        return
    yield append_request(state, lane, broker, request, checked, awaited=awaited, was_counted=was_counted)


def append_request(
    state: states.LaneState,
    lane: Lane,
    broker: int,
    request: int,
    held_at: int | None,
    *,
    awaited: bool,
    was_counted: bool = False,
) -> Step:
    """The step in which a broker appends a request's record, unless its log holds the record already, at `held_at`."""
    replica, index = state.replicas[broker], states.record_of(request)
    record = state.records[index]
    offset, log = (len(replica.log), (*replica.log, entry_of(request, replica.leader_epoch)))
    if held_at is not None:
        offset, log = held_at, replica.log
    pending = replica.pending
    if awaited and lane.acks != "0":
        pending = tuple(sorted((*pending, (index, offset))))
    if lane.acks == "0":
        record = ACCEPTED
    elif awaited and not was_counted:
        record = _attempted(record)
    name = "append" if held_at is None else "duplicate_sequence"
    after = state.with_replica(broker, replica._replace(log=log, pending=pending)).with_record(index, record)
    return Action(name, broker, index, str(offset)), observe(after, lane)


def answer(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """A broker answers an append with the acknowledgement or with NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    for broker, replica in state.representative_replicas():
        if replica.role not in (states.LEADER, states.ZOMBIE):
            continue
        for index, offset in replica.pending:
            if not answerable(state, lane, replica, offset):
                continue
            enough = may_acknowledge(state, lane, replica, offset)
            record = states.Record(states.OK, 0, offset) if enough else in_doubt(state.records[index])
            name = "acknowledge" if enough else "not_enough_replicas_after_append"
            yield Action(name, broker, index, str(offset)), _with_answered(state, broker, (index, offset), record)


def may_acknowledge(state: states.LaneState, lane: Lane, replica: states.LaneReplica, offset: int) -> bool:
    """Whether the broker may answer the request whose record is at this offset, and acknowledges the record."""
    return answerable(state, lane, replica, offset) and (
        lane.acks != "all" or not too_few_in_sync(state, lane, replica)
    )


def answerable(state: states.LaneState, lane: Lane, replica: states.LaneReplica, offset: int) -> bool:
    """Whether the broker may answer the request whose record is at this offset. With acks=all its ISR must hold it."""
    if lane.acks == "1":
        return True
    if replica.role == states.LEADER:
        return is_committed(offset, state.high_watermark)
    return replica.believed_isr == states.SOLE


def request_timeout(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """No answer comes in time, so the attempt is in doubt.

    A frozen broker answers nobody: the producer closes the connection, and what lies in the broker's socket stays
    there. With acks=all a broker waits for a slow follower, and a zombie for followers that no longer fetch from it,
    until the time comes to answer REQUEST_TIMED_OUT.
    """
    for broker, replica in state.representative_replicas():
        if replica.role == states.FROZEN_LEADER and (replica.awaited or replica.pending):
            yield Action("close", broker), drop_connections(state, broker, socket_survives=True)
        elif replica.role in (states.LEADER, states.ZOMBIE) and lane.acks == "all":
            for index, offset in replica.pending:
                if not answerable(state, lane, replica, offset):
                    record = in_doubt(state.records[index])
                    yield Action("timeout", broker, index), _with_answered(state, broker, (index, offset), record)


def fail_attempt(state: states.LaneState, lane: Lane) -> Iterator[Step]:
    """An attempt reaches no log: nobody leads, or the addressed broker no longer does (NOT_LEADER_OR_FOLLOWER).

    With acks=0 the producer never learns of it.
    """
    has_leader = any(replica.role in (states.LEADER, states.FROZEN_LEADER) for replica in state.replicas)
    if has_leader and state.leader_epoch == 0:  # The first leader still leads: no former one can be addressed.
        return
    for index, record in enumerate(state.records):
        if record.status == states.NEW and may_send(state, lane, index):
            failed = ACCEPTED if lane.acks == "0" else _rejected(record)
            yield Action("no_leader", record=index), state.with_record(index, failed)


def give_up(state: states.LaneState) -> Iterator[Step]:
    """The producer's delivery time-out passes: outcome `info`, and the next record may be sent.

    This matters only where the next record waits for this one. Elsewhere it is the same as never trying again.
    """
    for index, record in enumerate(state.records):
        if record.status == states.RETRY:
            given_up = states.Record(states.INFO, 0, states.NOWHERE)
            yield Action("give_up", record=index), state.with_record(index, given_up)


def _attempted(record: states.Record) -> states.Record:
    return states.Record(states.WAITING, record.attempts - 1, states.NOWHERE)


def _rejected(record: states.Record) -> states.Record:
    """The record after an attempt that certainly appended nothing. Such an attempt is free: if it was counted when the
    request was queued (WAITING), the record has one more attempt left again."""
    return states.Record(states.RETRY, record.attempts + (record.status == states.WAITING), states.NOWHERE)


def _with_answered(
    state: states.LaneState, broker: int, answered: tuple[int, int], record: states.Record
) -> states.LaneState:
    """The state after a broker has answered a request of `pending`. `record`: what the producer then knows of it."""
    replica = state.replicas[broker]
    pending = tuple([other for other in replica.pending if other != answered])
    return state.with_replica(broker, replica._replace(pending=pending)).with_record(answered[0], record)
