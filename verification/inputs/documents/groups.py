"""groups.json: the offsets that each group had committed in the end, as it was asked for them.

Guarantee: a partition that the file does not name is absent, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_chaos.contract.errors import quoted
from kafka_chaos.contract.groups import group_of, loop_group_of
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.reading import expect, is_given, is_offset, partition_named, read_json
from kafka_chaos.verification.inputs.file_systems.storage import RunPath

CommittedOffsets = Mapping[str, Mapping[int, int]]
"""By group and partition."""


def groups_of_lane(lane: Lane) -> dict[str, str]:
    """The groups of a lane, each with the lane that it reads: that of a loop reads its source."""
    own = {} if lane.group is None else {group_of(lane.lane): lane.lane}
    return own if lane.loop is None else {**own, loop_group_of(lane.lane): lane.loop.source}


def read_groups(path: RunPath, lanes: Sequence[Lane]) -> CommittedOffsets:
    """The content of a groups.json, if it exists; `RunDirectoryError` names the key at fault."""
    if not is_given(path):
        return {}
    document = read_json(path)
    groups = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(groups, dict):
        raise RunDirectoryError(path, "expected an object of groups", column="groups")
    known = {group: reads for lane in lanes for group, reads in groups_of_lane(lane).items()}
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
