"""checkpoints.json: each broker's high watermarks and leader epochs.

Guarantee: if a broker reported no high watermark of a partition, it is None, never 0. Earlier versions wrote 0 with a
log that is not empty if a broker had no checkpoint: that becomes None, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.reading import expect, read_json
from kafka_chaos.verification.inputs.file_systems.storage import RunPath

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """`epochs`: per (lane, partition) the final chain of (leader epoch, start offset), of the replica with the newest
    epoch. `high_watermarks`: per (lane, partition) and broker. `given`: whether there is a checkpoints.json.
    """

    epochs: Mapping[Place, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    high_watermarks: Mapping[Place, Mapping[int, int | None]] = field(default_factory=dict)
    given: bool = False


def read_checkpoints(path: RunPath, lanes: Sequence[Lane]) -> Checkpoints:
    """The content of a checkpoints.json, if it exists; `RunDirectoryError` names the key at fault."""
    if not path.exists():
        return Checkpoints()
    document = read_json(path)
    brokers = document.get("brokers") if isinstance(document, dict) else None
    if not isinstance(brokers, dict):
        raise RunDirectoryError(path, "expected an object of brokers", column="brokers")
    partitions = {lane.lane: lane.partitions for lane in lanes}
    epochs: dict[Place, tuple[tuple[int, int], ...]] = {}
    marks: dict[Place, dict[int, int | None]] = {}
    for broker, entries in brokers.items():
        expect(broker.isdecimal(), path, f"brokers.{broker}", "expected a broker's number")
        expect(isinstance(entries, dict), path, f"brokers.{broker}", "expected an object of partitions")
        for name, entry in entries.items():
            key = f"brokers.{broker}.{name}"
            lane, _, partition = name.rpartition("/")
            expect(bool(lane) and partition.isdecimal(), path, key, "expected '<lane>/<partition>'")
            expect(lane in partitions, path, key, f"lane {lane!r} is not in lanes.json")
            expect(int(partition) < partitions[lane], path, key, f"lane {lane!r} has {partitions[lane]} partitions")
            place = (lane, int(partition))
            marks.setdefault(place, {})[int(broker)], chain = _parsed(path, key, entry)
            if chain and (place not in epochs or chain[-1][0] > epochs[place][-1][0]):
                epochs[place] = chain
    return Checkpoints(epochs, marks, True)


def _parsed(path: RunPath, key: str, entry: Any) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    try:
        mark, end = (None if entry.get(name) is None else int(entry[name]) for name in _NUMBERS)
        chain = tuple((int(epoch), int(start)) for epoch, start in entry.get("leader_epochs") or ())
    except (TypeError, ValueError, AttributeError) as error:
        problem = f"expected high_watermark and leader_epochs [[epoch, start_offset], …] ({error!r})"
        raise RunDirectoryError(path, problem, column=key) from error
    return (None if mark == 0 and end else mark), chain


_NUMBERS = ("high_watermark", "log_end_offset")
