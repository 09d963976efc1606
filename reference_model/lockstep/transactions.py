"""Transactions in lock step: the steps of scenarios, and what coordinator and leaders then do by themselves.

The answers to requests, the markers and the last stable offset are those of `reference_model/transactions/`, whose
state is wrapped here. There every order of events is searched; here a scenario decides what happens next. What
producers know is kept beside that state. A producer sends one request at a time, and repeats it until the answer is
final.

A group's offsets are a partition like any other (`TransactionsConfig.offset_partition`): a record of it is the offset
that a loop commits in its transaction (KIP-98, KIP-447).

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
from kafka_chaos.reference_model.transactions import partitions as stored
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
from kafka_chaos.reference_model.tuples import bits, exchanged


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
        """The setup of the model of transactions.

        A producer has the number of its transactional id there, and each record belongs to a transaction of its own.
        """
        count = self.partitions + self.has_group
        return Setup(self.rules, ids=tuple(range(len(self.ids))), size=count, partitions=count)

    def initial(self) -> TransactionsState:
        """The state in which nothing has begun."""
        return TransactionsState(initial_state(self.setup)._replace(delayed=0, failovers=0))


class ProducerView(NamedTuple):
    """What a producer knows.

    `sent`: by partition, how many records it has sent in its epoch. `added`: the bit set of partitions that it has
    added to its transaction. `reply`: the last answer. `asks`: whether it waits for an epoch.
    """

    name: str
    id: int
    epoch: int = NONE
    sent: tuple[int, ...] = ()
    added: int = 0
    reply: str = ""
    asks: bool = False


class TransactionsState(NamedTuple):
    """The state of the model of transactions (`machine`), and what a scenario adds to it.

    `records`: by number, the name of a record. `held`: requests that are held on their way. `held_markers`: the
    partitions whose markers are held on their way.
    """

    machine: State
    producers: tuple[ProducerView, ...] = ()
    records: tuple[str, ...] = ()
    held: tuple[Request, ...] = ()
    held_markers: tuple[int, ...] = ()

    def producer(self, name: str) -> ProducerView:
        """A producer by name; raises `ActionError` if there is none."""
        for producer in self.producers:
            if producer.name == name:
                return producer
        raise ActionError(f"no producer {name!r}")

    def with_producer(self, producer: ProducerView) -> TransactionsState:
        """The state with a producer added or exchanged."""
        others = [other for other in self.producers if other.name != producer.name]
        return self._replace(producers=tuple(sorted([*others, producer])))


def initialise(state: TransactionsState, config: TransactionsConfig, producer: str, id: str) -> TransactionsState:
    """A new incarnation asks for an epoch (InitProducerId), until it gets one."""
    require(id in config.ids, f"transactional id {id!r}: expected one of {', '.join(config.ids)}")
    begun = ProducerView(producer, config.ids.index(id), sent=(0,) * config.setup.partitions, asks=True)
    return state.with_producer(begun)


def write(
    state: TransactionsState, config: TransactionsConfig, producer: str, record: str, partition: int
) -> TransactionsState:
    """A producer writes a record, or an offset, in its transaction.

    It adds the partition first, unless the leader does that (KIP-890). If the partition is refused, it writes nothing.
    """
    require(0 <= partition < config.setup.partitions, f"no partition {partition}")
    view = state.producer(producer)
    if not config.rules.epoch_per_transaction and not view.added >> partition & 1:
        state, reply = _ask(state, config, Request(Kind.ADD_PARTITION, view.id, view.epoch, detail=partition))
        if reply is not Reply.OK:
            return state.with_producer(view._replace(reply=reply.value))
        view = view._replace(added=view.added | 1 << partition)
    number = len(state.records)
    state = state._replace(records=(*state.records, record))
    request = Request(Kind.PRODUCE, view.id, view.epoch, number, partition, view.sent[partition])
    state, reply = _ask(state, config, request)
    sent = view.sent
    if reply is Reply.OK:
        sent = exchanged(sent, partition, sent[partition] + 1)
    return state.with_producer(view._replace(reply=reply.value, sent=sent))


def end(state: TransactionsState, config: TransactionsConfig, producer: str, commit: bool) -> TransactionsState:
    """A producer ends its transaction (EndTxn). With one epoch per transaction, the answer has the next epoch."""
    view = state.producer(producer)
    state, reply = _ask(state, config, Request(Kind.END, view.id, view.epoch, detail=int(commit)))
    view = view._replace(reply=reply.value)
    if reply is Reply.OK:
        view = view._replace(added=0)
        if config.rules.epoch_per_transaction:
            epoch = state.machine.coordinated[view.id].last_entry.epoch
            view = view._replace(epoch=epoch, sent=(0,) * config.setup.partitions)
    return state.with_producer(view)


def hold_end(state: TransactionsState, config: TransactionsConfig, producer: str, commit: bool) -> TransactionsState:
    """A producer's EndTxn is held on its way: the producer gives up waiting for the answer."""
    view = state.producer(producer)
    return state._replace(held=(*state.held, Request(Kind.END, view.id, view.epoch, detail=int(commit))))


