"""Fills the template of the report's page with everything that it shows.

Guarantee: the page is one self-contained file below `LIMIT`. If not everything fits, the page shows less detail and
says so. Every text from the run is escaped. The page finds one cause by itself, from the elections: that a new leader
assigned offsets again. It takes all other causes from the verification, and says where no cause is recorded.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from markupsafe import Markup

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.events import LeaderElected, LogTruncated
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, ANOMALIES_WITH_CAUSE, Cause
from kafka_chaos.contract.run_directory import TRACE_FILE
from kafka_chaos.harness.report import ledger, matrix
from kafka_chaos.harness.report.inputs.cases import MOST_ROWS
from kafka_chaos.harness.report.inputs.evidence import Evidence, as_dict
from kafka_chaos.harness.report.inputs.series import GRAIN_NS, FindingRange, LaneSeries, Series
from kafka_chaos.harness.report.inputs.trace import hit_requests, read_trace
from kafka_chaos.harness.report.pages import environment, join, label, lateness, shapes, static
from kafka_chaos.harness.report.stories import stories_of
from kafka_chaos.harness.report.svg import Scale, count_ticks, duration, run_time
from kafka_chaos.harness.report.timeline.charts import Detail, draw_charts
from kafka_chaos.harness.report.timeline.events import FaultSpan, Timeline
from kafka_chaos.harness.report.timeline.frame import kind_class, patterns, style_sheet

LEFT, RIGHT = 150, 992
"""The ends of the axis of offsets in a panel, in pixels."""
LIMIT = 2_000_000  # bytes: a report is smaller
MOST_REQUESTS = 6  # the most requests hit by faults that a report shows, each with its neighbours
_WORST_FIRST = (Verdict.VIOLATION, Verdict.UNKNOWN, Verdict.CONFORMS)
LEVELS = (
    Detail(charts=40, partitions=3, activity=12, panels=40, lines=8, findings=30, events=60, rows=400, text=60_000),
    Detail(charts=12, partitions=1, activity=6, panels=12, lines=4, findings=12, events=20, rows=200, text=20_000),
    Detail(charts=4, partitions=1, activity=3, panels=4, lines=2, findings=4, events=5, rows=60, text=4_000),
    Detail(charts=0, partitions=0, activity=0, panels=0, lines=0, findings=0, events=0, rows=30, text=0),
)
"""How much a page may show. A page that exceeds `LIMIT` at one level is written at the next."""


@dataclass(frozen=True)
class Panel:
    """The findings of one partition of a lane, or, where records have no offsets, of one producer's sequence.

    `lines`: the table under the picture, with anomaly, place, count and cause of the largest ranges of findings.
    `total`: the number of all ranges.
    """

    title: str
    picture: Markup
    lines: Sequence[tuple[str, str, int, str]]
    total: int


def panels(series: Series, timeline: Timeline, *, lines: int, most: int) -> dict[str, list[Panel]]:
    """By lane, the panels of partitions with findings: at most `most` panels, each with at most `lines` table lines."""
    groups: dict[tuple[str, int | None, int | None], list[FindingRange]] = {}
    for finding in series.ranges:
        if finding.anomaly in ALL_ANOMALIES:
            partition = None if finding.by_sequence else finding.partition
            groups.setdefault((finding.lane, partition, finding.producer_id), []).append(finding)
    order = [anomaly.value for anomaly in ALL_ANOMALIES]
    shown: dict[str, list[Panel]] = {}
    for number, ((lane, partition, producer), ranges) in enumerate(islice(groups.items(), most)):
        if producer is not None:
            title = f"producer {producer}, by sequence number"
        else:
            title = f"partition {partition}, by offset" if partition is not None else "partition not known, by offset"
        known_partition = partition if partition is not None else -1  # nothing happened in a partition -1
        elections = timeline.elections.get(lane, {}).get(known_partition, ())
        elections = sorted(elections, key=lambda election: election.leader_epoch)
        truncations = timeline.truncations.get(lane, {}).get(known_partition, ())
        end = series.ends.get((lane, known_partition))
        largest = sorted(ranges, key=lambda finding: -finding.count)[:lines]
        listed = sorted(largest, key=lambda finding: (order.index(finding.anomaly), finding.first))
        panel = Panel(
            title=title,
            picture=_draw(f"{lane}, {title}", ranges, elections, truncations, end, number),
            lines=[
                (label(finding.anomaly), finding.where, finding.count, cause(finding, elections)) for finding in listed
            ],
            total=len(ranges),
        )
        shown.setdefault(lane, []).append(panel)
    return shown


def cause(finding: FindingRange, elections: Sequence[LeaderElected]) -> str:
    """The recorded cause of a range's first case, after the election, if any, that let offsets be assigned again."""
    # The last election whose epoch begins at or before the range; of several epochs at one offset, the first.
    leader = max(
        (election for election in elections if election.leader_epoch > 0 and election.start_offset <= finding.first),
        key=lambda election: (election.start_offset, -election.leader_epoch),
        default=None,
    )
    recorded = f"first case: {finding.cause}." if finding.cause else "for the first case, no cause is recorded."
    if finding.anomaly == Anomaly.INCONSISTENT_OFFSET and leader is not None and not finding.by_sequence:
        assigned = f"broker {leader.broker} assigned the offsets again in leader epoch {leader.leader_epoch}"
        return f"From offset {leader.start_offset:,} on, {assigned}; {recorded}"
    return recorded[0].upper() + recorded[1:]


