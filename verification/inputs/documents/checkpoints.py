"""The brokers' final state: checkpoints.json with their high watermarks and leader epochs, and groups.json with the
offsets that each group had committed, as it was asked for them.

Guarantee: if a broker reported no high watermark of a partition, it is None, never 0. Earlier versions wrote 0 with a
log that is not empty if a broker had no checkpoint: that becomes None, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kafka_chaos.contract.command.errors import quoted
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.documents.events import Place
from kafka_chaos.verification.inputs.documents.reading import (
    expect,
    is_given,
    is_offset,
    number_named,
    object_in,
    partition_named,
    read_object,
)
from kafka_chaos.verification.inputs.storage import RunPath


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What checkpoints.json says of replicas in the end; `given`: there is such a file; `brokers`: those that it names.

    Per (lane, partition): `chain`, the leader epochs with their start offsets by all replicas that have the newest one;
    `replica_chains`, as each replica has them. Per (lane, partition) and broker: `high_watermarks`, `log_ends`, and
    `sizes`, the first offset of the log and its bytes, each None where it is not told.
    """

    chain: Mapping[Place, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    high_watermarks: Mapping[Place, Mapping[int, int | None]] = field(default_factory=dict)
    given: bool = False
    brokers: frozenset[int] = frozenset()
    log_ends: Mapping[Place, Mapping[int, int | None]] = field(default_factory=dict)
    replica_chains: Mapping[Place, Sequence[tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    sizes: Mapping[Place, Mapping[int, tuple[int | None, int | None]]] = field(default_factory=dict)


def read_checkpoints(path: RunPath, lanes: Sequence[Lane]) -> Checkpoints:
    """The content of a checkpoints.json, if it exists; `RunDirectoryError` names the key at fault."""
    if not is_given(path):
        return Checkpoints()
    brokers = object_in(path, read_object(path), "brokers")
    partitions = {lane.lane: lane.partitions for lane in lanes}
    marks: dict[Place, dict[int, int | None]] = {}
    ends: dict[Place, dict[int, int | None]] = {}
    chains: dict[Place, list[tuple[tuple[int, int], ...]]] = {}
    sizes: dict[Place, dict[int, tuple[int | None, int | None]]] = {}
    for broker, entries in brokers.items():
        number = number_named(path, f"brokers.{broker}", broker, "a broker's number, as in 1 or 10")
        expect(isinstance(entries, dict), path, f"brokers.{broker}", "expected an object of partitions")
        for name, entry in entries.items():
            key = f"brokers.{broker}.{name}"
            place = partition_named(path, key, name, partitions)
            marks.setdefault(place, {})[number], chain = _parsed(path, key, entry)
            ends.setdefault(place, {})[number] = entry.get("log_end_offset")
            sizes.setdefault(place, {})[number] = (entry.get("log_start_offset"), entry.get("log_bytes"))
            chains.setdefault(place, []).append(chain)
    newest = {place: _newest(replicas) for place, replicas in chains.items() if any(replicas)}
    return Checkpoints(newest, marks, True, frozenset(map(int, brokers)), ends, chains, sizes)


def _newest(replicas: Sequence[tuple[tuple[int, int], ...]]) -> tuple[tuple[int, int], ...]:
    """Each leader epoch's least start: a replica that copied a compacted log has an epoch only from what was left."""
    last = max(chain[-1][0] for chain in replicas if chain)
    entries = {entry for chain in replicas if chain and chain[-1][0] == last for entry in chain}
    return tuple(sorted(dict(sorted(entries, reverse=True)).items()))


def _parsed(path: RunPath, key: str, entry: Any) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    expect(isinstance(entry, dict), path, key, f"expected an object of {', '.join(_KEYS)}")
    unknown = next((name for name in entry if name not in _KEYS), None)
    expect(unknown is None, path, f"{key}.{unknown}", f"no such key; they are {', '.join(_KEYS)}")
    for name in _OFFSETS:
        value = entry.get(name)
        expect(value is None or is_offset(value), path, f"{key}.{name}", f"{quoted(value)}, expected an offset or null")
    chain = [] if entry.get("leader_epochs") is None else entry["leader_epochs"]
    pairs = isinstance(chain, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_offset, pair)) for pair in chain
    )
    expect(pairs, path, f"{key}.leader_epochs", f"{quoted(chain)}, expected [[epoch, start_offset], …]")
    ascending = all(one[0] < next_[0] and one[1] <= next_[1] for one, next_ in pairwise(chain))
    expect(ascending, path, f"{key}.leader_epochs", f"{quoted(chain)}, expected ascending epochs and offsets")
    mark, end = entry.get("high_watermark"), entry.get("log_end_offset")
    return (None if mark == 0 and end else mark), tuple((epoch, start) for epoch, start in chain)


_OFFSETS = ("high_watermark", "log_end_offset", "recovery_point", "log_start_offset", "log_bytes")
_KEYS = (*_OFFSETS, "leader_epochs")


CommittedOffsets = Mapping[str, Mapping[int, int]]
"""By group and partition."""


def read_groups(path: RunPath, lanes: Sequence[Lane]) -> CommittedOffsets:
    """The content of a groups.json, if it exists; `RunDirectoryError` names the key at fault."""
    if not is_given(path):
        return {}
    groups = object_in(path, read_object(path), "groups")
    known = {group: reads for lane in lanes for group, reads in lane.groups.items()}
    partitions = {lane.lane: lane.partitions for lane in lanes}
    found: dict[str, dict[int, int]] = {}
    for group, entries in groups.items():
        key = f"groups.{group}"
        expect(group in known, path, key, f"no group of a lane; they are {', '.join(known) or 'none'}")
        expect(isinstance(entries, dict), path, key, "expected an object of partitions")
        for name, offset in entries.items():
            at = f"{key}.{name}"
            lane, number = partition_named(path, at, name, partitions)
            expect(lane == known[group], path, at, f"group {group!r} reads lane {known[group]!r}")
            expect(is_offset(offset), path, at, f"{quoted(offset)}, expected an offset of at least 0")
            found.setdefault(group, {})[number] = offset
    return found
