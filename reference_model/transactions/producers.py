"""The actions of transactional producers: each request that they send, and what its answer changes for them.

A producer sends one request at a time, and one of three things happens. The answer arrives. The answer is lost, and the
producer sends the request again, or gives the record up. The request is late, and arrives at any later moment, or
never. A producer may abort at any time, and commits a transaction only if all its records were acknowledged, except
with the defect `commits_incomplete`. After it has given a record up, or a leader has refused one, it can only abort,
and then renews its epoch (KIP-360; with one epoch per transaction, every end of a transaction renews it). A replaced
incarnation may go on as a zombie, or take no further step, as a killed one does.

Sources: KIP-98, KIP-360, KIP-588, KIP-654, KIP-890; librdkafka's `rdkafka_txnmgr.c`, which sends EndTxn again when its
answer does not come, and takes INVALID_TXN_STATE and PRODUCER_FENCED as fatal.

Left out: InitProducerId requests that are late (they fence their own sender: nothing worse); answers of a coordinator
that was replaced and does not know that yet; refusals that are lost; offsets in a transaction (TxnOffsetCommit).
"""

from collections.abc import Iterator

from kafka_chaos.reference_model.transactions import state as states
from kafka_chaos.reference_model.transactions.coordinator import Reply, init_producer_id
from kafka_chaos.reference_model.transactions.effects import (
    Action,
    Step,
    abort_by_coordinator,
    arrive,
    noting_zombie,
    without_late,
)  # fmt: skip
from kafka_chaos.reference_model.transactions.rules import Kind
from kafka_chaos.reference_model.tuples import with_item


