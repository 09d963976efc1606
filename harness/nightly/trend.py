"""The trend page: many nights beside each other, as one HTML file that opens offline.

Guarantee: it is made from the nights' summary.json files alone, so that a CI needs to keep nothing else; a file that is
no summary is named on the page and left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.files import write_whole
from kafka_chaos.contract.run_directory import REPORT_FILE
from kafka_chaos.harness.nightly.summary import FORMAT_VERSION
from kafka_chaos.harness.report.svg import Scale, element

NIGHTS = 60
"""Most nights that are drawn, the latest ones."""
TREND = "trend.html"
_STEP = 9
_HEIGHT = 32
_Y = Scale(0, 1, _HEIGHT - 4, 4)


@dataclass(frozen=True)
class Night:
    """A night's summary.json; `folder` is where it stands, `page` where the trend page does."""

    folder: Path
    page: Path
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        """When it began."""
        return str(self.summary["night"])

    @property
    def verdict(self) -> str:
        """The worst verdict of its runs."""
        return str(self.summary["verdict"])

    def counted(self, verdict: str | None) -> int:
        """How many of its runs ended with a verdict; None: with none."""
        return sum(run["verdict"] == verdict for run in self.summary["runs"])

    def reports(self) -> list[tuple[str, str, str]]:
        """Experiment, verdict and path of the report of each run that deviates and whose report is there."""
        found = []
        for run in self.summary["runs"]:
            if run["run_dir"] and run["verdict"] != Verdict.CONFORMS:
                report = self.folder / run["run_dir"] / REPORT_FILE
                if report.is_file():
                    found.append((run["experiment"], run["verdict"], os.path.relpath(report, self.page)))
        return found


@dataclass(frozen=True)
class Line:
    """One lane and anomaly over the nights."""

    experiment: str
    lane: str
    anomaly: str
    status: str
    hits: int
    runs: int
    low: float
    high: float
    picture: Markup
    broken: bool


def write_trend(out: Path, summaries: Sequence[Path] | None = None) -> Path:
    """Write trend.html into `out`, from `summaries` or from the summary.json of every night below `out`."""
    from kafka_chaos.harness.report.pages import environment

    paths = sorted(out.glob("*/summary.json")) if summaries is None else list(summaries)
    nights, refused = _read(paths, out)
    page = (
        environment()
        .get_template("trend.html.j2")
        .render(nights=list(reversed(nights)), lines=_lines(nights), refused=refused, most=NIGHTS)
    )
    write_whole(out / TREND, page)
    return out / TREND


def _read(paths: Sequence[Path], out: Path) -> tuple[list[Night], list[str]]:
    nights, refused = [], []
    for path in paths:
        try:
            summary = json.loads(path.read_text(encoding="utf-8"))
            if summary["format_version"] != FORMAT_VERSION:
                raise ValueError(f"format_version {summary['format_version']}, expected {FORMAT_VERSION}")
            night = Night(path.parent, out, summary)
            # Looked at here, so that a summary that lacks something is named and not met half-way down the page.
            _ = (night.name, night.verdict, night.reports(), summary["seconds"], list(_counted([night])))
            nights.append(night)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            refused.append(f"{path.name} in {path.parent.name}: {type(error).__name__} {error}")
    nights.sort(key=lambda night: night.name)
    return nights[-NIGHTS:], refused


def _counted(nights: Sequence[Night]) -> dict[tuple[str, str, str], dict[int, Mapping[str, Any]]]:
    """Per experiment, lane and anomaly, what each night (by its place) counted."""
    counted: dict[tuple[str, str, str], dict[int, Mapping[str, Any]]] = {}
    for place, night in enumerate(nights):
        for lane in night.summary["lanes"]:
            for anomaly, entry in lane["anomalies"].items():
                _ = (entry["hits"], entry["runs"], entry["low"], entry["high"], entry["status"])
                counted.setdefault((lane["experiment"], lane["lane"], anomaly), {})[place] = entry
    return counted


def _lines(nights: Sequence[Night]) -> list[Line]:
    lines = []
    for (experiment, lane, anomaly), entries in _counted(nights).items():
        latest = entries[max(entries)]
        broken = any(entry["status"] == Status.FORBIDDEN and entry["hits"] for entry in entries.values())
        if not broken and not any(entry["hits"] for entry in entries.values()):
            continue
        lines.append(
            Line(
                experiment=experiment,
                lane=lane,
                anomaly=anomaly,
                status=str(latest["status"]),
                hits=int(latest["hits"]),
                runs=int(latest["runs"]),
                low=float(latest["low"]),
                high=float(latest["high"]),
                picture=_picture(nights, entries, f"{experiment}, {lane}: {anomaly}"),
                broken=broken,
            )
        )
    return sorted(lines, key=lambda line: (not line.broken, line.experiment, line.lane, line.anomaly))


def _picture(nights: Sequence[Night], entries: Mapping[int, Mapping[str, Any]], title: str) -> Markup:
    """A dot per night at the share of runs, on its interval."""
    drawn = []
    for place, entry in sorted(entries.items()):
        x = place * _STEP + _STEP / 2
        share = entry["hits"] / entry["runs"] if entry["runs"] else 0.0
        drawn.append(element("line", x1=x, x2=x, y1=_Y(entry["high"]), y2=_Y(entry["low"])))
        drawn.append(element("circle", cx=x, cy=_Y(share), r=2.5))
    width = max(1, len(nights)) * _STEP
    label = f"{title}, share of runs per night, {len(entries)} nights"
    box = f"0 0 {width} {_HEIGHT}"
    return element(
        "svg", *drawn, class_="spark", viewBox=box, width=width, height=_HEIGHT, role="img", aria_label=label
    )
