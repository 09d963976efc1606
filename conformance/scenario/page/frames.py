"""An act as columns, a step or more each, its logs as cells: what each truncated, and the same in words.

Guarantee: pure functions of the record. A step that changes nothing visible has no column of its own; the next column
has its sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_chaos.conformance.scenario.record import PARTITIONS, ActRecord, StepRecord
from kafka_chaos.reference_model.lockstep.observation.clients import TransactionsObservation
from kafka_chaos.reference_model.lockstep.observation.cluster import NO_EPOCH, Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.state import FOLLOWER, LEADER, NOBODY

Entry = tuple[int, str, int]
"""A record of a log: offset, name, leader epoch."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A replica after a step.

    `gone`: what it had after the previous step and no longer has. `high_watermark`: the one in memory; if the broker
    does not run, the checkpointed one; None if unknown. `believes`: the leader in the broker's metadata responses, if
    ZooKeeper has another one.

    Of a partition with transactions it is the last stable offset that stands for the high watermark, and `given` has
    what a read_committed consumer is given.
    """

    log: tuple[Entry, ...]
    gone: tuple[Entry, ...]
    high_watermark: int | None
    role: str | None
    believes: int | None = None
    given: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One or more steps, of which step `number` changed something. `partition` is the state in ZooKeeper."""

    number: int
    sentences: tuple[tuple[int, str], ...]
    cells: Mapping[int, Cell]
    partition: str


def columns_of(act: ActRecord) -> list[Column]:
    """The columns of an act, in the order of its steps."""
    columns: list[Column] = []
    waiting: list[tuple[int, str]] = []
    before: dict[int, Cell] = {}
    for step in act.steps:
        cells = {
            broker: _cell(step.observation, seen, before.get(broker))
            for broker, seen in step.observation.replicas.items()
        }
        if (transactions := step.observation.transactions) is not None:
            cells |= {
                number: Cell(one.log, (), one.last_stable_offset, FOLLOWER, given=one.read_committed)
                for number, one in transactions.partitions.items()
            }
        partition = _partition(step)
        waiting.append((step.number, step.sentence))
        nothing_yet = not columns and step is not act.steps[-1] and not any(cell.log for cell in cells.values())
        same = bool(columns) and cells == _without_gone(before) and partition == columns[-1].partition
        if not (nothing_yet or same):
            columns.append(Column(step.number, tuple(waiting), cells, partition))
            waiting = []
        before = cells
    if waiting and columns:
        columns[-1] = replace(columns[-1], sentences=(*columns[-1].sentences, *waiting))
    return columns


def tell_columns(act: ActRecord, columns: Sequence[Column]) -> list[str]:
    """The columns in words: a line per column, with every replica that changed."""
    lines = []
    what = "Transactions" if act.kind == PARTITIONS else "Partition"
    before: Mapping[int, Cell] = {}
    for column in columns:
        parts = [" ".join(f"{number}. {sentence}" for number, sentence in column.sentences)]
        for broker, cell in column.cells.items():
            if before.get(broker) != cell:
                parts.append(f"{replica_name(act, broker)}{_tell_cell(cell)}.")
        before = _without_gone(column.cells)
        lines.append(" ".join([*parts, f"{what}: {column.partition}."]))
    return lines


def replica_name(act: ActRecord, broker: int) -> str:
    """A replica, at the beginning of a sentence."""
    name = act.broker_name(broker)
    return name[0].upper() + name[1:]


def printable(record: str) -> str:
    """A record's name without what can't be printed; ∅ for an empty one."""
    return "".join(letter if letter.isprintable() else "�" for letter in record) or "∅"


def believed_leader(observation: Observation, seen: ReplicaObservation) -> int | None:
    """The leader in a running broker's metadata responses, if ZooKeeper has another one."""
    if seen.role is None or seen.leader is None or observation.leader in (None, seen.leader):
        return None
    return seen.leader


def tell_belief(leader: int) -> str:
    """The leader that a broker sees, in words."""
    return "sees no leader" if leader == NOBODY else f"sees leader {leader}"


def tell_transactions(seen: TransactionsObservation) -> Iterator[str]:
    """Transactional ids, producers and the group's offset, each in a line."""
    for name, one in seen.transactions.items():
        where = f" in {' '.join(map(str, one.partitions))}" if one.partitions else ""
        yield f"{name} {one.state}{where}, epoch {one.epoch}"
    for name, producer in seen.producers.items():
        yield f"{name} has epoch {producer.epoch}, {producer.reply}"
    if seen.offsets is not None:
        committed = "none" if seen.offsets.committed is None else seen.offsets.committed
        yield f"group's offset {committed}"
        if seen.offsets.pending:
            yield "another one is pending"


def _tell_cell(cell: Cell) -> str:
    if cell.given is not None:
        offset = f"last stable offset {cell.high_watermark}"
        return f": {_names(cell.log) or 'empty'}, {offset}, read_committed gives {' '.join(cell.given) or 'nothing'}"
    belief = "" if cell.believes is None else f" {tell_belief(cell.believes)}"
    state = {LEADER: " leads", None: " does not run"}.get(cell.role, "")
    gone = f" drops {_names(cell.gone)}" if cell.gone else ""
    watermark = "" if cell.high_watermark is None else f", high watermark {cell.high_watermark}"
    return f"{' and'.join(part for part in (state, belief, gone) if part)}: {_names(cell.log) or 'empty'}{watermark}"


def _names(log: Sequence[Entry]) -> str:
    names = [printable(record) + ("" if epoch == NO_EPOCH else f" (epoch {epoch})") for _, record, epoch in log]
    return " ".join(names if len(names) <= 6 else [*names[:2], f"… {len(names) - 4} more …", *names[-2:]])


def _cell(observation: Observation, seen: ReplicaObservation, before: Cell | None) -> Cell:
    log = () if seen.log is None else tuple((offset, record, epoch) for offset, record, epoch in seen.log)
    now = set(log)
    gone = tuple(entry for entry in before.log if entry not in now) if before is not None else ()
    watermark = seen.high_watermark if seen.role is not None else seen.checkpointed_high_watermark
    return Cell(log, gone, watermark, seen.role, believed_leader(observation, seen))


def _without_gone(cells: Mapping[int, Cell]) -> dict[int, Cell]:
    return {broker: replace(cell, gone=()) for broker, cell in cells.items()}


def _partition(step: StepRecord) -> str:
    seen = step.observation
    if seen.transactions is not None:
        return "; ".join(tell_transactions(seen.transactions)) or "none"
    if seen.leader is None:
        return "no partition in the metadata"
    leader = "no leader" if seen.leader == NOBODY else f"leader {seen.leader}"
    epoch = "" if seen.leader_epoch is None else f", epoch {seen.leader_epoch}"
    isr = "" if seen.isr is None else f"; ISR {' '.join(map(str, seen.isr)) or 'empty'}"
    return f"{leader}{epoch}{isr}"