def _draw(
    name: str,
    ranges: Sequence[FindingRange],
    elections: Sequence[LeaderElected],
    truncations: Sequence[LogTruncated],
    end: int | None,
    number: int,
) -> Markup:
    """A panel's picture: findings, elections and truncations on an axis of offsets. `number` makes its ids unique."""
    starts = [election.start_offset for election in elections]
    high = max([end or 0, *starts, *(finding.last for finding in ranges)]) + 1
    x = Scale(0, high, LEFT, RIGHT)
    by_anomaly = [(anomaly, [finding for finding in ranges if finding.anomaly == anomaly]) for anomaly in ALL_ANOMALIES]
    epochs = [
        f"epoch {election.leader_epoch} of broker {election.broker} from {election.start_offset:,}"
        for election in elections[:10]
    ]
    cuts = [f"broker {cut.broker} truncated to {cut.offset:,}" for cut in truncations[:10]]
    sentences = [finding.words for finding in ranges[:10]] + [join(texts) for texts in (epochs, cuts) if texts]
    drawn: str = shapes("offsets").offsets(
        x,
        [(anomaly, findings) for anomaly, findings in by_anomaly if findings],
        elections,
        end,
        truncations,
        [(x(tick), f"{tick:,}") for tick in count_ticks(high)],
        f"offsets-{number}",
        name,
        "; ".join(sentences),
    )
    return Markup(drawn.strip())


def render(evidence: Evidence, timeline: Timeline, series: Series) -> str:
    """The page with as much detail as stays below `LIMIT`: `LEVELS` are tried from the most detail to none."""
    template = environment().get_template("report.html.j2")
    rows = sorted(matrix.rows(evidence), key=lambda row: _WORST_FIRST.index(row.verdict))
    cells = [(row.lane, cell) for row in rows for cell in row.cells]
    cells.sort(key=lambda lane_and_cell: lane_and_cell[1].state == "confirmed")
    # Only connections that pass links are traced.
    requests = read_trace(evidence.path) if (evidence.path / TRACE_FILE).is_file() else []
    stories = stories_of(cells, evidence, timeline, series.ranges, requests, LEVELS[0].findings)
    page = ""
    for detail in LEVELS:
        findings = stories[: detail.findings]
        page = template.render(
            **_context(evidence, timeline, series, detail),
            told_cells={(lane, cell.anomaly) for lane, cell, _ in findings},
            findings_left_out=sum(bool(cell.count) for _, cell in cells) - len(findings),
            requests=hit_requests(requests, MOST_REQUESTS),
            findings=findings,
            duration=duration,
            most_rows=MOST_ROWS,
            quote=shlex.quote,
        )
        if len(page.encode()) < LIMIT:
            return page
    raise AssertionError(f"a page without details takes {len(page):,} characters")


