"""Two runs side by side: what differs, lane by lane, with the lanes' pictures over time above each other.

Guarantee: like a report, one self-contained file in which every text of the runs is escaped. Both pictures of a lane
have the same axis of time. A lane that one run lacks is shown as such.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kafka_chaos.contract.command.errors import counted
from kafka_chaos.harness.report import matrix
from kafka_chaos.harness.report.inputs.evidence import Evidence
from kafka_chaos.harness.report.inputs.series import Series
from kafka_chaos.harness.report.page import at_most_detail, summary_of
from kafka_chaos.harness.report.pages import environment, label, static
from kafka_chaos.harness.report.timeline.charts import Chart, Detail, draw_charts, longest_ns
from kafka_chaos.harness.report.timeline.events import TimelineEvents
from kafka_chaos.harness.report.timeline.frame import patterns, style_sheet

Difference = tuple[str, str, str]
"""The subject of a difference, its value in the first run, and in the second."""
_NOT_THERE = "–"
_IDS_PER_RUN = 10_000


@dataclass(frozen=True)
class Side:
    """One of the runs, as its report has it."""

    evidence: Evidence
    timeline_events: TimelineEvents
    series: Series

    @property
    def rows(self) -> dict[str, matrix.Row]:
        """Its matrix by lane."""
        return {row.lane: row for row in matrix.rows(self.evidence)}

    def charts(self, detail: Detail, *, first: int, least_ns: int) -> dict[str, Chart]:
        """The pictures by lane, numbered from `first` on; each covers at least `least_ns`."""
        table, events = list(self.rows.values()), self.timeline_events
        drawn = draw_charts(table, events, self.series, detail, first=first, least_ns=least_ns)
        return {chart.row.lane: chart for chart in drawn}

    def facts(self, lane: str) -> Mapping[str, str]:
        """The facts of the run about a lane, by name."""
        row = self.rows.get(lane)
        if row is None:
            return {}
        counts = summary_of(row, self.evidence, self.series)
        found = {label(cell.anomaly): f"{cell.observed} ({cell.predicted})" for cell in row.cells}
        counted = {key: counts[key] for key in ("longest gap", "produced", "acknowledged")}
        return {"verdict": str(row.verdict), "settings": row.settings, **found, **counted}


@dataclass(frozen=True)
class LanePair:
    """A lane in both runs: what is told of it, and its pictures; None where there is none."""

    lane: str
    differences: Sequence[Difference]
    charts: Sequence[Chart | None]

    @property
    def verdicts(self) -> Sequence[str]:
        """In the first run, and in the second."""
        return self.differences[0][1:]


def render(sides: tuple[Side, Side], differences: Sequence[Difference]) -> str:
    """The page at the most detail that stays below the limit of reports; `differences`: those of settings."""
    return at_most_detail(lambda detail: _render(sides, differences, detail))


def _render(sides: tuple[Side, Side], differences: Sequence[Difference], detail: Detail) -> str:
    least_ns = max(longest_ns(side.timeline_events, side.series) for side in sides)
    charts = [side.charts(detail, first=_IDS_PER_RUN * at, least_ns=least_ns) for at, side in enumerate(sides)]
    names = list(dict.fromkeys(lane for side in sides for lane in side.rows))
    pairs = [LanePair(lane, _compared(sides, lane), [drawn.get(lane) for drawn in charts]) for lane in names]
    # Lanes with another verdict come first.
    pairs = sorted(pairs, key=lambda pair: len(set(pair.verdicts)) == 1)
    changed = sum(len(set(pair.verdicts)) > 1 for pair in pairs)
    page = environment().get_template("side_by_side.html.j2")
    return page.render(
        style=Markup(static("report.css")) + style_sheet(),
        fault_patterns=patterns(),
        runs=[side.evidence for side in sides],
        differences=differences,
        story=f"{changed} of {counted(len(names), 'lane')} with another verdict; "
        f"{counted(len(differences), 'setting')} with other values",
        pairs=pairs[: detail.rows],
        left_out=len(pairs[detail.rows :]),
    )


def _compared(sides: tuple[Side, Side], lane: str) -> list[Difference]:
    """The facts about a lane that differ; the verdict comes first, and always."""
    one, other = (side.facts(lane) for side in sides)
    keys = dict.fromkeys(["verdict", *one, *other])
    rows = [(key, one.get(key, _NOT_THERE), other.get(key, _NOT_THERE)) for key in keys]
    return [row for row in rows if row[0] == "verdict" or row[1] != row[2]]