def release(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """The held requests arrive. No client waits for the answers."""
    require(bool(state.held), "nothing is held")
    for request in state.held:
        state, _ = _ask(state, config, request)
    return state._replace(held=())


def crash(state: TransactionsState, config: TransactionsConfig, producer: str) -> TransactionsState:
    """A producer is gone."""
    view = state.producer(producer)
    return state._replace(producers=tuple(other for other in state.producers if other != view))


def time_out(state: TransactionsState, config: TransactionsConfig, id: str) -> TransactionsState:
    """`transaction.timeout.ms` has passed: the coordinator aborts the transaction and fences its producer (KIP-588)."""
    number = config.ids.index(id)
    is_open = state.machine.coordinated[number].last_entry.status == ONGOING
    require(is_open and config.rules.aborts_on_time_out, f"{id} has no transaction that could time out")
    return state._replace(machine=abort_by_coordinator(state.machine, config.setup, number))


def fail_over(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """The coordinator is killed: another broker, whose markers are not held, replays __transaction_state."""
    setup = config.setup
    replaced = [after for _, after in environment.fail_over(state.machine._replace(failovers=1), setup)]
    require(len(replaced) == 1, "there is no other broker to be coordinator")
    return state._replace(machine=replaced[0], held_markers=())


def hold_markers(state: TransactionsState, config: TransactionsConfig, partition: int) -> TransactionsState:
    """The markers that the present coordinator sends to a partition are held on their way."""
    return state._replace(held_markers=(*state.held_markers, partition))


def release_markers(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """Markers that were held arrive; a leader accepts none from a coordinator that was replaced (KIP-98)."""
    machine = state.machine
    while (taken := next(environment.late_marker(machine, config.setup), None)) is not None:
        _, machine = taken
    return state._replace(machine=machine._replace(late_markers=()), held_markers=())


ACTIONS: Mapping[str, Callable[..., TransactionsState]] = {
    action.__name__: action
    for action in (initialise, write, end, hold_end, release, crash, time_out, fail_over, hold_markers, release_markers)
}
"""The external actions by name."""


def _ask(state: TransactionsState, config: TransactionsConfig, request: Request) -> tuple[TransactionsState, Reply]:
    """The state and the reply after a request has arrived in a settled state.

    Before the state has settled, the producer would only be told to ask again.
    """
    state = settled(state, config)
    machine, reply = arrive(state.machine, config.setup, request)
    require(
        reply is not Reply.CONCURRENT_TRANSACTIONS, "the transaction before can't end: its producer would ask forever"
    )
    return state._replace(machine=machine), reply


def settled(state: TransactionsState, config: TransactionsConfig) -> TransactionsState:
    """The state in which nothing more happens by itself. The order in which things happen makes no difference."""
    while (after := next(urgent(state, config), None)) is not None:
        state = after
    return state


def urgent(state: TransactionsState, config: TransactionsConfig) -> Iterator[TransactionsState]:
    """What happens next by itself: markers are written, transactions completed, and producers given their epochs."""
    setup = config.setup
    for action, machine in environment.write_marker(state.machine, setup):
        if action.partition not in state.held_markers:
            yield state._replace(machine=machine)
    for _, machine in environment.complete_transaction(state.machine, setup):
        yield state._replace(machine=machine)
    for view in state.producers:
        if view.asks:
            yield from _give_epoch(state, setup, view)


def _give_epoch(state: TransactionsState, setup: Setup, view: ProducerView) -> Iterator[TransactionsState]:
    """The coordinator answers InitProducerId, once it has aborted the transaction that is open."""
    reply, append = init_producer_id(state.machine.coordinated[view.id].last_entry, None, setup.rules)
    if reply is Reply.OK and append is not None:
        machine = state.machine.with_entry(setup, view.id, append, 0)
        ready = view._replace(epoch=append.epoch, reply=reply.value, asks=False)
        yield state.with_producer(ready)._replace(machine=machine)
    elif append is not None:
        yield state._replace(machine=abort_by_coordinator(state.machine, setup, view.id))


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
        """What happens by itself, all of it urgent; its order makes no difference."""
        yield from ((after, True) for after in urgent(state, self.config))

    def observe(self, state: TransactionsState) -> observed.Observation:
        """What a complete observation of transactions in this state shows."""
        config, logs = self.config, state.machine.logs
        by_id = dict(zip(config.ids, state.machine.coordinated, strict=True))
        transactions = observed.TransactionsObservation(
            partitions={number: _partition(logs[number], state, config) for number in range(config.partitions)},
            transactions={name: _transaction(held) for name, held in by_id.items() if held.last_entry.epoch != NONE},
            producers={p.name: observed.ProducerObservation(epoch=p.epoch, reply=p.reply) for p in state.producers},
            offsets=_offsets(logs[config.offset_partition], state, config) if config.has_group else None,
        )
        return observed.Observation(transactions=transactions)


def _partition(log: Log, state: TransactionsState, config: TransactionsConfig) -> observed.PartitionObservation:
    mask = stored.readable_records(log, config.rules.reads_below_last_stable_offset)
    records = [(entry.number, _record(entry.number, state, config)) for entry in log if entry.kind == DATA]
    names = [_MARKERS.get(entry.kind) or _record(entry.number, state, config) for entry in log]
    return observed.PartitionObservation(
        log=tuple((offset, name, entry.epoch) for offset, (name, entry) in enumerate(zip(names, log, strict=True))),
        high_watermark=len(log),
        last_stable_offset=stored.last_stable_offset(log),
        read_committed=tuple(name for number, name in records if mask >> number & 1),
        read_uncommitted=tuple(name for _, name in records),
    )


def _transaction(coordinated: Coordinated) -> observed.TransactionObservation:
    entry, unmarked, _ = coordinated
    partitions = entry.partitions if entry.status == ONGOING else unmarked if entry.status in PREPARED else 0
    return observed.TransactionObservation(
        state=STATUS_NAMES[entry.status], epoch=entry.epoch, partitions=tuple(bits(partitions))
    )


def _offsets(log: Log, state: TransactionsState, config: TransactionsConfig) -> observed.OffsetsObservation:
    offsets = [int(_record(number, state, config)) for number in stored.committed(log)]
    pending = any(stored.contents(log, id).open for id in {entry.id for entry in log})
    return observed.OffsetsObservation(committed=offsets[-1] if offsets else None, pending=pending)


def _record(number: int, state: TransactionsState, config: TransactionsConfig) -> str:
    # Numbers leave room for `size` records in each transaction, of which a scenario's transaction has one.
    return state.records[number // config.setup.size]
