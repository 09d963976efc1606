"""The documents of a run as the tables that statements read beside those of its rows."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kafka_chaos.contract.lane.groups import group_of
from kafka_chaos.verification.inputs.documents.checkpoints import groups_of_lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.causes import causes_of
from kafka_chaos.verification.transactions.evidence import healed_ns

_TEXTS = ("lane", "judged", "group", "consumer", "kind", "cause")
_SCHEMAS = {
    "lanes": "lane, final_log, has_replicas, cleaned, idempotent, timeout_ms, healed_ns, loop, timed, partitions, salt",
    "groups": "judged, group, lane, is_loop",
    "final": "group, partition, offset",
    "checkpoints": "lane, partition, broker, high_watermark",
    "leader_reports": "lane, partition, leader_epoch, ts_ns, number, high_watermark",
    "passing": "lane, consumer",
    "explanations": "lane, partition, kind, number, first, end, since_ns, until_ns, within_ns, cause",
}
"""The columns of each table: texts (`_TEXTS`), and whole numbers; what is or is not so is 1 or 0.

`lanes`: `timeout_ms` of transactions, null without any; `healed_ns`: when the last fault was healed; `timed`: whether
its bounds of recovery are known; `salt`: drawn anew, so that nobody can foresee a hash. `groups`: `judged`, the lane
that the group belongs to, `lane`, the one that it reads. `explanations`: what may explain a case, see
`judging.causes.PartitionCauses`; `number`: the best ones first.
"""


def tables(run: RunDirectory) -> Mapping[str, pa.Table]:
    """The tables by their names."""
    groups = [(lane.lane, group, reads) for lane in run.lanes for group, reads in groups_of_lane(lane).items()]
    loops = {lane.lane for lane in run.lanes if lane.loop is not None}
    own = {lane.lane: group_of(lane.lane) for lane in run.lanes if lane.group is not None}
    rows: dict[str, Iterable[Sequence[Any]]] = {
        "lanes": [
            (
                lane.lane,
                int(run.has_log),
                int(run.has("replicas")),
                int(lane.cleanup_policy is not None),
                int(lane.idempotence),
                None if lane.transactional is None else lane.transactional.timeout_ms,
                healed_ns(run, lane),
                int(lane.loop is not None),
                int(lane.lane in run.timings),
                lane.partitions,
                secrets.randbits(62),
            )
            for lane in run.lanes
        ],
        "groups": [
            (judged, group, reads, int(judged in loops and group != own.get(judged))) for judged, group, reads in groups
        ],
        "final": [(group, *place) for group, places in run.groups.items() for place in places.items()],
        "checkpoints": [
            (*place, broker, mark)
            for place, marks in run.checkpoints.high_watermarks.items()
            for broker, mark in marks.items()
        ],
        "leader_reports": [
            (*place, report.leader_epoch, report.ts_ns, number, report.high_watermark)
            for place, reports in run.events.reports.items()
            for number, report in enumerate(reports)
        ],
        "passing": [(lane, name) for lane, names in run.events.passing.items() for name in names],
        "explanations": _explanations(run),
    }
    return {name: _table(columns.split(", "), rows[name]) for name, columns in _SCHEMAS.items()}


def _explanations(run: RunDirectory) -> Iterable[Sequence[Any]]:
    for causes in causes_of(run):
        place = (causes.lane, causes.partition)
        for number, drop in enumerate(causes.drops):
            yield *place, "drop", number, drop.first, drop.end, None, drop.until_ns, None, drop.cause
        for kind, spans in (("send", causes.sends), ("retry", causes.retries)):
            for number, span in enumerate(spans):
                yield *place, kind, number, None, None, span.since_ns, span.until_ns, span.within_ns, span.cause


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    types = [pa.string() if name in _TEXTS else pa.int64() for name in names]
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, types, strict=True)})
