"""The state after a step as tables for the terminal, on Kafka and in the model, differences in red: the replicas,
or the partitions with transactions.

Guarantee: every difference is red in the row of its replica. If several states of the model match, the table shows all
their values as `1 | 2`. A broker that does not run has only the values of its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.box import Box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kafka_chaos.conformance.scenario.page.frames import believed_leader, printable, tell_belief, tell_transactions
from kafka_chaos.conformance.scenario.record import ActRecord, StepRecord
from kafka_chaos.reference_model.lockstep.observation.clients import PartitionObservation, TransactionsObservation
from kafka_chaos.reference_model.lockstep.observation.cluster import NO_EPOCH, Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.state import NOBODY

Log = tuple[tuple[int, str, int], ...]

LEGEND = (
    "A log has a cell per record: record·leader epoch, after a gap offset:record·leader epoch. "
    "High watermark: in memory (checkpointed). Epochs file: epoch@start offset."
)
DIFFERS = "bold red"
NOT_RUNNING = "not running"
_EPOCH_STYLES = ("cyan", "yellow", "magenta", "green", "blue", "bright_cyan", "bright_yellow", "bright_magenta")
_MOST_CELLS = 9
_HEADINGS = ("log", "end", "high\nwatermark", "epochs\nfile")
_FIELDS = (("log", "log_start"), ("log_end",), ("high_watermark", "checkpointed_high_watermark"), ("epochs",))
_PARTITION = (
    ("leader", "leader"),
    ("leader_epoch", "leader epoch"),
    ("isr", "ISR"),
    ("controller_epoch", "controller epoch"),
)
_RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n")


def replica_table(act: ActRecord, step: StepRecord, before: StepRecord | None, console: Console) -> Table:
    """A row per replica, Kafka and the model side by side; on a narrow console, one below the other.

    Rows that have not changed since the previous step are dim.
    """
    beside = _beside(act, step, before)
    fits = Measurement.get(console, console.options.update(max_width=10_000), beside).maximum <= console.width - 5
    return beside if fits else _stacked(act, step, before)


def partition_lines(step: StepRecord) -> list[Text]:
    """The partition in the metadata and the acknowledged records, each with the model's values if they differ."""
    different = {difference.field for difference in step.differences if difference.broker == NOBODY}
    line = Text("Partition: ")
    shown = [(name, label) for name, label in _PARTITION if getattr(step.observation, name) is not None]
    for number, (name, label) in enumerate(shown):
        line.append(" · " if number else "").append(f"{label} ")
        line.append_text(_beside_model(step, name, name in different))
    lines = [line] if shown else []
    if step.observation.acknowledged or "acknowledged" in different:
        acknowledged = Text("acknowledged: ")
        lines.append(acknowledged.append_text(_beside_model(step, "acknowledged", "acknowledged" in different)))
    return lines


def broker_name(act: ActRecord, broker: int) -> str:
    """A broker as a table names it: `X (1)`, or `1` if the document gives it no name."""
    given = act.names.get(broker)
    return f"{given} ({broker})" if given else str(broker)


def log_text(log: Log | None, log_start: int | None = None) -> Text:
    """A log as cells, coloured by leader epoch, with the offset after a gap; the middle of a long log is counted."""
    if log is None:
        return Text("")
    cells = Text(f"from {log_start}: " if log_start else "")
    if not log:
        return cells.append("empty", "dim")
    head, tail = (2, _MOST_CELLS - 3) if len(log) > _MOST_CELLS else (len(log), 0)
    shown = [_cell(entry, follows) for entry, follows in zip(log, _follow(log, log_start or 0), strict=True)]
    if len(log) > _MOST_CELLS:
        shown[head:-tail] = [Text(f"…{len(log) - head - tail}…", "dim")]
    return cells.append_text(Text(" ").join(shown))


def epochs_text(epochs: Sequence[Sequence[int]] | None) -> str:
    """The lines of a leader-epoch-checkpoint file."""
    return "" if epochs is None else " ".join(f"{epoch}@{start}" for epoch, start in epochs) or "empty"


def value_text(name: str, value: Any) -> str:
    """A field's value as people write it."""
    if value is None:
        return "–"
    if name == "leader" and value == NOBODY:
        return "none"
    if name == "acknowledged":
        return " ".join(f"{record}@{'?' if offset is None else offset}" for record, offset in value) or "nothing"
    if name == "epochs":
        return epochs_text(value)
    if name == "log":
        return log_text(tuple(value)).plain
    if isinstance(value, tuple | list):
        return " ".join(map(str, value)) or "empty"
    return str(value)


def _beside(act: ActRecord, step: StepRecord, before: StepRecord | None) -> Table:
    on_kafka, in_model = (
        [f"{name}\n{where}" if name == "log" else name for name in _HEADINGS] for where in ("on Kafka", "in the model")
    )
    table = plain_table("broker", "role", *on_kafka, "", *in_model)
    for broker, replica in step.observation.replicas.items():
        row = [_role(step, broker), *_kafka_cells(step, broker), Text("│", "dim"), *_model_cells(step, broker)]
        table.add_row(broker_name(act, broker), *row, style=_row_style(step, before, broker, replica))
    return table


def _stacked(act: ActRecord, step: StepRecord, before: StepRecord | None) -> Table:
    table = plain_table("broker", "role", "on", *_HEADINGS)
    for broker, replica in step.observation.replicas.items():
        style = _row_style(step, before, broker, replica)
        row = [_role(step, broker), Text("Kafka"), *_kafka_cells(step, broker)]
        table.add_row(broker_name(act, broker), *row, style=style)
        table.add_row("", "", "model", *_model_cells(step, broker), style=style)
    return table


