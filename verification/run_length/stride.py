"""Estimates from a small sample of a run's tables at which stride a lane's records advance from offset to offset. No
Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql import DataFrame

from kafka_chaos.verification.inputs.parquet import first_rows
from kafka_chaos.verification.inputs.run_directory import RunDirectory

WORTH_IT = 0.75
"""Share of neighbouring records that must advance at their lane's stride."""


class Sampled(NamedTuple):
    """A row of the sample: `value` is to advance along the offsets of a `chain` (a producer, a consumer)."""

    lane: str
    chain: str | int
    partition: int
    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class Stride:
    """How a lane's records advance from offset to offset: `stride` in seqs (at least 1), `tick` in poll times (ns)."""

    stride: int = 1
    tick: int = 1


def strides(stored: Iterable[Sampled], read: Iterable[Sampled]) -> dict[str, Stride] | None:
    """Each lane's stride, from samples of LOG (seqs by producer) and of CONSUMED (poll times by consumer).

    None if the history does not form runs. The empty name has the usual stride, for lanes that are not in the sample.
    """
    seqs, polls = steps_of_lanes(stored), steps_of_lanes(read)
    if not (seqs or polls) or not (_advance_in_step(seqs) and _advance_in_step(polls)):
        return None
    ticks = usual_steps(polls)
    numbers = usual_steps(seqs)
    known = {lane: Stride(max(1, numbers.get(lane, 1)), max(0, ticks.get(lane, 0))) for lane in {**numbers, **ticks}}
    usual = Counter(known.values()).most_common(1)
    return {**known, "": usual[0][0] if usual else Stride()}


def usual_steps(steps: Mapping[str, Counter[int | None]]) -> dict[str, int]:
    """By lane, the step that is most frequent between neighbours; lanes without neighbours are absent."""
    found = {}
    for lane, counted in steps.items():
        regular = [(count, -step) for step, count in counted.items() if step is not None]
        if regular:
            found[lane] = -max(regular)[1]
    return found


def steps_of_lanes(rows: Iterable[Sampled]) -> dict[str, Counter[int | None]]:
    """By lane, how often `value` grows by which step from one offset to the next; None where the next is missing."""
    chains: dict[tuple[str, str | int, int], list[tuple[int, int]]] = {}
    for row in rows:
        chains.setdefault(row[:3], []).append((row.offset, row.value))
    found: dict[str, Counter[int | None]] = {}
    for (lane, _, _), places in chains.items():
        counted = found.setdefault(lane, Counter())
        counted[None] += 1
        for (offset, value), (next_offset, next_value) in pairwise(sorted(places)):
            counted[next_value - value if next_offset - offset == 1 else None] += 1
    return found


def _advance_in_step(steps: Mapping[str, Counter[int | None]]) -> bool:
    usual = usual_steps(steps)
    regular = sum(counted[usual[lane]] for lane, counted in steps.items() if lane in usual)
    return regular >= WORTH_IT * sum(counted.total() for counted in steps.values())


SAMPLED_FILES, SAMPLED_ROWS = 8, 2048


def stored_sample(run: RunDirectory, log: DataFrame) -> Iterator[Sampled]:
    """Rows of the log: seqs by producer."""
    return _sample(run, "log", log, ("lane", "producer_id", "partition", "offset", "seq"))


def read_sample(run: RunDirectory, consumed: DataFrame) -> Iterator[Sampled]:
    """Rows of consumed/: poll times by consumer."""
    return _sample(run, "consumed", consumed, ("lane", "consumer", "partition", "offset", "poll_ns"))


def _sample(run: RunDirectory, name: str, table: DataFrame, columns: tuple[str, ...]) -> Iterator[Sampled]:
    """The first rows of a few files, or of a table that does not come from files, as lane, chain, place and value."""
    files = run.tables[name].files
    if not files:
        yield from (Sampled(*row) for row in table.select(*columns).limit(SAMPLED_FILES * SAMPLED_ROWS).collect())
        return
    few = min(len(files), SAMPLED_FILES)
    for index in range(few):
        yield from (Sampled(*row) for row in first_rows(files[index * len(files) // few], columns, SAMPLED_ROWS))
