"""Observations in words: the steps of an act, each with what it changed, and single values.

Guarantee: pure functions of the record. A step that changes nothing visible is told with the next one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kafka_chaos.conformance.scenario.record import PARTITIONS, ActRecord
from kafka_chaos.reference_model.lockstep.observation.clients import PartitionObservation, TransactionsObservation
from kafka_chaos.reference_model.lockstep.observation.cluster import (
    NO_EPOCH,
    PLACES,
    Difference,
    Observation,
    ReplicaObservation,
)
from kafka_chaos.reference_model.lockstep.state import LEADER, NOBODY

_MOST_CELLS = 9
Entry = tuple[int, str, int]
"""A record of a log: offset, name, leader epoch."""


def tell_steps(act: ActRecord) -> list[str]:
    """A line for each step that changed something: what was done, every replica that changed, and the partition.

    Of a partition with transactions, the records that it has and what a read_committed consumer is given.
    """
    what = "Transactions" if act.kind == PARTITIONS else "Partition"
    lines: list[tuple[list[str], list[str]]] = []
    waiting: list[str] = []
    logs: dict[int, Sequence[Entry]] = {}
    shown: dict[int, str] = {}
    last = ""
    for step in act.steps:
        seen = step.observation
        waiting.append(f"{step.number}. {step.sentence}")
        rows = seen.replicas if seen.transactions is None else seen.transactions.partitions
        earlier, logs = logs, {number: row.log or () for number, row in rows.items()}
        gone = {number: [one for one in earlier.get(number, ()) if one not in log] for number, log in logs.items()}
        told = {number: _tell_row(seen, row, ()) for number, row in rows.items()}
        where = _tell_partition(seen)
        if (told == shown and where == last) or not (lines or any(logs.values()) or step is act.steps[-1]):
            continue
        changed = [number for number in told if shown.get(number) != told[number]]
        parts = [f"{_beginning(act, number)}{_tell_row(seen, rows[number], gone[number])}." for number in changed]
        lines.append((waiting, [*parts, f"{what}: {where}."]))
        waiting, shown, last = [], told, where
    if lines:
        lines[-1][0].extend(waiting)
    return [" ".join([*sentences, *parts]) for sentences, parts in lines]


def tell_difference(act: ActRecord, difference: Difference) -> str:
    """A difference in a sentence that names the replica."""
    where = PLACES.get(difference.broker) or act.broker_name(difference.broker)
    name = difference.field.replace("_", " ")
    kind = difference.field.rpartition(", ")[2]
    seen = value_text(kind, difference.observed)
    allowed = " or ".join(value_text(kind, value) for value in difference.allowed)
    return f"{where}, {name}: Kafka has {seen}, the model allows {allowed}"


def value_text(name: str, value: Any) -> str:
    """A field's value as people write it."""
    if value is None:
        return "–"
    if name == "leader" and value == NOBODY:
        return "none"
    if name == "acknowledged":
        return " ".join(f"{record}@{'?' if offset is None else offset}" for record, offset in value) or "nothing"
    if name == "epochs":
        return " ".join(f"{epoch}@{start}" for epoch, start in value) or "empty"
    if name == "log":
        return " ".join(text for text, _ in log_cells(value)) or "empty"
    if isinstance(value, tuple | list):
        return " ".join(map(str, value)) or "empty"
    return str(value)


def log_cells(log: Sequence[Entry], log_start: int | None = None) -> list[tuple[str, int | None]]:
    """A cell for each record of a log: record·leader epoch, after a gap with its offset; and the epoch.

    The middle of a long log is counted.
    """
    expected = [log_start or 0, *(offset + 1 for offset, _, _ in log)]
    cells: list[tuple[str, int | None]] = []
    for (offset, record, epoch), following in zip(log, expected, strict=False):
        name = printable(record)[:16] + ("" if epoch == NO_EPOCH else f"·{epoch}")
        cells.append((name if offset == following else f"{offset}:{name}", epoch))
    if len(cells) > _MOST_CELLS:
        cells[2 : 3 - _MOST_CELLS] = [(f"…{len(log) + 1 - _MOST_CELLS}…", None)]
    return cells


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


def _beginning(act: ActRecord, number: int) -> str:
    """The name of a replica or partition, at the beginning of a sentence."""
    name = act.broker_name(number)
    return name[0].upper() + name[1:]


def _tell_row(observation: Observation, seen: ReplicaObservation | PartitionObservation, gone: Sequence[Entry]) -> str:
    """A replica or a partition; `gone`: what it had after the previous step and no longer has."""
    names = _names(seen.log or ()) or "empty"
    if isinstance(seen, PartitionObservation):
        given = " ".join(seen.read_committed) or "nothing"
        return f": {names}, last stable offset {seen.last_stable_offset}, read_committed gives {given}"
    believes = believed_leader(observation, seen)
    belief = "" if believes is None else f" {tell_belief(believes)}"
    state = {LEADER: " leads", None: " does not run"}.get(seen.role, "")
    drops = f" drops {_names(gone)}" if gone else ""
    known = seen.checkpointed_high_watermark if seen.role is None else seen.high_watermark
    watermark = "" if known is None else f", high watermark {known}"
    return f"{' and'.join(part for part in (state, belief, drops) if part)}: {names}{watermark}"


def _names(log: Sequence[Entry]) -> str:
    names = [printable(record) + ("" if epoch == NO_EPOCH else f" (epoch {epoch})") for _, record, epoch in log]
    return " ".join(names if len(names) <= 6 else [*names[:2], f"… {len(names) - 4} more …", *names[-2:]])


def _tell_partition(seen: Observation) -> str:
    if seen.transactions is not None:
        return "; ".join(tell_transactions(seen.transactions)) or "none"
    if seen.leader is None:
        return "no partition in the metadata"
    leader = "no leader" if seen.leader == NOBODY else f"leader {seen.leader}"
    epoch = "" if seen.leader_epoch is None else f", epoch {seen.leader_epoch}"
    isr = "" if seen.isr is None else f"; ISR {' '.join(map(str, seen.isr)) or 'empty'}"
    return f"{leader}{epoch}{isr}"