def plain_table(*headings: str) -> Table:
    """A table without a frame, with these headings."""
    table = Table(
        box=_RULED, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", border_style="dim"
    )
    for heading in headings:
        table.add_column(heading, no_wrap=not heading.startswith("log"), vertical="top")
    return table


def _row_style(step: StepRecord, before: StepRecord | None, broker: int, replica: ReplicaObservation) -> str | None:
    differs = any(difference.broker == broker for difference in step.differences)
    same = before is not None and before.observation.replicas.get(broker) == replica
    return "dim" if same and not differs else None


def _role(step: StepRecord, broker: int) -> Text:
    seen = step.observation.replicas[broker]
    role, believes = seen.role, believed_leader(step.observation, seen)
    if "role" not in _different(step, broker):
        belief = "" if believes is None else f", {tell_belief(believes)}"
        return Text(f"{role or NOT_RUNNING}{belief}", {"leader": "bold", None: "dim"}.get(role, ""))
    allowed = " | ".join(sorted({replica.role or "–" for replica in _in_model(step, broker)}))
    return Text(f"{role} (model: {allowed})", DIFFERS)


def _kafka_cells(step: StepRecord, broker: int) -> list[Text]:
    return _reddened(step, broker, _cells(step.observation.replicas[broker]))


def _model_cells(step: StepRecord, broker: int) -> list[Text]:
    runs = step.observation.replicas[broker].role is not None
    columns: list[list[Text]] = [[] for _ in _FIELDS]
    for replica in _in_model(step, broker):
        for column, cell in zip(columns, _cells(replica, runs=runs), strict=True):
            if cell not in column:
                column.append(cell)
    return _reddened(step, broker, [Text(" | ").join(column) for column in columns])


def _reddened(step: StepRecord, broker: int, cells: list[Text]) -> list[Text]:
    different = _different(step, broker)
    for cell, names in zip(cells, _FIELDS, strict=True):
        if different & set(names):
            cell.spans.clear()
            cell.stylize(DIFFERS)
    return cells


def _cells(replica: ReplicaObservation, *, runs: bool = True) -> list[Text]:
    in_memory = replica.high_watermark if runs else None
    on_disk = replica.checkpointed_high_watermark
    watermark = "" if in_memory is None and on_disk is None else value_text("", in_memory)
    return [
        log_text(replica.log, replica.log_start if runs else None),
        Text("" if replica.log_end is None else str(replica.log_end)),
        Text(watermark if on_disk is None else f"{watermark} ({on_disk})"),
        Text(epochs_text(replica.epochs)),
    ]


def _cell(entry: tuple[int, str, int], follows: bool) -> Text:
    offset, record, epoch = entry
    name = printable(record)[:16] + ("" if epoch == NO_EPOCH else f"·{epoch}")
    return Text(name if follows else f"{offset}:{name}", _EPOCH_STYLES[epoch % len(_EPOCH_STYLES)])


def _follow(log: Log, start: int) -> list[bool]:
    """For each record, whether its offset follows that of the previous record."""
    expected = [start, *(offset + 1 for offset, _, _ in log)]
    return [offset == next_one for (offset, _, _), next_one in zip(log, expected, strict=False)]


def _different(step: StepRecord, broker: int) -> set[str]:
    return {difference.field for difference in step.differences if difference.broker == broker}


def _in_model(step: StepRecord, broker: int) -> Iterable[ReplicaObservation]:
    return [allowed.replicas[broker] for allowed in step.allowed if broker in allowed.replicas]


def _beside_model(step: StepRecord, name: str, differs: bool) -> Text:
    seen = value_text(name, getattr(step.observation, name))
    if not differs:
        return Text(seen)
    return Text(f"{seen} (model: {' | '.join(_values(step.allowed, name))})", DIFFERS)


def _values(allowed: Iterable[Observation], name: str) -> list[str]:
    return list(dict.fromkeys(value_text(name, getattr(state, name)) for state in allowed))


_TRANSACTION_HEADINGS = (
    "partition",
    "on",
    "log",
    "high\nwatermark",
    "last stable\noffset",
    "read_committed",
    "read_uncommitted",
)


def transactions_table(step: StepRecord) -> Table:
    """A row per partition, and below it one for each state of the model that differs there."""
    table = plain_table(*_TRANSACTION_HEADINGS)
    for number, seen in _of(step).partitions.items():
        table.add_row(str(number), "Kafka", *_transaction_cells(seen))
        expected = [allowed.transactions.partitions[number] for allowed in step.allowed if allowed.transactions]
        for other in dict.fromkeys(one for one in expected if one != seen):
            table.add_row("", "model", *_transaction_cells(other), style=DIFFERS)
    return table


def transaction_lines(step: StepRecord) -> Iterator[Text]:
    """Transactional ids, producers and the group's offset."""
    for line in tell_transactions(_of(step)):
        yield Text(line)


def _transaction_cells(seen: PartitionObservation) -> list[Text | str]:
    given = (" ".join(names) or "nothing" for names in (seen.read_committed, seen.read_uncommitted))
    return [log_text(seen.log), str(seen.high_watermark), str(seen.last_stable_offset), *given]


def _of(step: StepRecord) -> TransactionsObservation:
    return step.observation.transactions or TransactionsObservation()
