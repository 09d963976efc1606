"""The trend page: many nightly runs side by side, as one HTML file that opens offline.

Guarantee: the page needs only the summary.json files of the nightly runs, so a CI has to keep nothing else. A file that
is no summary is left out, and the page names it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.run_directory import REPORT_FILE
from kafka_chaos.harness.campaign.lane_runs import problem_of
from kafka_chaos.harness.campaign.summary import AnomalyCount, Summary

MOST_DRAWN = 60
"""How many nightly runs are drawn: the latest."""
TREND = "trend.html"


@dataclass(frozen=True)
class NightlyRun:
    """A nightly run's summary; `folder` holds it, `page` is the folder of the trend page."""

    folder: Path
    page: Path
    summary: Summary

    def counted(self, verdict: str | None) -> int:
        """How many of its runs ended with this verdict, or without any (None)."""
        return sum(run.verdict == verdict for run in self.summary.runs)

    def reports(self) -> list[tuple[str, str, str]]:
        """Experiment, verdict and report path of each run that does not conform and still has its report."""
        found = []
        for run in self.summary.runs:
            if run.run_dir and run.verdict != Verdict.CONFORMS:
                report = self.folder / run.run_dir / REPORT_FILE
                if report.is_file():
                    found.append((run.experiment, str(run.verdict), os.path.relpath(report, self.page)))
        return found


@dataclass(frozen=True)
class Line:
    """One lane and anomaly in all nightly runs: its counts in those that judged it, by their position."""

    experiment: str
    lane: str
    anomaly: str
    entries: Mapping[int, AnomalyCount]

    @property
    def latest(self) -> AnomalyCount:
        """The counts of the latest."""
        return self.entries[max(self.entries)]

    @property
    def found(self) -> list[AnomalyCount]:
        """The counts of those that found it."""
        return [entry for entry in self.entries.values() if entry.hits]

    @property
    def broken(self) -> bool:
        """Whether it was found where it is forbidden."""
        return any(entry.status is Status.FORBIDDEN for entry in self.found)


def write_trend(out: Path, summaries: Sequence[Path] | None = None) -> Path:
    """Write trend.html into `out`, from `summaries` or from the summary.json of every nightly run below `out`."""
    from kafka_chaos.harness.report.pages import environment

    paths = sorted(out.glob("*/summary.json")) if summaries is None else list(summaries)
    nightly_runs, refused = _read(paths, out)
    page = (
        environment()
        .get_template("trend.html.j2")
        .render(nightly_runs=list(reversed(nightly_runs)), lines=_lines(nightly_runs), refused=refused, most=MOST_DRAWN)
    )
    write_whole(out / TREND, page)
    return out / TREND


def _read(paths: Sequence[Path], out: Path) -> tuple[list[NightlyRun], list[str]]:
    from pydantic import TypeAdapter, ValidationError

    reader, nightly_runs, refused = TypeAdapter(Summary), [], []
    for path in paths:
        try:
            summary = reader.validate_json(path.read_bytes(), strict=True)
        except (OSError, ValidationError) as error:
            why = problem_of(error) if isinstance(error, ValidationError) else error
            refused.append(f"{path.name} in {path.parent.name}: {why}")
        else:
            nightly_runs.append(NightlyRun(path.parent, out, summary))
    nightly_runs.sort(key=lambda read: read.summary.night)
    return nightly_runs[-MOST_DRAWN:], refused


def _lines(nightly_runs: Sequence[NightlyRun]) -> list[Line]:
    """Of what was ever found; first what is forbidden."""
    counts: dict[tuple[str, str, str], dict[int, AnomalyCount]] = {}
    for place, nightly_run in enumerate(nightly_runs):
        for lane in nightly_run.summary.lanes:
            for anomaly, entry in lane.anomalies.items():
                counts.setdefault((lane.experiment, lane.lane, anomaly), {})[place] = entry
    lines = [line for names, entries in counts.items() if (line := Line(*names, entries)).found]
    return sorted(lines, key=lambda line: (not line.broken, line.experiment, line.lane, line.anomaly))
