"""Condenses transactions/ into what a picture can show: the transactions of each transactional id over time.

Guarantee: what is kept grows with the transactional ids, errors and slots of time, but not with the transactions that
fit into a slot. Counts are exact.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.columns import TRANSACTIONS
from kafka_chaos.contract.lane.transactions import IN_DOUBT, TRANSACTION_OUTCOMES
from kafka_chaos.harness.report.inputs.table_queries import Grids, ask

FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
"""Errors by which a producer learns that another one has taken its transactional id."""

_BARS = """
SELECT lane, transactional_id, outcome, error, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns, count(*) AS count
FROM entries
GROUP BY lane, transactional_id, outcome, error, slot(begin_ns, start, width), slot(end_ns, start, width)
ORDER BY begin_ns, end_ns
"""
_INCARNATIONS = """
SELECT lane, transactional_id, producer_id, min(coalesce(initialised_ns, begin_ns)) AS start_ns
FROM entries GROUP BY lane, transactional_id, producer_id ORDER BY start_ns
"""


@dataclass(frozen=True)
class Bar:
    """One transaction, or `count` transactions with one outcome and error that began, and ended, in the same slots.

    `end_ns` None: the transaction was left open.
    """

    begin_ns: int
    end_ns: int | None
    outcome: str
    error: str | None = None
    count: int = 1

    @property
    def is_fenced(self) -> bool:
        """Whether the transaction's producer was fenced."""
        return self.error in FENCED

    @property
    def style(self) -> str:
        """The CSS classes of the bar: the outcome, and whether it stands for several transactions or an open one."""
        style = "in-doubt" if self.outcome == IN_DOUBT else self.outcome
        return f"{style} many" if self.count > 1 else f"{style} open" if self.end_ns is None else style


@dataclass(frozen=True)
class Incarnation:
    """A producer of a transactional id, and when it was initialised (or else began its first transaction)."""

    start_ns: int
    producer_id: int


@dataclass(frozen=True)
class TransactionalId:
    """The transactions of one transactional id, in the order of their beginning."""

    name: str
    bars: Sequence[Bar] = ()
    incarnations: Sequence[Incarnation] = ()

    def count(self, outcome: str) -> int:
        """The number of transactions with this outcome."""
        return sum(bar.count for bar in self.bars if bar.outcome == outcome)

    @property
    def fenced_count(self) -> int:
        """The number of transactions whose producer was fenced."""
        return sum(bar.count for bar in self.bars if bar.is_fenced)

    @property
    def longest_ns(self) -> int:
        """The duration of the longest transaction whose end is known."""
        return max((bar.end_ns - bar.begin_ns for bar in self.bars if bar.end_ns is not None), default=0)

    def ends_at(self, bar: Bar) -> int | None:
        """When a transaction ended: as its producer learned, or else when the next incarnation began, which ends it."""
        if bar.end_ns is not None:
            return bar.end_ns
        starts = (incarnation.start_ns for incarnation in self.incarnations)
        return next((start_ns for start_ns in starts if start_ns > bar.begin_ns), None)


def read_transactions(files: Sequence[Path], grids: Grids) -> dict[str, list[TransactionalId]]:
    """The transactional ids of each lane, in natural order."""
    bars: defaultdict[tuple[str, str], list[Bar]] = defaultdict(list)
    for row in ask(_BARS, files, TRANSACTIONS, grids):
        bars[row.pop("lane"), row.pop("transactional_id")].append(Bar(**row))
    incarnations: defaultdict[tuple[str, str], list[Incarnation]] = defaultdict(list)
    for row in ask(_INCARNATIONS, files, TRANSACTIONS, grids):
        incarnations[row["lane"], row["transactional_id"]].append(Incarnation(row["start_ns"], row["producer_id"]))
    lanes: defaultdict[str, list[TransactionalId]] = defaultdict(list)
    for lane, name in sorted(bars, key=lambda key: (key[0], natural_key(key[1]))):
        lanes[lane].append(TransactionalId(name, bars[lane, name], incarnations[lane, name]))
    return dict(lanes)


def natural_key(name: str) -> list[tuple[int, str]]:
    """The sort key of a name that orders numbers as people count: `a-2` before `a-10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def totals(txn_ids: Sequence[TransactionalId]) -> Mapping[str, int]:
    """The number of transactions of `txn_ids` by outcome."""
    return Counter({outcome: sum(txn_id.count(outcome) for txn_id in txn_ids) for outcome in TRANSACTION_OUTCOMES})
