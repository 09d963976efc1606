"""The documents of a run as the tables that statements read beside those of its rows."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.fault_kinds import faults_of_steps
from kafka_chaos.contract.lane.groups import (
    AFTER,
    AUTO,
    CONSUMER,
    EARLIEST,
    IN_TRANSACTION,
    LATEST,
    Group,
    loop_group_of,
)
from kafka_chaos.contract.lane.lanes import COMPACT, Lane
from kafka_chaos.contract.lane.metadata import release
from kafka_chaos.contract.lane.share import COPIES, DEAD_LETTERS, share_group_of
from kafka_chaos.contract.lane.transactions import READ_COMMITTED
from kafka_chaos.reference_model.protocol.rules import as_obeyed
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.causes import causes_of
from kafka_chaos.verification.judging.known_defects import preconditions

_TEXTS = (
    "lane", "judged", "group", "consumer", "member", "kind", "cause", "fault", "defect", "rule", "transactional_id",
)  # fmt: skip
SCHEMAS: Mapping[str, Mapping[str, str]] = package_toml(__package__, "documents.toml")
"""By table its columns, texts (`_TEXTS`) and whole numbers, with what they mean."""


def tables(run: RunDirectory) -> Mapping[str, pa.Table]:
    """A run's documents as tables, by their names."""
    marks, ends = run.checkpoints.high_watermarks, run.checkpoints.log_ends
    strikes = {name: faults_of_steps(given.steps) for name, given in run.predictions.items() if given.steps}
    elections = [(place, won) for place in run.events.changes for won in run.events.elected(*place)]
    rows: dict[str, Iterable[Sequence[Any]]] = {
        "lanes": [_lane(run, lane) for lane in run.lanes],
        "groups": [
            (lane.lane, group, reads, *map(int, _of_group(run, lane, group, run.lane(reads))))
            for lane in run.lanes
            for group, reads in lane.groups.items()
        ],
        "shares": [
            (
                lane.lane,
                share_group_of(lane.lane),
                lane.share.lock_ms * 1_000_000,
                lane.share.delivery_limit,
                lane.share.lost_deliveries(len(faults)),
                int(lane.share.isolation == READ_COMMITTED),
                int(lane.share.start == EARLIEST),
                DEAD_LETTERS.index(lane.share.dead_letters),
                int(lane.share.dead_letters == COPIES and not (faults or lane.cleanup_policy)),
                len(faults),
            )
            for lane in run.lanes
            for faults in [strikes.get(lane.lane, lane.faults)]
            if lane.share is not None
        ],
        "members": [(*member, begun_ns) for member, begun_ns in run.events.members.items()],
        "final": [(group, *place) for group, places in run.groups.items() for place in places.items()],
        "checkpoints": [
            (*place, broker, mark, ends[place][broker], *run.checkpoints.sizes[place][broker])
            for place, of_brokers in marks.items()
            for broker, mark in of_brokers.items()
        ],
        "chains": [(*place, *entry) for place, newest in run.checkpoints.chain.items() for entry in newest],
        "starts": [
            *((*place, *entry, 0) for place, own in run.checkpoints.replica_chains.items() for entry in chain(*own)),
            *((*place, won.leader_epoch, won.start_offset, 1) for place, won in elections),
        ],
        "elections": [
            (*place, won.broker, won.leader_epoch, int(won.broker in won.isr), len(won.isr)) for place, won in elections
        ],
        "leader_reports": [
            (*place, report.leader_epoch, report.ts_ns, number, report.high_watermark)
            for place, reports in run.events.reports.items()
            for number, report in enumerate(reports)
        ],
        "phases": [
            (lane.lane, phase.started_ns, phase.ended_ns)
            for lane in run.lanes
            for phase in run.events.phases_of(lane.lane).values()
        ],
        "faults": [
            (lane.lane, fault.fault_id, fault.kind, requested_ns, proven_ns, healed_ns)
            for lane in run.lanes
            for fault in run.events.concerning(lane.lane)
            for proven_ns, healed_ns in [(min(fault.proven, default=None), max(fault.healed, default=None))]
            for requested_ns in fault.requested
        ],
        "passing": [(lane, name) for lane, names in run.events.passing.items() for name in names],
        "preconditions": list(preconditions(run)),
        "explanations": _explanations(run),
    }
    return {name: _table(list(columns), rows[name]) for name, columns in SCHEMAS.items()}