def _context(evidence: Evidence, timeline: Timeline, series: Series, detail: Detail) -> dict[str, Any]:
    all_rows = matrix.rows(evidence)
    # If not all lanes can be shown, those with a violation come first, and those that conform last.
    kept = {row.lane for row in sorted(all_rows, key=lambda row: _WORST_FIRST.index(row.verdict))[: detail.rows]}
    table = [row for row in all_rows if row.lane in kept]
    phases = [
        (phase, [row for row in table if timeline.phase_of(row.lane) is phase]) for phase in (*timeline.phases, None)
    ]
    named_phases = [(phase.name if phase else "other lanes", members) for phase, members in phases if members]
    return {
        "style": Markup(static("report.css")) + style_sheet(),
        "script": Markup(static("report.js")),
        "evidence": evidence,
        "verdict": evidence.verdict,
        "all_rows": all_rows,
        "timeline": timeline,
        "confirmations": matrix.confirmations(all_rows),
        "safe_lanes": matrix.safe_lanes(all_rows),
        "reasons": [(row.lane, reason) for row in table for reason in row.reasons][:60],
        "table": table,
        "phases": named_phases,
        "anomalies": matrix.columns(all_rows),
        "states": matrix.STATES,
        "notable": matrix.notable_anomalies(all_rows),
        "quiet_columns": matrix.quiet_columns(all_rows),
        "clients": {name: lane["client"] for name, lane in evidence.lanes.items() if lane.get("client")},
        "summaries": {row.lane: _summary(row, evidence, series) for row in table},
        "phase_and_verdict": {row.lane: (name, row.verdict) for name, members in named_phases for row in members},
        "ledger": ledger.ledger_of(evidence),
        "ledger_columns": ledger.COLUMNS,
        "charts": draw_charts(table, timeline, series, detail),
        "faults": [(fault, _fault_times(fault, timeline)) for fault in timeline.faults[: detail.events]],
        "panels": panels(series, timeline, lines=detail.lines, most=detail.panels),
        "panel_count": len({(finding.lane, finding.partition, finding.producer_id) for finding in series.ranges}),
        "detail": detail,
        "series": series,
        "paths": _model_paths(table, evidence)[: max(10, detail.rows // 4)],
        "configurations": [
            (name, matrix.settings(lane), lane) for name, lane in evidence.lanes.items() if name in kept
        ],
        "versions": as_dict(evidence.recorded.get("versions")),
        "cluster": as_dict(evidence.experiment.get("cluster")),
        "workloads": _workloads(evidence),
        "experiment_text": evidence.experiment_text[: detail.text],
        "commands": _commands(evidence),
        "kind_class": kind_class,
        "fault_patterns": patterns(),
    }


def _summary(row: matrix.Row, evidence: Evidence, series: Series) -> dict[str, str]:
    """A lane's counts in words, by name: `not recorded` or `not known` where the run lacks a count."""
    entry = evidence.judged[row.lane]
    work = as_dict(entry.get("work"))
    errors = [f"{name} {count:,}" for counts in as_dict(work.get("errors")).values() for name, count in counts.items()]
    over_time = series.lanes.get(row.lane)
    return {
        "longest gap": _longest_gap(over_time),
        "asked": "not known" if (asked := work.get("asked")) is None else f"{int(asked):,}",
        "produced": f"{int(entry.get('produced') or 0):,}",
        "acknowledged": f"{int(entry.get('acknowledged') or 0):,}",
        "without a cause": _without_cause(as_dict(entry.get("anomalies"))),
        "errors": ", ".join(errors),
        "others": f"{over_time.total('fail'):,} / {over_time.total('info'):,}" if over_time else "not recorded",
    }


def _without_cause(anomalies: Mapping[str, Any]) -> str:
    """How many lost, moved, duplicated and overtaken records have no known cause, if the verdict recorded causes."""
    causes = [as_dict(as_dict(anomalies[name]).get("causes")) for name in ANOMALIES_WITH_CAUSE if name in anomalies]
    if not all(causes):
        return "not recorded"
    no_cause = (Cause.UNOBSERVED, Cause.UNEXPLAINED)
    return f"{sum(int(counts.get(cause) or 0) for counts in causes for cause in no_cause):,}"


def _longest_gap(series: LaneSeries | None) -> str:
    if series is None or series.total("ok") < 2:
        return "not recorded"
    return duration(series.longest_gap_ns) if series.longest_gap_ns else f"below {duration(GRAIN_NS)}"


def _fault_times(fault: FaultSpan, timeline: Timeline) -> tuple[str, str]:
    """When a fault began, counted from the start of its phase, and how long it lasted."""
    starts = [phase.start_ns for phase in timeline.phases if phase.start_ns is not None]
    before = [start for start in starts if start <= fault.request.ts_ns]
    since_start = run_time((fault.request.ts_ns - max(before)) / 1e9) if before else "not known"
    begun = ", ".join(filter(None, (since_start, lateness(fault.request.late))))
    lasted = duration(fault.healed_ns - fault.request.ts_ns) if fault.healed_ns is not None else "not healed"
    return begun, lasted


def _model_paths(table: Sequence[matrix.Row], evidence: Evidence) -> list[dict[str, Any]]:
    """The model's steps to each anomaly that was found, or required but not found; lanes with equal steps share one."""
    paths: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in table:
        predicted = evidence.predictions_of(row.lane)
        for cell in row.cells:
            why = as_dict(predicted.get(cell.anomaly)).get("why")
            if cell.state in {"confirmed", "violation", "missing", "doubtful"} and isinstance(why, list):
                deviates, steps = cell.state != "confirmed", tuple(map(str, why[:60]))
                path = paths.setdefault(
                    (cell.anomaly, cell.predicted, deviates, steps),
                    {"cell": cell, "deviates": deviates, "steps": steps, "lanes": [], "found": 0},
                )
                path["lanes"].append(row.lane)
                path["found"] += cell.count or 0
    return sorted(paths.values(), key=lambda path: (not path["deviates"], path["cell"].predicted != Status.REQUIRED))


def _workloads(evidence: Evidence) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """The name, the workload and the steps of each phase, from experiment.yaml."""
    phases = evidence.experiment.get("phases")
    if not isinstance(phases, list):
        phases = [evidence.experiment] if "workload" in evidence.experiment else []
    return [
        (
            str(phase.get("phase", "run")),
            as_dict(phase.get("workload")),
            as_dict(phase.get("steps") or phase.get("lockstep")),
        )
        for phase in phases
        if isinstance(phase, dict)
    ]


def _commands(evidence: Evidence) -> dict[str, str]:
    """The commands that repeat and verify the run, to be called in the directory that has the folder of all runs."""
    resolved = evidence.path.resolve()
    run_directory = shlex.quote(f"{resolved.parent.name}/{resolved.name}")
    seed = evidence.experiment.get("seed")
    recorded = evidence.recorded.get("replay")
    seed_option = f" --seed {seed}" if isinstance(seed, int) else ""
    replay = str(recorded or f"kafka-chaos run {run_directory}/experiment.yaml{seed_option}")
    commands = {name: f"kafka-chaos {name} {run_directory}" for name in ("verify", "report", "shrink")}
    commands["again"] = f"kafka-chaos replay {run_directory} --times 5"
    return {"replay": replay, **commands} if evidence.experiment else commands
