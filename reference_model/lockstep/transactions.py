"""Transactions in lock step: the steps of scenarios, and what coordinator and leaders do by themselves after each.

The answers to requests, the markers and the last stable offset come from the model in `reference_model/transactions/`,
whose state is wrapped here. A search takes that model through every order of events; here the scenario decides what
happens next. What producers know is kept beside the wrapped state. A producer sends one request at a time, and repeats
it while the answer is CONCURRENT_TRANSACTIONS.

A group's offsets are one more partition (`TransactionsConfig.offset_partition`): each record in it is an offset that a
consume-transform-produce loop commits in its transaction (KIP-98, KIP-447).

Left out: the replication of partitions and of __transaction_state (an append is replicated at once); several
requests of a producer at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_chaos.reference_model.lockstep import observation as observed
from kafka_chaos.reference_model.lockstep.processes import require
from kafka_chaos.reference_model.lockstep.state import ActionError
from kafka_chaos.reference_model.lockstep.stepping import SteppedModel
from kafka_chaos.reference_model.transactions import environment
from kafka_chaos.reference_model.transactions import partitions as partition_logs
from kafka_chaos.reference_model.transactions import state as machine_state
from kafka_chaos.reference_model.transactions.coordinator import PREPARED, Reply, init_producer_id
from kafka_chaos.reference_model.transactions.effects import abort_by_coordinator, arrive
from kafka_chaos.reference_model.transactions.rules import V1, Kind, Rules
from kafka_chaos.reference_model.transactions.state import (
    DATA,
    NONE,
    ONGOING,
    STATUS_NAMES,
    Coordinated,
    Log,
    Request,
    Setup,
    State,
    initial_state,
)
from kafka_chaos.reference_model.tuples import bits, with_item


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsConfig:
    """The rules that brokers and producers follow, the names of the transactional ids, and the number of partitions.

    `has_group`: one more partition has the offsets of a consumer group.
    """

    rules: Rules = V1
    ids: tuple[str, ...] = ("t",)
    partitions: int = 2
    has_group: bool = False

    @property
    def offset_partition(self) -> int:
        """The number of the partition that has the group's offsets."""
        return self.partitions

    @property
    def setup(self) -> Setup:
        """The setup of the wrapped model, which has one incarnation of a producer for each transactional id.

        A transaction of that model has one record in each partition, and a scenario's transaction may have more. So in
        that model each record has a transaction of its own, in which the record's index is its partition.
        """
        count = self.partitions + self.has_group
        return Setup(self.rules, ids=tuple(range(len(self.ids))), size=count, partitions=count)

    def initial(self) -> TransactionsState:
        """The state in which nothing has begun."""
        return TransactionsState(initial_state(self.setup)._replace(delays_left=0, failovers=0))


class ProducerView(NamedTuple):
    """What a producer knows. `id_number`: the index of its transactional id in `TransactionsConfig.ids`.

    `sent`: by partition, how many records it has sent in its epoch. `added`: the bit set of partitions that it has
    added to its transaction. `reply`: the last answer. `awaits_epoch`: InitProducerId has no final answer yet.
    """

    name: str
    id_number: int
    epoch: int = NONE
    sent: tuple[int, ...] = ()
    added: int = 0
    reply: str = ""
    awaits_epoch: bool = False


class TransactionsState(NamedTuple):
    """The state of the wrapped model (`machine`), and what a scenario adds to it.

    `records`: the names of all records, in the order in which they were written. `held_requests`: requests that a link
    holds on their way. `held_markers`: partitions to which a link holds the markers on their way.
    """

    machine: State
    producers: tuple[ProducerView, ...] = ()
    records: tuple[str, ...] = ()
    held_requests: tuple[Request, ...] = ()
    held_markers: tuple[int, ...] = ()

    def producer(self, name: str) -> ProducerView:
        """A producer by name; raises `ActionError` if there is none."""
        for producer in self.producers:
            if producer.name == name:
                return producer
        raise ActionError(f"no producer {name!r}")

    def with_producer(self, producer: ProducerView) -> TransactionsState:
        """The state with a producer added or replaced."""
        others = [other for other in self.producers if other.name != producer.name]
        return self._replace(producers=tuple(sorted([*others, producer])))


def initialise(state: TransactionsState, config: TransactionsConfig, producer: str, id: str) -> TransactionsState:
    """A new incarnation of a producer asks for an epoch (InitProducerId) until it gets one."""
    require(id in config.ids, f"transactional id {id!r}: expected one of {', '.join(config.ids)}")
    begun = ProducerView(producer, config.ids.index(id), sent=(0,) * config.setup.partitions, awaits_epoch=True)
    return state.with_producer(begun)


