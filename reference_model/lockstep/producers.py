"""What a broker remembers of idempotent producers (KIP-98): the last five batches of each, as ProducerStateEntry does.

A batch here is one record. The memory is kept beside the log, goes with what is truncated, and outlives what
retention or compaction deletes: on disk, snapshots hold it. A producer that a broker knows nothing of may begin
with any sequence number (KIP-360).

Left out: `producer.id.expiration.ms`, producer epochs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

CACHED_BATCHES = 5


class ProducerState(NamedTuple):
    """One producer's last batches as (sequence, offset), the oldest first."""

    producer: str
    batches: tuple[tuple[int, int], ...]


class Sequenced(Protocol):
    """What an entry of a log says of its producer."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def producer(self) -> str | None:
        """The idempotent producer that sent it, or None."""

    @property
    def sequence(self) -> int | None:
        """Its sequence number, or None."""


def after_append(states: tuple[ProducerState, ...], entries: Iterable[Sequenced]) -> tuple[ProducerState, ...]:
    """The memory with appended entries, only the last batches of each producer kept."""
    known = {state.producer: state.batches for state in states}
    for entry in entries:
        if entry.producer is not None and entry.sequence is not None:
            batches = (*known.get(entry.producer, ()), (entry.sequence, entry.offset))
            known[entry.producer] = batches[-CACHED_BATCHES:]
    return tuple(ProducerState(producer, batches) for producer, batches in sorted(known.items()))


def after_truncation(
    states: tuple[ProducerState, ...], log: Iterable[Sequenced], end: int
) -> tuple[ProducerState, ...]:
    """The memory as snapshots and the log below `end` give it back; producers with nothing left are forgotten."""
    kept: dict[str, set[tuple[int, int]]] = {}
    for state in states:
        kept.setdefault(state.producer, set()).update(batch for batch in state.batches if batch[1] < end)
    for entry in log:
        if entry.producer is not None and entry.sequence is not None and entry.offset < end:
            kept.setdefault(entry.producer, set()).add((entry.sequence, entry.offset))
    return tuple(
        ProducerState(producer, tuple(sorted(batches, key=lambda batch: batch[1])[-CACHED_BATCHES:]))
        for producer, batches in sorted(kept.items())
        if batches
    )


def cached_offset(states: tuple[ProducerState, ...], producer: str, sequence: int | None) -> int | None:
    """The offset of a batch that is still remembered, or None."""
    return next((o for state in states if state.producer == producer for s, o in state.batches if s == sequence), None)


def last_sequence(states: tuple[ProducerState, ...], producer: str) -> int | None:
    """The sequence number of a producer's last batch, or None for an unknown producer."""
    return next((state.batches[-1][0] for state in states if state.producer == producer), None)