def _lane(run: RunDirectory, lane: Lane) -> Sequence[Any]:
    transactional, phases = lane.transactional, run.events.phases_of(lane.lane).values()
    # By a clock that was moved, a broker may have removed any tombstone.
    kept_ms = lane.delete_retention_ms if run.events.knows_times(lane.lane) else 0
    # What is below a high watermark stays: elections are clean, no power is lost, and logs are cut by epoch (KIP-101).
    kinds = {*lane.faults, *(kind for fault in run.events.concerning(lane.lane) for kind in fault.counts_as)}
    is_clean = release(lane.version) >= (0, 11) and not as_obeyed(lane).unclean_leader_election
    return (
        lane.lane,
        lane.partitions,
        lane.replication_factor,
        int(run.has_log),
        int(run.has("replicas")),
        int(lane.cleanup_policy is not None),
        int(lane.idempotence),
        int(transactional is not None),
        None if transactional is None else min(transactional.timeout_ms, 2**31),
        None if transactional is None else transactional.producers,
        int(lane.loop is not None),
        max((fault.healed[-1] for fault in run.events.concerning(lane.lane) if fault.healed), default=0),
        int(lane.lane in run.timings),
        int(run.is_planned),
        run.events.begun_ns if run.is_planned else None,
        max((phase.ended_ns for phase in phases if phase.ended_ns is not None), default=None),
        int(is_clean and "power-loss" not in kinds),
        int(lane.acks == "0"),
        secrets.randbits(62),
        lane.retention_bytes,
        int(lane.cleanup_policy == COMPACT),
        None if not run.is_planned or run.events.last_ns is None else run.events.last_ns - kept_ms * 1_000_000,
    )


def _of_group(run: RunDirectory, lane: Lane, group: str, source: Lane) -> tuple[bool, ...]:
    """What `groups` says of a lane's group, from `is_loop` on. The topics and groups of a planned run are new."""
    loop = lane.loop if group == loop_group_of(lane.lane) else None
    settings = (lane.group if loop is None else loop.group) or Group()
    commits = settings.commits if loop is None else loop.offsets
    is_kept = source.cleanup_policy is None
    how = loop is not None, commits == IN_TRANSACTION, commits == AUTO, commits in (AFTER, IN_TRANSACTION)
    is_whole = is_kept and run.is_planned and settings.reset == EARLIEST
    at_end = settings.reset == LATEST and is_kept and commits == AFTER
    return *how, source.transactional is not None or not is_kept, is_whole, settings.protocol == CONSUMER, at_end


def _explanations(run: RunDirectory) -> Iterable[Sequence[Any]]:
    for causes in causes_of(run):
        place = (causes.lane, causes.partition)
        for number, drop in enumerate(causes.drops):
            yield *place, "drop", number, drop.first, drop.end, None, drop.until_ns, None, drop.cause
        for kind, spans in (("send", causes.sends), ("retry", causes.retries)):
            for number, span in enumerate(spans):
                yield *place, kind, number, None, None, span.since_ns, span.until_ns, span.within_ns, span.cause


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> pa.Table:
    # Past 2^62, a number is as far as for ever: sums stay within 64 bits.
    bounded = ([max(-(2**62), min(one, 2**62)) if isinstance(one, int) else one for one in row] for row in rows)
    columns = list(zip(*bounded, strict=True)) or [()] * len(names)
    types = [pa.string() if name in _TEXTS else pa.int64() for name in names]
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, types, strict=True)})