def write(
    state: TransactionsState, config: TransactionsConfig, producer: str, record: str, partition: int
) -> TransactionsState:
    """A producer writes a record, or an offset of the group, in its transaction.

    It adds the partition to the transaction first, unless the leader does that (KIP-890). If the coordinator refuses to
    add the partition, the producer writes nothing.
    """
    require(0 <= partition < config.setup.partitions, f"no partition {partition}")
    view = state.producer(producer)
    if not config.rules.epoch_per_transaction and not view.added >> partition & 1:
        state, reply = _ask(state, config, Request(Kind.ADD_PARTITION, view.id_number, view.epoch, detail=partition))
        if reply is not Reply.OK:
            return state.with_producer(view._replace(reply=reply.value))
        view = view._replace(added=view.added | 1 << partition)
    number = len(state.records)
    state = state._replace(records=(*state.records, record))
    request = Request(Kind.PRODUCE, view.id_number, view.epoch, number, partition, view.sent[partition])
    state, reply = _ask(state, config, request)
    sent = with_item(view.sent, partition, view.sent[partition] + (reply is Reply.OK))
    return state.with_producer(view._replace(reply=reply.value, sent=sent))


def end(state: TransactionsState, config: TransactionsConfig, producer: str, commit: bool) -> TransactionsState:
    """A producer asks for a commit, or else an abort (EndTxn). By KIP-890's protocol, the answer has its next epoch."""
    view = state.producer(producer)
    state, reply = _ask(state, config, Request(Kind.END, view.id_number, view.epoch, detail=int(commit)))
    view = view._replace(reply=reply.value)
    if reply is Reply.OK:
        view = view._replace(added=0)
        if config.rules.epoch_per_transaction:
            epoch = state.machine.coordinated[view.id_number].last_entry.epoch
            view = view._replace(epoch=epoch, sent=(0,) * config.setup.partitions)
    return state.with_producer(view)


def hold_end(state: TransactionsState, config: TransactionsConfig, producer: str, commit: bool) -> TransactionsState:
    """A producer's EndTxn is held on its way: the producer gives up waiting for the answer."""
    view = state.producer(producer)
    request = Request(Kind.END, view.id_number, view.epoch, detail=int(commit))
    return state._replace(held_requests=(*state.held_requests, request))


