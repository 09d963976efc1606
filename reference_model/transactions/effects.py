"""Building blocks of actions in the model of transactions: their names, and the effects of requests on arrival."""

from typing import NamedTuple

from kafka_chaos.reference_model.transactions import state as states
from kafka_chaos.reference_model.transactions.coordinator import Reply, add_partition, end_transaction, fence, verify
from kafka_chaos.reference_model.transactions.partitions import contents, is_fenced, next_sequence, readable_records
from kafka_chaos.reference_model.transactions.rules import Kind
from kafka_chaos.reference_model.tuples import bits


class Action(NamedTuple):
    """The name of a step, and the incarnation, transaction, record and partition that it concerns, or `NONE`.

    `detail`: what became of a request, a marker's kind, or the status that a coordinator replays after `lose_ends`.
    """

    name: str
    producer: int = states.NONE
    transaction: int = states.NONE
    record: int = states.NONE
    partition: int = states.NONE
    detail: str = ""


Step = tuple[Action, states.State]


def arrive(state: states.State, setup: states.Setup, request: states.Request) -> tuple[states.State, Reply]:
    """The state after a request took effect, and the reply, whether or not the producer still waits for it."""
    if request.kind is Kind.PRODUCE:
        return _produce(state, setup, request)
    id = setup.ids[request.producer]
    last_entry = state.coordinated[id].last_entry
    if request.kind is Kind.ADD_PARTITION:
        answer = add_partition(last_entry, request.epoch, request.detail, setup.rules)
    else:
        answer = end_transaction(last_entry, request.epoch, bool(request.detail), setup.rules)
    if answer.appended is None:
        return state, answer.reply
    if request.kind is Kind.END and request.detail:
        state = noting_zombie(state, setup, request)
    if request.kind is Kind.ADD_PARTITION:
        return state.with_entry(setup, id, answer.appended, 0), answer.reply
    in_order = without_late(state, request.transaction, setup.rules.late_kinds | {Kind.END})
    return in_order.with_entry(setup, id, answer.appended, answer.appended.partitions), answer.reply


def noting_zombie(state: states.State, setup: states.Setup, request: states.Request) -> states.State:
    """The state once a commit was accepted, with its transaction in `zombie_commits` if its incarnation is replaced."""
    ids, later = setup.ids, range(request.producer + 1, len(setup.ids))
    started = (ids[other] for other in later if state.producers[other].phase != states.STARTING)
    is_zombie = ids[request.producer] in started
    return state._replace(zombie_commits=state.zombie_commits | is_zombie << request.transaction)


def without_late(state: states.State, transaction: int, kept: frozenset[Kind]) -> states.State:
    """The state without a transaction's late requests, except requests of the kinds in `kept`."""
    remaining = [request for request in state.late if request.transaction != transaction or request.kind in kept]
    return state._replace(late=tuple(remaining))


def _produce(state: states.State, setup: states.Setup, request: states.Request) -> tuple[states.State, Reply]:
    """The state after a Produce request, and the leader's reply to it.

    The leader checks epoch and sequence number. For the first record of a transaction, it asks the coordinator to
    verify the transaction, or with one epoch per transaction to add the partition (KIP-890). Open records of an earlier
    epoch belong to another transaction, whose marker is still to come (KAFKA-18575).
    """
    id, rules = setup.ids[request.producer], setup.rules
    partition = setup.partition_of(request.detail)
    log = state.logs[partition]
    if is_fenced(log, id, request.epoch, rules):
        return state, Reply.FENCED
    held = contents(log, id)
    if not held.open_records or (rules.compares_open_epochs and held.epoch != request.epoch):
        last_entry = state.coordinated[id].last_entry
        if rules.epoch_per_transaction:
            reply, appended = add_partition(last_entry, request.epoch, partition, rules)
            if appended is not None:
                state = state.with_entry(setup, id, appended, 0)
        else:
            reply = verify(last_entry, request.epoch, partition, rules) if rules.verifies else Reply.OK
        if reply is not Reply.OK:
            return state, reply
    expected = next_sequence(log, id, request.epoch)
    if request.sequence != expected:
        return state, Reply.OK if request.sequence < expected else Reply.OUT_OF_ORDER_SEQUENCE_NUMBER
    entry = states.Entry(states.DATA, id, request.epoch, setup.record_number(request.transaction, request.detail))
    return append_to(state, setup, partition, (*log, entry)), Reply.OK


def append_to(state: states.State, setup: states.Setup, partition: int, log: states.Log) -> states.State:
    """The state with a longer log of a partition, which consumers have read as far as they may.

    Reading changes nothing else, so reading at once shows every anomaly that reading later would.
    """
    readable = readable_records(log, setup.rules.reads_below_last_stable_offset)
    early_reads = state.early_reads
    for number in bits(readable & ~state.read):
        transaction = number // setup.size
        # Models in lock step keep no outcomes, so the slice may be empty.
        if state.outcomes[transaction : transaction + 1] == (states.OPEN,):
            early_reads |= 1 << number
    return state.with_log(partition, log)._replace(read=state.read | readable, early_reads=early_reads)


def abort_by_coordinator(state: states.State, setup: states.Setup, id: int) -> states.State:
    """The state after the coordinator aborted the open transaction of a transactional id, which fences its producer."""
    last_entry = state.coordinated[id].last_entry
    for number, producer in enumerate(state.producers):
        takes_part = (
            setup.ids[number] == id and producer.epoch == last_entry.epoch and producer.transaction != states.NONE
        )
        if takes_part and state.outcomes[producer.transaction] == states.OPEN:
            state = state.with_outcome(producer.transaction, states.ABORTED)
    return state.with_entry(setup, id, fence(last_entry), last_entry.partitions)
