"""What the documents of a run say, as rows of the views that relations are evaluated on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_chaos.contract.groups import AUTO, IN_TRANSACTION, group_of
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.replicas import limit_of

Rows = Sequence[Sequence[Any]]


def documents(run: RunDirectory) -> Mapping[str, Rows]:
    """The views of documents (`relations.VIEWS`)."""
    groups = [
        (group, reads, lane.lane, *_how(lane, group))
        for lane in run.lanes
        for group, reads in groups_of_lane(lane).items()
    ]
    reads = {group: lane for group, lane, *_ in groups}
    return {
        "lanes": [(lane.lane, int(lane.transactional is not None), int(lane.loop is not None)) for lane in run.lanes],
        "groups": groups,
        "final": [
            (group, reads[group], partition, offset)
            for group, places in run.groups.items()
            for partition, offset in places.items()
        ],
        "phases": [
            (lane.lane, phase.started_ns, phase.ended_ns)
            for lane in run.lanes
            for phase in run.events.phases.values()
            if phase.lanes is None or lane.lane in phase.lanes
        ],
        "faults": [
            (lane.lane, fault.fault_id, requested_ns)
            for lane in run.lanes
            for fault in run.events.concerning(lane.lane)
            for requested_ns in fault.requested
        ],
    }


def _how(lane: Lane, group: str) -> tuple[int, int]:
    """Whether the lane's group commits in transactions, and whether its clients commit by themselves."""
    if lane.group is not None and group == group_of(lane.lane):
        return 0, int(lane.group.commits == AUTO)
    return int(lane.loop is not None and lane.loop.offsets == IN_TRANSACTION), 0


def limits(run: RunDirectory) -> Mapping[tuple[str, int], int]:
    """By lane and partition the offset below which every broker knows the log to be committed, if they say."""
    marks = run.checkpoints.high_watermarks
    known = {place: limit_of({}, of_brokers) for place, of_brokers in marks.items()}
    return {place: limit for place, limit in known.items() if limit is not None}
