"""Condenses `transactions/` into what a picture can show: per transactional id, its transactions over time.

Guarantee: the number of transactional ids, of errors, and of slots bounds what is kept; the number of transactions does
not. Counts are exact. A transaction that takes longer than a slot is kept by itself.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from kafka_chaos.contract.columns import TRANSACTIONS
from kafka_chaos.contract.lane.transactions import IN_DOUBT, TRANSACTION_OUTCOMES
from kafka_chaos.harness.report.inputs.slots import Frames, Totals, framed_pieces, slot

FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
"""Errors by which a producer learns that another one has taken its transactional id."""

_COLUMNS = ["lane", "producer_id", "transactional_id", "begin_ns", "end_ns", "outcome", "error", "initialised_ns"]
_KEYS = ["lane", "transactional_id", "outcome", "error", "first_slot", "last_slot"]


@dataclass(frozen=True)
class Bar:
    """One transaction, or `count` of one outcome and error that began and ended within one slot.

    `end_ns` None: it was left behind open.
    """

    begin_ns: int
    end_ns: int | None
    outcome: str
    error: str | None = None
    count: int = 1

    @property
    def is_fenced(self) -> bool:
        """Whether its producer was fenced in it."""
        return self.error in FENCED

    @property
    def style(self) -> str:
        """The classes of its shape: how it ended, and whether it is one of several, or was left open."""
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
        """Transactions of this outcome."""
        return sum(bar.count for bar in self.bars if bar.outcome == outcome)

    @property
    def fenced(self) -> int:
        """Transactions in which its producer was fenced."""
        return sum(bar.count for bar in self.bars if bar.is_fenced)

    @property
    def longest_ns(self) -> int:
        """The longest time from a begin to an end that was learned of."""
        return max((bar.end_ns - bar.begin_ns for bar in self.bars if bar.end_ns is not None), default=0)

    def ends_at(self, bar: Bar) -> int | None:
        """When a transaction ended: as it was learned, or else when the next incarnation ended it."""
        if bar.end_ns is not None:
            return bar.end_ns
        return next((one.start_ns for one in self.incarnations if one.start_ns > bar.begin_ns), None)


def read_transactions(files: Sequence[Path], frames: Frames) -> dict[str, list[TransactionalId]]:
    """By lane, its transactional ids in the order of their names, as people count them."""
    together = Totals(_KEYS, ("begin_ns", "min"), ("end_ns", "max"), ("begin_ns", "count"))
    begun = Totals(("lane", "transactional_id", "producer_id"), ("began", "min"))
    for piece in framed_pieces(files, TRANSACTIONS, _COLUMNS, frames):
        slotted = piece.append_column("first_slot", slot(piece, "begin_ns"))
        together.add(slotted.append_column("last_slot", slot(piece, "end_ns")))
        begun.add(piece.append_column("began", pc.coalesce(piece["initialised_ns"], piece["begin_ns"])))
    bars: defaultdict[tuple[str, str], list[Bar]] = defaultdict(list)
    for row in together.rows():
        bar = Bar(row["begin_ns_min"], row["end_ns_max"], row["outcome"], row["error"], row["begin_ns_count"])
        bars[row["lane"], row["transactional_id"]].append(bar)
    incarnations: defaultdict[tuple[str, str], list[Incarnation]] = defaultdict(list)
    for row in begun.rows():
        incarnations[row["lane"], row["transactional_id"]].append(Incarnation(row["began_min"], row["producer_id"]))
    lanes: defaultdict[str, list[TransactionalId]] = defaultdict(list)
    for lane, name in sorted(bars, key=lambda key: (key[0], natural(key[1]))):
        of_id = sorted(bars[lane, name], key=lambda bar: bar.begin_ns)
        producers = sorted(incarnations[lane, name], key=lambda one: one.start_ns)
        lanes[lane].append(TransactionalId(name, of_id, producers))
    return dict(lanes)


def natural(name: str) -> list[tuple[int, str]]:
    """Orders names as people count: `a-2` before `a-10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def totals(writers: Sequence[TransactionalId]) -> Mapping[str, int]:
    """How many transactions of each outcome these have."""
    return Counter({outcome: sum(one.count(outcome) for one in writers) for outcome in TRANSACTION_OUTCOMES})
