"""Condenses `transactions/` into what a picture can show: per transactional id, its transactions over time.

Guarantee: the number of transactional ids, of errors, and of slots bounds what is kept; the number of transactions does
not. Counts are exact. A transaction that takes longer than a slot is kept by itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka_chaos.contract.columns import TRANSACTIONS
from kafka_chaos.contract.transactions import TRANSACTION_OUTCOMES
from kafka_chaos.harness.report.inputs.slots import Frames, pieces, slot

FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
"""Errors by which a producer learns that another one has taken its transactional id."""

_COLUMNS = (*("lane", "producer_id", "transactional_id", "begin_ns", "end_ns", "outcome", "error", "initialised_ns"),)
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

    def joined(self, other: Bar) -> Bar:
        """This and another one of the same kind and slots as one."""
        ends = [end for end in (self.end_ns, other.end_ns) if end is not None]
        return replace(
            self,
            begin_ns=min(self.begin_ns, other.begin_ns),
            end_ns=max(ends, default=None),
            count=self.count + other.count,
        )


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


@dataclass
class _Found:
    """What was read of one transactional id so far."""

    bars: dict[tuple[str, str | None, int, int | None], Bar] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)


def read_transactions(files: Sequence[Path], frames: Frames) -> dict[str, list[TransactionalId]]:
    """By lane, its transactional ids in the order of their names, as people count them."""
    found: defaultdict[tuple[str, str], _Found] = defaultdict(_Found)
    for piece in pieces(files, TRANSACTIONS, _COLUMNS, frames):
        for lane, name, producer_id, start in _incarnations(piece):
            begun = found[lane, name].begun
            begun[producer_id] = min(start, begun.get(producer_id, start))
        for row in _bars(piece):
            bars = found[row["lane"], row["transactional_id"]].bars
            key = (row["outcome"], row["error"], row["first_slot"], row["last_slot"])
            one = Bar(row["begin_ns_min"], row["end_ns_max"], row["outcome"], row["error"], row["begin_ns_count"])
            bars[key] = one if key not in bars else bars[key].joined(one)
    lanes: defaultdict[str, list[TransactionalId]] = defaultdict(list)
    for (lane, name), known in sorted(found.items(), key=lambda entry: (entry[0][0], natural(entry[0][1]))):
        lanes[lane].append(_transactional_id(name, known))
    return dict(lanes)


def natural(name: str) -> list[tuple[int, str]]:
    """Orders names as people count: `a-2` before `a-10`."""
    import re

    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def totals(writers: Sequence[TransactionalId]) -> Mapping[str, int]:
    """How many transactions of each outcome these have."""
    return Counter({outcome: sum(one.count(outcome) for one in writers) for outcome in TRANSACTION_OUTCOMES})


def _bars(piece: Any) -> Iterator[dict[str, Any]]:
    """One row per key, with the number of transactions and the extremes of their times."""
    slotted = piece.append_column("first_slot", slot(piece, "begin_ns"))
    slotted = slotted.append_column("last_slot", slot(piece, "end_ns"))
    sums = [("begin_ns", "min"), ("end_ns", "max"), ("begin_ns", "count")]
    yield from slotted.group_by(_KEYS).aggregate(sums).to_pylist()


def _incarnations(piece: Any) -> Iterator[tuple[str, str, int, int]]:
    import pyarrow.compute as pc

    start = pc.coalesce(piece["initialised_ns"], piece["begin_ns"])
    keys = ["lane", "transactional_id", "producer_id"]
    for row in piece.append_column("start", start).group_by(keys).aggregate([("start", "min")]).to_pylist():
        yield row["lane"], row["transactional_id"], row["producer_id"], row["start_min"]


def _transactional_id(name: str, found: _Found) -> TransactionalId:
    return TransactionalId(
        name=name,
        bars=sorted(found.bars.values(), key=lambda bar: bar.begin_ns),
        incarnations=sorted(
            (Incarnation(start, producer_id) for producer_id, start in found.begun.items()),
            key=lambda one: one.start_ns,
        ),
    )
