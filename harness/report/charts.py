"""Which lanes are drawn over time, and what is told beside each picture.

Guarantee: no more is drawn or told than `Detail` allows, and what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kafka_chaos.harness.report import matrix, timeline
from kafka_chaos.harness.report.happenings import Change, Happenings, Phase
from kafka_chaos.harness.report.series import ErrorCount, LaneSeries, Series
from kafka_chaos.reference_model.anomalies import Verdict

_LONGEST_NAME = 120


@dataclass(frozen=True)
class Detail:
    """How much of a run is shown: most charts, partitions per chart, panels of offsets, told ranges, events, rows."""

    charts: int
    partitions: int
    panels: int
    lines: int
    events: int
    rows: int
    text: int


@dataclass(frozen=True)
class Chart:
    """A lane's picture over time with its events and errors in words."""

    lane: str
    phase: str
    verdict: Verdict
    settings: str
    picture: Markup
    events: Sequence[tuple[str, str]]
    left_out: int
    errors: Sequence[ErrorCount]


def short(name: object) -> str:
    """A name that fits a line; the rest of a longer one is cut off."""
    text = str(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def draw_charts(
    table: Sequence[matrix.Row], happenings: Happenings, series: Series, detail: Detail, names: Mapping[str, str]
) -> list[Chart]:
    """The charts of the first lanes of `table` that have a stretch of time; `names` maps lanes to phases."""
    phases = {phase.name: phase for phase in happenings.phases}
    charts: list[Chart] = []
    for row in table:
        if len(charts) == detail.charts:
            break
        over_time = series.lanes.get(row.lane)
        span = _span(phases.get(names[row.lane]), over_time)
        if span is not None:
            charts.append(_chart(row, span, happenings, over_time, detail, names[row.lane], len(charts)))
    return charts


def _chart(
    row: matrix.Row,
    span: tuple[int, int],
    happenings: Happenings,
    series: LaneSeries | None,
    detail: Detail,
    phase: str,
    number: int,
) -> Chart:
    start, end = span
    drawn = timeline.LaneTimeline(
        lane=short(row.lane),
        start_ns=start,
        end_ns=end,
        series=series,
        faults=[
            fault for fault in happenings.faults if fault.concerns(row.lane) and start <= fault.requested_ns <= end
        ][: detail.events],
        strips=_strips(row.lane, happenings, detail.partitions),
    )
    events = _events(row.lane, happenings, drawn)
    return Chart(
        lane=row.lane,
        phase=phase,
        verdict=row.verdict,
        settings=row.settings,
        picture=timeline.draw(drawn, number),
        events=events[: detail.events],
        left_out=max(0, len(events) - detail.events),
        errors=series.errors if series else (),
    )


def _span(phase: Phase | None, series: LaneSeries | None) -> tuple[int, int] | None:
    """From the phase's start (or the first record) to its end, the last acknowledgement included."""
    edges = [edge for edge in (phase.start_ns, phase.end_ns) if edge is not None] if phase else []
    if series is not None and series.buckets:
        edges += [series.start_ns, series.start_ns + (series.buckets[-1].index + 1) * series.width_ns]
    return (min(edges), max(edges)) if len(edges) >= 2 else None


def _strips(lane: str, happenings: Happenings, partitions: int) -> list[timeline.Strip]:
    strips = []
    known = sorted(partition for name, partition in happenings.leaders.keys() | happenings.isrs.keys() if name == lane)
    for partition in known[:partitions]:
        suffix = f" {partition}" if len(known) > 1 else ""
        strips.append(timeline.Strip(f"leader{suffix}", happenings.leaders.get((lane, partition), ())))
        strips.append(timeline.Strip(f"ISR{suffix}", happenings.isrs.get((lane, partition), ())))
    return [strip for strip in strips if strip.changes]


def _events(lane: str, happenings: Happenings, drawn: timeline.LaneTimeline) -> list[tuple[str, str]]:
    """Elections, truncations, and changes as clients saw them, in time order and in words."""
    told: list[tuple[int, str]] = []

    def changed(changes: Sequence[Change], what: str) -> None:
        told.extend((change.ts_ns, f"{what} is {change.value}, as clients are told") for change in changes)

    for (name, partition), changes in happenings.leaders.items():
        if name == lane:
            changed(changes, f"leader of partition {partition}")
    for (name, partition), changes in happenings.isrs.items():
        if name == lane:
            changed(changes, f"ISR of partition {partition}")
    for (name, partition), elections in happenings.elections.items():
        if name == lane:
            told += [
                (won.ts_ns, f"broker {won.broker} leads partition {partition} in epoch {won.leader_epoch} "
                            f"from offset {won.start_offset:,}")
                for won in elections
            ]  # fmt: skip
    for (name, partition), truncations in happenings.truncations.items():
        if name == lane:
            told += [
                (cut.ts_ns, f"broker {cut.broker} truncates partition {partition} to offset {cut.offset:,}")
                for cut in truncations
            ]
    return [(f"{drawn.at(ts_ns):+.2f} s", text) for ts_ns, text in sorted(told)]
