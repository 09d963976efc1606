"""The model of transactions as an interpreter of scenarios: after each step the state that it settles in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.reference_model.lockstep.observation.clients import (
    ABORT,
    COMMIT,
    OffsetsObservation,
    PartitionObservation,
    ProducerObservation,
    TransactionObservation,
    TransactionsObservation,
)
from kafka_chaos.reference_model.lockstep.observation.cluster import Observation
from kafka_chaos.reference_model.lockstep.stepping import SteppedModel
from kafka_chaos.reference_model.lockstep.transactions.steps import (
    ACTIONS,
    TransactionsConfig,
    TransactionsState,
    urgent,
)
from kafka_chaos.reference_model.transactions import state as machine_state
from kafka_chaos.reference_model.transactions.coordinator import PREPARED
from kafka_chaos.reference_model.transactions.partitions import (
    committed,
    contents,
    last_stable_offset,
    readable_records,
)
from kafka_chaos.reference_model.transactions.state import DATA, NONE, ONGOING, STATUS_NAMES, Coordinated, Log
from kafka_chaos.reference_model.tuples import bits

_MARKERS = {machine_state.COMMIT: COMMIT, machine_state.ABORT: ABORT}


@dataclass(slots=True)
class TransactionsModel(SteppedModel[TransactionsState]):
    """Transactions under a configuration, and the states they may be in now."""

    actions = ACTIONS
    config: TransactionsConfig
    states: frozenset[TransactionsState] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if not self.states:
            self.states = self.settle([self.config.initial()])

    def taken(self, act: Callable[..., Any], state: TransactionsState, **arguments: Any) -> Iterator[TransactionsState]:
        """The state right after an action."""
        yield act(state, self.config, **arguments)

    def following(self, state: TransactionsState) -> Iterator[tuple[TransactionsState, bool]]:
        """What happens of itself, all of it urgent; its order makes no difference."""
        yield from ((after, True) for after in urgent(state, self.config))

    def observe(self, state: TransactionsState) -> Observation:
        """The observation of all transactions of a cluster that is in this state."""
        config, logs = self.config, state.machine.logs
        known_ids = zip(config.ids, state.machine.coordinated, strict=True)
        transactions = TransactionsObservation(
            partitions={number: _partition(logs[number], state, config) for number in range(config.partitions)},
            transactions={name: _transaction(known) for name, known in known_ids if known.status.epoch != NONE},
            producers={one.name: ProducerObservation(epoch=one.epoch, reply=one.reply) for one in state.producers},
            offsets=_offsets(logs[config.offset_partition], state, config) if config.has_group else None,
        )
        return Observation(transactions=transactions)


def _partition(log: Log, state: TransactionsState, config: TransactionsConfig) -> PartitionObservation:
    mask = readable_records(log, config.rules.reads_below_last_stable_offset)
    records = [(entry.number, _record(entry.number, state, config)) for entry in log if entry.kind == DATA]
    names = [_MARKERS.get(entry.kind) or _record(entry.number, state, config) for entry in log]
    return PartitionObservation(
        log=tuple((offset, name, entry.epoch) for offset, (name, entry) in enumerate(zip(names, log, strict=True))),
        high_watermark=len(log),
        last_stable_offset=last_stable_offset(log),
        read_committed=tuple(name for number, name in records if mask >> number & 1),
        read_uncommitted=tuple(name for _, name in records),
    )


def _transaction(known: Coordinated) -> TransactionObservation:
    status = known.status
    open_in = status.partitions if status.status == ONGOING else known.unmarked if status.status in PREPARED else 0
    return TransactionObservation(
        state=STATUS_NAMES[status.status], epoch=status.epoch, partitions=tuple(bits(open_in))
    )


def _offsets(log: Log, state: TransactionsState, config: TransactionsConfig) -> OffsetsObservation:
    offsets = [int(_record(number, state, config)) for number in committed(log)]
    pending = any(contents(log, id).open for id in {entry.id for entry in log})
    return OffsetsObservation(committed=offsets[-1] if offsets else None, pending=pending)


def _record(number: int, state: TransactionsState, config: TransactionsConfig) -> str:
    return state.records[number // config.setup.size]
