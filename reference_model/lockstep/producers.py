"""A broker's memory of idempotent producers (KIP-98): the last five batches of each, as in ProducerStateEntry.

A batch here is one record. The memory is kept beside the log, on disk in snapshots. A batch is forgotten when it is
truncated, but not when retention or compaction deletes it.

Left out: `producer.id.expiration.ms`, producer epochs.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_chaos.reference_model.protocol.sequences import MOST_BATCHES, Batch


class ProducerState(NamedTuple):
    """One producer's last batches as (sequence, offset), the oldest first."""

    producer: str
    batches: tuple[tuple[int, int], ...]


class Entry(NamedTuple):
    """A record in a log; `record` is its name. `producer` and `sequence` are None if the producer is not idempotent."""

    offset: int
    record: str
    leader_epoch: int
    producer: str | None = None
    sequence: int | None = None
    key: str | None = None
    tombstone: bool = False


def after_append(states: tuple[ProducerState, ...], entries: Iterable[Entry]) -> tuple[ProducerState, ...]:
    """The memory after `entries` were appended to the log; it keeps the last batches of each producer."""
    memory = {state.producer: state.batches for state in states}
    for entry in entries:
        if entry.producer is not None and entry.sequence is not None:
            batches = (*memory.get(entry.producer, ()), (entry.sequence, entry.offset))
            memory[entry.producer] = batches[-MOST_BATCHES:]
    return tuple(ProducerState(producer, batches) for producer, batches in sorted(memory.items()))


def after_truncation(states: tuple[ProducerState, ...], log: Iterable[Entry], end: int) -> tuple[ProducerState, ...]:
    """The memory after a truncation to `end`, restored from snapshots (here `states`) and what is left of the `log`."""
    memory = {
        state.producer: {(sequence, offset) for sequence, offset in state.batches if offset < end} for state in states
    }
    for entry in log:
        if entry.producer is not None and entry.sequence is not None and entry.offset < end:
            memory.setdefault(entry.producer, set()).add((entry.sequence, entry.offset))
    return tuple(
        ProducerState(producer, tuple(sorted(batches, key=lambda batch: batch[1])[-MOST_BATCHES:]))
        for producer, batches in sorted(memory.items())
        if batches  # else the producer is forgotten
    )


def remembered(states: tuple[ProducerState, ...], producer: str) -> list[Batch]:
    """A producer's remembered batches, as `protocol/sequences.py` takes them; none if the producer is unknown."""
    batches = [batch for state in states if state.producer == producer for batch in state.batches]
    return [Batch(producer_epoch=0, sequence=sequence, offset=offset) for sequence, offset in batches]
