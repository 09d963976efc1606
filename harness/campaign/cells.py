"""The cells of the atlas: in how many runs of each combination an anomaly was found, with 95 % intervals.

A cell is a combination that lanes were tried with: client, cluster, settings and faults.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.harness.campaign.record import Cell, LaneRun
from kafka_chaos.harness.report import matrix

PAGE = "atlas.html"
COLUMNS = {"losses": Anomaly.LOST_WRITE, "duplicates": Anomaly.DUPLICATE, "reorderings": Anomaly.REORDERED}
"""The page's columns that every cell has, and the anomaly of each."""
_Z = NormalDist().inv_cdf(0.975)
"""The quantile of the normal distribution for an interval of 95 %."""


@dataclass(frozen=True)
class ShareOfRuns:
    """The share of runs that found an anomaly. `counts`: the number of findings in each run that judged the anomaly."""

    counts: Sequence[int]

    @property
    def run_count(self) -> int:
        """How many runs judged the anomaly."""
        return len(self.counts)

    @property
    def hits(self) -> int:
        """How many runs showed the anomaly."""
        return sum(map(bool, self.counts))

    @property
    def most_findings(self) -> int:
        """The most findings in one run."""
        return max(self.counts, default=0)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson score interval of the share of runs (E. B. Wilson, 1927); (0, 1) without any run."""
        hits, runs = self.hits, self.run_count
        if runs == 0:
            return 0.0, 1.0
        share, square = hits / runs, _Z * _Z
        middle = (share + square / (2 * runs)) / (1 + square / runs)
        half_width = _Z / (1 + square / runs) * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
        # At both ends the formula gives 0 and 1, except for rounding.
        return (0.0 if hits == 0 else middle - half_width), (1.0 if hits == runs else middle + half_width)

    def __str__(self) -> str:
        low, high = self.interval
        if not self.run_count:
            return "not judged"
        shown = f"in {self.hits} of {self.run_count}" if self.hits else f"in none of {self.run_count}"
        return f"{shown} ({low:.0%} – {high:.0%}){f', up to {self.most_findings:,}' if self.hits else ''}"


@dataclass(frozen=True)
class CellSummary:
    """A cell of the atlas and its runs, of which there is at least one."""

    cell: Cell
    runs: Sequence[LaneRun]

    @property
    def settings_described(self) -> str:
        """The lane's settings in words."""
        version, _, mode = self.cell.cluster.partition("/")
        lane = {"lane": "any", "kafka_version": version, "metadata_mode": mode, **json.loads(self.cell.settings)}
        return matrix.settings(Lane.from_json(lane).to_json())

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of the cell's runs."""
        return Verdict.gravest(Verdict(run.verdict) for run in self.runs)

    @property
    def worst_run(self) -> LaneRun:
        """The run with the gravest verdict; of several such runs, the run with most findings."""
        return max(self.runs, key=lambda run: (run.verdict == self.verdict, sum(run.found.values())))

    @property
    def shares(self) -> Mapping[str, ShareOfRuns]:
        """The shares of runs with each anomaly, by the names of `COLUMNS`, and of other anomalies that a run showed."""
        others = {name for run in self.runs for name in run.found} - set(COLUMNS.values())
        names = {**COLUMNS, **{name: name for name in sorted(others)}}
        return {
            name: ShareOfRuns([run.found.get(anomaly, 0) for run in self.runs if anomaly not in run.not_judged])
            for name, anomaly in names.items()
        }

    @property
    def gaps(self) -> tuple[float, float, float] | None:
        """The shortest, the median and the longest of the runs' longest times without acknowledgement, in seconds."""
        gaps = sorted(run.gap_s for run in self.runs if run.gap_s is not None)
        return (gaps[0], statistics.median(gaps), gaps[-1]) if gaps else None

    def to_json(self) -> dict[str, Any]:
        """The cell as `atlas --json` prints it."""
        return {
            "client": self.cell.client,
            "cluster": self.cell.cluster,
            "settings": self.settings_described,
            "lane": self.cell.settings,
            "faults": self.cell.faults,
            "runs": len(self.runs),
            "verdict": str(self.verdict),
            "anomalies": [
                {
                    "anomaly": name,
                    "hits": share.hits,
                    "runs": share.run_count,
                    **dict(zip(("low", "high"), share.interval, strict=True)),
                }
                for name, share in self.shares.items()
            ],
            "gaps_s": list(self.gaps or ()),
            "worst_run": self.worst_run.run,
        }


def cells_of(record: Iterable[LaneRun]) -> list[CellSummary]:
    """The record's runs by cell, in the order of the cells."""
    runs_of: dict[Cell, list[LaneRun]] = {}
    for run in record:
        runs_of.setdefault(run.cell, []).append(run)
    return [CellSummary(cell, runs_of[cell]) for cell in sorted(runs_of)]


def write_page(cells: Sequence[CellSummary], out: Path, untried: int = 0) -> None:
    """Write atlas.html into `out`. `untried`: how many cells of the plan have no run."""
    from kafka_chaos.harness.report.pages import environment

    def report_path(run: LaneRun) -> str | None:
        return os.path.relpath(run.report, out) if run.report and Path(run.report).is_file() else None

    page = environment().get_template("atlas.html.j2")
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / PAGE, page.render(cells=cells, columns=list(COLUMNS), untried=untried, report_path=report_path))
