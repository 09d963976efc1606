"""A partition's log: what its leader appends, where the last stable offset is, what a read_committed consumer is given.

All of this is derived from the log, as a new leader derives it. Append and replication are one step here. A record that
the leader alone has would be read by no consumer and acknowledged to nobody (acks=all), so losing that record is the
same as losing its request. Sources: KIP-98 (markers, last stable offset), KIP-360 and KIP-890 (sequence numbers,
epochs).
"""

from functools import lru_cache
from typing import NamedTuple

from kafka_chaos.reference_model.transactions.rules import Rules
from kafka_chaos.reference_model.transactions.state import ABORT, COMMIT, DATA, NONE, Entry, Log


class Contents(NamedTuple):
    """What a log holds of one producer: its highest `epoch`, how many `records` of that epoch, the numbers of the
    records of its open transaction, and the highest epoch of a coordinator that wrote a marker for it."""

    epoch: int
    records: int
    open_records: tuple[int, ...]
    coordinator_epoch: int


@lru_cache(maxsize=1 << 16)
def contents(log: Log, id: int) -> Contents:
    """What a log holds of the producer with this id, which is all that the leader knows of it."""
    epoch, records, open_records, coordinator_epoch = NONE, 0, [], 0
    for entry in log:
        if entry.id != id:
            continue
        if entry.epoch > epoch:
            epoch, records = entry.epoch, 0
        if entry.kind == DATA:
            records += entry.epoch == epoch  # an older epoch has sequence numbers of its own
            open_records.append(entry.number)
        else:
            coordinator_epoch = max(coordinator_epoch, entry.number)  # a marker's `number` is its coordinator epoch
            open_records = []
    return Contents(epoch, records, tuple(open_records), coordinator_epoch)


def is_fenced(log: Log, id: int, epoch: int, rules: Rules) -> bool:
    """Whether a leader refuses a producer's epoch since its log has a later one (INVALID_PRODUCER_EPOCH)."""
    return rules.leader_fences_producers and epoch < contents(log, id).epoch


def next_sequence(log: Log, id: int, epoch: int) -> int:
    """The sequence number that a leader expects next from a producer; 0 in an epoch that is new to its log."""
    held = contents(log, id)
    return held.records if held.epoch == epoch else 0


def takes_marker(log: Log, marker: Entry, rules: Rules) -> bool:
    """Whether a leader appends a marker. It refuses markers for a fenced producer and from a replaced coordinator
    (TRANSACTION_COORDINATOR_FENCED)."""
    newest_coordinator_epoch = contents(log, marker.id).coordinator_epoch
    is_current = not rules.leader_fences_coordinators or marker.number >= newest_coordinator_epoch
    return is_current and not is_fenced(log, marker.id, marker.epoch, rules)


@lru_cache(maxsize=1 << 16)
def committed(log: Log) -> tuple[int, ...]:
    """The records of committed transactions: those whose producer's next marker is a commit marker."""
    open_records: dict[int, list[int]] = {}
    ended: list[int] = []
    for entry in log:
        if entry.kind == DATA:
            open_records.setdefault(entry.id, []).append(entry.number)
        else:
            records = open_records.pop(entry.id, [])
            if entry.kind == COMMIT:
                ended += records
    return tuple(ended)


@lru_cache(maxsize=1 << 16)
def aborted(log: Log) -> tuple[int, ...]:
    """The records of aborted transactions: those whose producer's next marker is an abort marker."""
    # With commits and aborts exchanged, the aborted records are the committed ones.
    flipped = {COMMIT: ABORT, ABORT: COMMIT, DATA: DATA}
    return committed(tuple(entry._replace(kind=flipped[entry.kind]) for entry in log))


def last_stable_offset(log: Log) -> int:
    """The offset of the first record of an open transaction, or the end of the log."""
    still_open = {number for id in {entry.id for entry in log} for number in contents(log, id).open_records}
    offsets = (offset for offset, entry in enumerate(log) if entry.kind == DATA and entry.number in still_open)
    return next(offsets, len(log))


@lru_cache(maxsize=1 << 16)
def readable_records(log: Log, reads_below_last_stable_offset: bool) -> int:
    """The bit set of the records that a read_committed consumer is given: the committed ones below the last stable
    offset. Without that bound (a rule that tests switch off): all that are not aborted."""
    if reads_below_last_stable_offset:
        end, readable = last_stable_offset(log), set(committed(log))
    else:
        end, readable = len(log), {entry.number for entry in log if entry.kind == DATA} - set(aborted(log))
    mask = 0
    for entry in log[:end]:
        if entry.kind == DATA and entry.number in readable:
            mask |= 1 << entry.number
    return mask