def initialise(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """A new incarnation, or one that renews its epoch after an abort, sends InitProducerId."""
    for number, producer in enumerate(state.producers):
        id = setup.ids[number]
        if producer.phase == states.STARTING:
            # Incarnations of one producer start one after the other.
            if number and setup.ids[number - 1] == id and state.producers[number - 1].phase == states.STARTING:
                continue
            expected_epoch = None
        elif producer.phase == states.RENEWING:
            expected_epoch = producer.epoch
        else:
            continue
        name = "start" if producer.phase == states.STARTING else "renew_epoch"
        reply, appended = init_producer_id(state.coordinated[id].last_entry, expected_epoch, setup.rules)
        if reply is Reply.OK and appended is not None:
            after = state.with_entry(setup, id, appended, unmarked=0)  # No partition awaits a marker.
            begun = states.Producer(states.READY, appended.epoch, sent=(0,) * setup.partitions)
            yield Action(name, number, detail=str(appended.epoch)), after.with_producer(number, begun)
        elif appended is not None:  # The coordinator first aborts what another incarnation has left open.
            yield Action("abort_before_start", number), abort_by_coordinator(state, setup, id)
        elif reply is Reply.FENCED:
            yield Action(name, number, detail=reply.value), state.with_producer(number, in_phase_over(producer))


def write(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """A producer sends its next record, or repeats the one in doubt. First it adds the partition, unless leaders do."""
    for number, producer in enumerate(state.producers):
        may_go_on = producer.phase == states.WRITING and producer.last_record != states.REFUSED
        if producer.phase == states.READY and len(state.outcomes) < setup.transactions:
            writer = producer._replace(phase=states.WRITING, transaction=len(state.outcomes))
            before = state.with_producer(number, writer)._replace(outcomes=(*state.outcomes, states.OPEN))
        elif may_go_on and producer.written < setup.size:
            writer, before = producer, state
        else:
            continue
        index, partition = writer.written, setup.partition_of(writer.written)
        if setup.rules.commits_incomplete:
            # To the producer with this defect, a record that it gave up is as good as acknowledged.
            given_up = writer._replace(written=writer.written + 1, last_record=states.ACKNOWLEDGED)
            action = Action("give_up", number, writer.transaction, index, partition)
            yield action, before.with_producer(number, given_up)
        if setup.rules.epoch_per_transaction or writer.added >> partition & 1:
            request = _request(Kind.PRODUCE, number, writer, index, writer.sent[partition])
        else:
            request = _request(Kind.ADD_PARTITION, number, writer, partition)
        yield from _send(before, setup, request)


def end(state: states.State, setup: states.Setup) -> Iterator[Step]:
    """A producer sends EndTxn: a commit if all records are acknowledged, an abort at any time; again if unanswered."""
    for number, producer in enumerate(state.producers):
        if producer.phase in (states.COMMITTING, states.ABORTING):
            choices = [producer.phase == states.COMMITTING]
        elif producer.phase == states.WRITING:
            is_complete = producer.written == setup.size and producer.last_record == states.ACKNOWLEDGED
            choices = [True, False] if is_complete else [False]
        else:
            continue
        for commit in choices:
            asked = producer._replace(phase=states.COMMITTING if commit else states.ABORTING)
            before = state.with_producer(number, asked)
            if commit and state.outcomes[producer.transaction] == states.OPEN:
                before = before.with_outcome(producer.transaction, states.ASKED)
            request = _request(Kind.END, number, producer, int(commit))
            if commit and setup.rules.commits_incomplete and not producer.added:
                # All was given up before anything was sent: the client takes the transaction for an empty one.
                noted = noting_zombie(before, setup, request)
                yield (
                    action_of(request, setup)._replace(detail="it has nothing to end"),
                    _answered(noted, setup, request, Reply.OK),
                )
                continue
            yield from _send(before, setup, request)


def _request(kind: Kind, number: int, producer: states.Producer, detail: int, sequence: int = 0) -> states.Request:
    """The request that a producer sends now. `detail`: as in `states.Request`."""
    return states.Request(kind, number, producer.epoch, producer.transaction, detail, sequence)


def _send(state: states.State, setup: states.Setup, request: states.Request) -> Iterator[Step]:
    """Every outcome that a request may have, from the state in which its producer sends it."""
    action = action_of(request, setup)
    arrived, reply = arrive(state, setup, request)
    # CONCURRENT_TRANSACTIONS makes the producer ask again later, which is this step at a later state.
    if reply is not Reply.CONCURRENT_TRANSACTIONS:
        yield action._replace(detail=reply.value), _answered(arrived, setup, request, reply)
    if reply is Reply.OK:
        yield action._replace(detail="unanswered"), _unanswered(arrived, request)
    if state.delays_left:
        late = state._replace(late=(*state.late, request), delays_left=state.delays_left - 1)
        yield action._replace(detail="late"), _unanswered(late, request)


def action_of(request: states.Request, setup: states.Setup) -> Action:
    """The action by which a request is sent."""
    if request.kind is Kind.END:
        return Action("commit" if request.detail else "abort", request.producer, request.transaction)
    if request.kind is Kind.ADD_PARTITION:
        return Action("add_partition", request.producer, request.transaction, partition=request.detail)
    partition = setup.partition_of(request.detail)
    return Action("produce", request.producer, request.transaction, request.detail, partition)


def _unanswered(state: states.State, request: states.Request) -> states.State:
    """The state after no answer has come to a request. Whether the log has the record of a Produce is in doubt then."""
    if request.kind is not Kind.PRODUCE:
        return state
    producer = state.producers[request.producer]
    return state.with_producer(request.producer, producer._replace(last_record=states.IN_DOUBT))


def _answered(state: states.State, setup: states.Setup, request: states.Request, reply: Reply) -> states.State:
    """The state after the producer has received an answer."""
    number, producer = request.producer, state.producers[request.producer]
    if reply in (Reply.FENCED, Reply.INVALID_TXN_STATE):
        return state.with_producer(number, in_phase_over(producer))
    if reply is not Reply.OK:
        return state.with_producer(number, producer._replace(last_record=states.REFUSED))
    if request.kind is Kind.ADD_PARTITION:
        return state.with_producer(number, producer._replace(added=producer.added | 1 << request.detail))
    if request.kind is Kind.PRODUCE:
        partition = setup.partition_of(request.detail)
        sent = with_item(producer.sent, partition, producer.sent[partition] + 1)
        written = producer._replace(written=producer.written + 1, last_record=states.ACKNOWLEDGED, sent=sent)
        return state.with_producer(number, written)
    acknowledged = state.with_outcome(request.transaction, states.COMMITTED if request.detail else states.ABORTED)
    return _ended(acknowledged, setup, request)


def _ended(state: states.State, setup: states.Setup, request: states.Request) -> states.State:
    """The state once the producer knows that its transaction has ended, after which it may have to renew its epoch."""
    number, producer, rules = request.producer, state.producers[request.producer], setup.rules
    epoch, sent, phase = producer.epoch, producer.sent, states.READY
    if rules.epoch_per_transaction:
        # The answer to EndTxn has the next epoch.
        epoch, sent = state.coordinated[setup.ids[number]].last_entry.epoch, (0,) * setup.partitions
    elif producer.last_record != states.ACKNOWLEDGED:
        phase = states.RENEWING
    after = state.with_producer(number, states.Producer(phase, epoch, sent=sent))
    return without_late(after, request.transaction, kept=rules.late_kinds)


def in_phase_over(producer: states.Producer) -> states.Producer:
    """The incarnation once it can do nothing more."""
    return states.Producer(states.OVER, sent=(0,) * len(producer.sent))
