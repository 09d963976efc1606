"""Kafka's state after a step, for the terminal: a table of replicas, or of partitions with transactions, and lines.

Guarantee: every value of the table that differs from the model is red; `words.tell_difference` says what the model
allows. A broker that does not run has only the values of its files.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.box import Box
from rich.table import Table
from rich.text import Text

from kafka_chaos.conformance.scenario.page.words import (
    Entry,
    believed_leader,
    log_cells,
    tell_belief,
    tell_transactions,
    value_text,
)
from kafka_chaos.conformance.scenario.record import PARTITIONS, ActRecord, StepRecord
from kafka_chaos.reference_model.lockstep.observation.clients import PartitionObservation, TransactionsObservation
from kafka_chaos.reference_model.lockstep.observation.cluster import Difference, Observation, ReplicaObservation

LEGEND = (
    "A log has a cell per record: record·leader epoch, after a gap offset:record·leader epoch. "
    "High watermark: in memory (checkpointed). Epochs file: epoch@start offset."
)
DIFFERS = "bold red"
NOT_RUNNING = "not running"
_EPOCH_STYLES = ("cyan", "yellow", "magenta", "green", "blue", "bright_cyan", "bright_yellow", "bright_magenta")
_PARTITION = ("leader", "leader_epoch", "isr", "controller_epoch")
_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n")

Column = tuple[tuple[str, ...], Callable[[Observation, Any], Text | str]]
"""The fields that a column shows, and how."""


def state_table(act: ActRecord, step: StepRecord, before: StepRecord | None) -> Table:
    """A row per replica or partition; those that have not changed since the previous step are dim."""
    columns, rows = _PARTITIONS if act.kind == PARTITIONS else _REPLICAS, _rows(act, step)
    earlier = {} if before is None else _rows(act, before)
    table = Table(
        box=_RULED, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", border_style="dim"
    )
    for heading in ("partition" if act.kind == PARTITIONS else "broker", *columns):
        table.add_column(heading, no_wrap=heading != "log", vertical="top")
    for number, seen in rows.items():
        different = {name for place, name in map(_place, step.differences) if place == number}
        cells = [_cell(shown(step.observation, seen), bool(different & {*names})) for names, shown in columns.values()]
        style = "dim" if earlier.get(number) == seen and not different else None
        table.add_row(_row_name(act, number), *cells, style=style)
    return table


def state_lines(act: ActRecord, step: StepRecord) -> Iterator[str]:
    """The partition in the metadata and what is acknowledged; or transactional ids, producers, the group's offset."""
    seen = step.observation
    if act.kind == PARTITIONS:
        yield from tell_transactions(seen.transactions or TransactionsObservation())
        return
    known = {name: getattr(seen, name) for name in _PARTITION if getattr(seen, name) is not None}
    if known:
        labels = {"isr": "ISR"}
        said = (f"{labels.get(name, name.replace('_', ' '))} {value_text(name, one)}" for name, one in known.items())
        yield f"Partition: {' · '.join(said)}"
    if seen.acknowledged:
        yield f"acknowledged: {value_text('acknowledged', seen.acknowledged)}"


def log_text(log: tuple[Entry, ...] | None, log_start: int | None = None) -> Text:
    """A log as cells, coloured by leader epoch, with the offset after a gap; the middle of a long log is counted."""
    if log is None:
        return Text("")
    shown = [Text(text, _style(epoch)) for text, epoch in log_cells(log, log_start)] or [Text("empty", "dim")]
    return Text(f"from {log_start}: " if log_start else "").append_text(Text(" ").join(shown))


def _style(epoch: int | None) -> str:
    return "dim" if epoch is None else _EPOCH_STYLES[epoch % len(_EPOCH_STYLES)]


def _rows(act: ActRecord, step: StepRecord) -> Mapping[int, Any]:
    seen = step.observation
    if act.kind != PARTITIONS:
        return seen.replicas
    return {} if seen.transactions is None else seen.transactions.partitions


def _row_name(act: ActRecord, number: int) -> str:
    given = act.names.get(number)
    return f"{given} ({number})" if given else str(number)


def _place(difference: Difference) -> tuple[int, str]:
    """The row and the field of a difference; that of a partition with transactions is named in the field."""
    place, _, name = difference.field.rpartition(", ")
    is_partition = place.startswith("partition ")
    return (int(place.removeprefix("partition ")), name) if is_partition else (difference.broker, difference.field)


def _cell(shown: Text | str, differs: bool) -> Text | str:
    return Text(str(shown), DIFFERS) if differs else shown


def _role(seen: Observation, replica: ReplicaObservation) -> Text:
    believes = believed_leader(seen, replica)
    belief = "" if believes is None else f", {tell_belief(believes)}"
    return Text(f"{replica.role or NOT_RUNNING}{belief}", {"leader": "bold", None: "dim"}.get(replica.role, ""))


def _watermark(seen: Observation, replica: ReplicaObservation) -> str:
    in_memory, on_disk = replica.high_watermark, replica.checkpointed_high_watermark
    watermark = "" if in_memory is None and on_disk is None else value_text("", in_memory)
    return watermark if on_disk is None else f"{watermark} ({on_disk})"


def _records(name: str) -> Callable[[Observation, PartitionObservation], str]:
    return lambda _, one: " ".join(getattr(one, name)) or "nothing"


_REPLICAS: Mapping[str, Column] = {
    "role": (("role",), _role),
    "log": (("log", "log_start"), lambda _, one: log_text(one.log, one.log_start)),
    "end": (("log_end",), lambda _, one: "" if one.log_end is None else str(one.log_end)),
    "high\nwatermark": (("high_watermark", "checkpointed_high_watermark"), _watermark),
    "epochs\nfile": (("epochs",), lambda _, one: "" if one.epochs is None else value_text("epochs", one.epochs)),
}
_PARTITIONS: Mapping[str, Column] = {
    "log": (("log",), lambda _, one: log_text(one.log)),
    "high\nwatermark": (("high_watermark",), lambda _, one: str(one.high_watermark)),
    "last stable\noffset": (("last_stable_offset",), lambda _, one: str(one.last_stable_offset)),
    "read_committed": (("read_committed",), _records("read_committed")),
    "read_uncommitted": (("read_uncommitted",), _records("read_uncommitted")),
}
