"""A step of a scenario on transactions: its partitions as rows, its transactional ids and producers as lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from kafka_chaos.conformance.scenario.page.frames import tell_transactions
from kafka_chaos.conformance.scenario.page.replica_table import DIFFERS, log_text, plain_table
from kafka_chaos.conformance.scenario.record import StepRecord
from kafka_chaos.reference_model.lockstep.observation.transactions import (
    PartitionObservation,
    TransactionsObservation,
)

_HEADINGS = ("partition", "on", "log", "high\nwatermark", "last stable\noffset", "read_committed", "read_uncommitted")


def transactions_table(step: StepRecord) -> Table:
    """A row per partition, and below it one for each state of the model that differs there."""
    table = plain_table(*_HEADINGS)
    for number, seen in _of(step).partitions.items():
        table.add_row(str(number), "Kafka", *_cells(seen))
        expected = [allowed.transactions.partitions[number] for allowed in step.allowed if allowed.transactions]
        for other in dict.fromkeys(one for one in expected if one != seen):
            table.add_row("", "model", *_cells(other), style=DIFFERS)
    return table


def transaction_lines(step: StepRecord) -> Iterator[Text]:
    """Transactional ids, producers and the group's offset."""
    for line in tell_transactions(_of(step)):
        yield Text(line)


def _cells(seen: PartitionObservation) -> list[Text | str]:
    given = (" ".join(names) or "nothing" for names in (seen.read_committed, seen.read_uncommitted))
    return [log_text(seen.log), str(seen.high_watermark), str(seen.last_stable_offset), *given]


def _of(step: StepRecord) -> TransactionsObservation:
    return step.observation.transactions or TransactionsObservation()
