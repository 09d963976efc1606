"""The documents of a run, as rows of the views that relations are evaluated on."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka_chaos.contract.lane.groups import AFTER, AUTO, BEFORE, IN_TRANSACTION, group_of
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import USUAL_VERSION, release
from kafka_chaos.reference_model.protocol.rules import as_obeyed
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory

Rows = Collection[Sequence[Any]]


def documents(run: RunDirectory) -> Mapping[str, Rows]:
    """The views of documents (`relations.VIEWS`)."""
    groups = [
        (group, reads, lane.lane, *_how(lane, group), int(_has_gaps(run.lane(reads))))
        for lane in run.lanes
        for group, reads in groups_of_lane(lane).items()
    ]
    reads = {group: lane for group, lane, *_ in groups}
    elections = [(place, won) for place in run.events.changes for won in run.events.elected(*place)]
    return {
        "lanes": [
            (
                lane.lane,
                int(lane.transactional is not None),
                int(lane.loop is not None),
                int(lane.idempotence),
                lane.transactional.producers if lane.transactional is not None else None,
                int(lane.cleanup_policy is not None),
                int(run.is_planned),
                int(is_lossless(run, lane)),
                lane.replication_factor,
                run.events.begun_ns if run.is_planned else None,
            )
            for lane in run.lanes
        ],
        "groups": groups,
        "final": [
            (group, reads[group], partition, offset)
            for group, places in run.groups.items()
            for partition, offset in places.items()
        ],
        "checkpoints": [
            (*place, broker, mark, run.checkpoints.log_ends[place][broker])
            for place, marks in run.checkpoints.high_watermarks.items()
            for broker, mark in marks.items()
        ],
        "chains": [(*place, *entry) for place, chain in run.checkpoints.epochs.items() for entry in chain],
        "starts": [
            *((*place, *entry, 0) for place, chains in run.checkpoints.chains.items() for of in chains for entry in of),
            *((*place, won.leader_epoch, won.start_offset, 1) for place, won in elections),
        ],
        "elections": [
            (*place, won.broker, won.leader_epoch, int(won.broker in won.isr), len(won.isr)) for place, won in elections
        ],
        "phases": [
            (lane.lane, phase.started_ns, phase.ended_ns)
            for lane in run.lanes
            for phase in run.events.phases_of(lane.lane).values()
        ],
        "reports": _reports(run),
        "faults": [
            (
                lane.lane,
                fault.fault_id,
                fault.kind,
                requested_ns,
                min(fault.proven, default=None),
                max(fault.healed, default=None),
            )
            for lane in run.lanes
            for fault in run.events.concerning(lane.lane)
            for requested_ns in fault.requested
        ],
    }


def _reports(run: RunDirectory) -> Rows:
    """The highest report of each partition in each leader epoch."""
    found: dict[tuple[str, int, int], int] = {}
    for place, reports in run.events.reports.items():
        for one in reports:
            key = (*place, one.leader_epoch)
            found[key] = max(one.high_watermark, found.get(key, 0))
    return [(*key, highest) for key, highest in found.items()]


def _how(lane: Lane, group: str) -> tuple[int, int, int]:
    """Whether the lane's group commits in transactions, whether its clients commit by themselves, or after reading."""
    if lane.group is not None and group == group_of(lane.lane):
        return 0, int(lane.group.commits == AUTO), int(lane.group.commits == AFTER)
    offsets = BEFORE if lane.loop is None else lane.loop.offsets
    return int(offsets == IN_TRANSACTION), 0, int(offsets != BEFORE)


def _has_gaps(lane: Lane) -> bool:
    """Whether the offset after a record's need not be the next record's."""
    return lane.transactional is not None or lane.cleanup_policy is not None


def bounds(run: RunDirectory, logged: Rows, held: Rows) -> Mapping[tuple[str, int], int]:
    """By lane and partition the offset below which log and replicas are compared.

    Some broker knows what is below it to be committed; without checkpoints.json, every replica or the log has it.
    `logged`: lane, partition and last offset. `held`: the same of each broker's replica.
    """
    lowest: dict[tuple[str, int], int] = {}
    for lane, partition, last in held:
        lowest[lane, partition] = min(last + 1, lowest.get((lane, partition), last + 1))
    for lane, partition, last in logged:
        lowest[lane, partition] = max(last + 1, lowest.get((lane, partition), 0))
    return {**lowest, **limits(run)}


def limits(run: RunDirectory) -> Mapping[tuple[str, int], int]:
    """By lane and partition the offset below which some broker knows the log to be committed, if one says."""
    marks = {
        place: [mark for mark in of_brokers.values() if mark is not None]
        for place, of_brokers in run.checkpoints.high_watermarks.items()
    }
    return {place: max(known) for place, known in marks.items() if known}


def is_lossless(run: RunDirectory, lane: Lane) -> bool:
    """Whether what is below a high watermark stays: elections are clean, no power is lost, and followers truncate to
    the start of a leader epoch (KIP-101)."""
    kinds = {*lane.faults, *(kind for fault in run.events.concerning(lane.lane) for kind in fault.counts_as)}
    is_truncated_by_epoch = release(lane.kafka_version or USUAL_VERSION) >= (0, 11)
    return is_truncated_by_epoch and not as_obeyed(lane).unclean_leader_election and "power-loss" not in kinds