def release(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """The held requests arrive. No client waits for the answers."""
    require(bool(state.held_requests), "no request is held")
    for request in state.held_requests:
        state, _ = _ask(state, config, request)
    return state._replace(held_requests=())


def crash(state: TransactionsState, config: TransactionsConfig, producer: str) -> TransactionsState:
    """A producer is gone. A transaction that it had open stays open."""
    view = state.producer(producer)
    return state._replace(producers=tuple(other for other in state.producers if other != view))


def time_out(state: TransactionsState, config: TransactionsConfig, id: str) -> TransactionsState:
    """`transaction.timeout.ms` has passed: the coordinator aborts the transaction and fences its producer (KIP-588)."""
    number = config.ids.index(id)
    is_open = state.machine.coordinated[number].last_entry.status == ONGOING
    require(is_open and config.rules.aborts_on_time_out, f"{id} has no transaction that could time out")
    return state._replace(machine=abort_by_coordinator(state.machine, config.setup, number))


def fail_over(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """The coordinator is killed: another broker, whose markers no link holds, replays __transaction_state."""
    # A model that may fail over once can do so in exactly one way.
    [(_, replaced)] = environment.fail_over(state.machine._replace(failovers=1), config.setup)
    return state._replace(machine=replaced, held_markers=())


def hold_markers(state: TransactionsState, config: TransactionsConfig, partition: int) -> TransactionsState:
    """The markers that the present coordinator sends to a partition are held on their way."""
    return state._replace(held_markers=(*state.held_markers, partition))


def release_markers(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """Held markers arrive. A leader that has a marker of a newer coordinator refuses an older one's (KIP-98)."""
    machine = state.machine
    while (arrival := next(environment.arrive_late_marker(machine, config.setup), None)) is not None:
        _, machine = arrival
    return state._replace(machine=machine._replace(late_markers=()), held_markers=())


ACTIONS: Mapping[str, Callable[..., TransactionsState]] = {
    action.__name__: action
    for action in (initialise, write, end, hold_end, release, crash, time_out, fail_over, hold_markers, release_markers)
}
"""The external actions by name."""


def _ask(state: TransactionsState, config: TransactionsConfig, request: Request) -> tuple[TransactionsState, Reply]:
    """The state and the reply after a request has arrived in a settled state.

    If it arrives earlier, the reply may be CONCURRENT_TRANSACTIONS, and the producer repeats it.
    """
    state = settled(state, config)
    machine, reply = arrive(state.machine, config.setup, request)
    is_final = reply is not Reply.CONCURRENT_TRANSACTIONS
    require(is_final, "the last transaction can't end until its markers arrive: this request would be repeated forever")
    return state._replace(machine=machine), reply


def settled(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """The state in which nothing urgent is left to happen; the order of urgent steps makes no difference to it."""
    while (after := next(urgent_steps(state, config), None)) is not None:
        state = after
    return state


def urgent_steps(state: TransactionsState, config: TransactionsConfig) -> Iterator[TransactionsState]:
    """The states after one urgent step: a marker is written, a transaction completed, or a producer given its epoch."""
    setup = config.setup
    for action, machine in environment.write_marker(state.machine, setup):
        if action.partition not in state.held_markers:
            yield state._replace(machine=machine)
    for _, machine in environment.complete_transaction(state.machine, setup):
        yield state._replace(machine=machine)
    for view in state.producers:
        if view.awaits_epoch:
            yield from _give_epoch(state, setup, view)


def _give_epoch(state: TransactionsState, setup: Setup, view: ProducerView) -> Iterator[TransactionsState]:
    """The coordinator answers InitProducerId, once it has aborted the transaction that is open."""
    last_entry = state.machine.coordinated[view.id_number].last_entry
    reply, appended = init_producer_id(last_entry, expected_epoch=None, rules=setup.rules)
    if reply is Reply.OK and appended is not None:
        machine = state.machine.with_entry(setup, view.id_number, appended, 0)
        ready = view._replace(epoch=appended.epoch, reply=reply.value, awaits_epoch=False)
        yield state.with_producer(ready)._replace(machine=machine)
    elif appended is not None:  # The entry begins an abort: `abort_by_coordinator` appends the same one.
        yield state._replace(machine=abort_by_coordinator(state.machine, setup, view.id_number))


_MARKERS = {machine_state.COMMIT: observed.COMMIT, machine_state.ABORT: observed.ABORT}


@dataclass(slots=True)
class TransactionsModel(SteppedModel[TransactionsState]):
    """Transactions under a configuration, and the states they may be in now."""

    actions = ACTIONS
    config: TransactionsConfig
    states: frozenset[TransactionsState] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if not self.states:
            self.states = self.settle([self.config.initial()])

    def after(self, act: Callable[..., Any], state: TransactionsState, **arguments: Any) -> Iterator[TransactionsState]:
        """The state right after an action."""
        yield act(state, self.config, **arguments)

    def following(self, state: TransactionsState) -> Iterator[tuple[TransactionsState, bool]]:
        """The next states by internal actions, all of which are urgent."""
        yield from ((after, True) for after in urgent_steps(state, self.config))

    def observe(self, state: TransactionsState) -> observed.Observation:
        """What a complete observation of transactions in this state shows."""
        config, logs = self.config, state.machine.logs
        by_id = dict(zip(config.ids, state.machine.coordinated, strict=True))
        transactions = observed.TransactionsObservation(
            partitions={number: _observe_partition(logs[number], state, config) for number in range(config.partitions)},
            transactions={
                id: _observe_transaction(held) for id, held in by_id.items() if held.last_entry.epoch != NONE
            },
            producers={p.name: observed.ProducerObservation(epoch=p.epoch, reply=p.reply) for p in state.producers},
            offsets=_observe_offsets(logs[config.offset_partition], state, config) if config.has_group else None,
        )
        return observed.Observation(transactions=transactions)


def _observe_partition(log: Log, state: TransactionsState, config: TransactionsConfig) -> observed.PartitionObservation:
    readable = partition_logs.readable_records(log, config.rules.reads_below_last_stable_offset)
    records = [(entry.number, _record_name(entry.number, state, config)) for entry in log if entry.kind == DATA]
    names = [_MARKERS.get(entry.kind) or _record_name(entry.number, state, config) for entry in log]
    return observed.PartitionObservation(
        log=tuple((offset, name, entry.epoch) for offset, (name, entry) in enumerate(zip(names, log, strict=True))),
        high_watermark=len(log),
        last_stable_offset=partition_logs.last_stable_offset(log),
        read_committed=tuple(name for number, name in records if readable >> number & 1),
        read_uncommitted=tuple(name for _, name in records),
    )


def _observe_transaction(coordinated: Coordinated) -> observed.TransactionObservation:
    entry, unmarked, _ = coordinated
    # While a transaction is being ended, Kafka lists only the partitions that still lack its marker.
    listed = entry.partitions if entry.status == ONGOING else unmarked if entry.status in PREPARED else 0
    status, partitions = STATUS_NAMES[entry.status], tuple(bits(listed))
    return observed.TransactionObservation(state=status, epoch=entry.epoch, partitions=partitions)


def _observe_offsets(log: Log, state: TransactionsState, config: TransactionsConfig) -> observed.OffsetsObservation:
    offsets = [int(_record_name(number, state, config)) for number in partition_logs.committed(log)]
    pending = any(partition_logs.contents(log, id).open_records for id in {entry.id for entry in log})
    return observed.OffsetsObservation(committed=offsets[-1] if offsets else None, pending=pending)


def _record_name(number: int, state: TransactionsState, config: TransactionsConfig) -> str:
    # `Setup.record_number` has made the number from the record's transaction number, which is its place in `records`.
    return state.records[number // config.setup.size]
