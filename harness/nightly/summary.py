"""The summary of a nightly run: in how many runs each lane showed each anomaly, with a 95 % Wilson interval.

Guarantee: a run counts for an anomaly only if that anomaly was judged. Failed and unjudged runs are counted separately.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.verification import RunVerdict

_Z = NormalDist().inv_cdf(0.975)
SETTINGS = ("acks", "idempotence", "min_insync_replicas", "unclean_leader_election", "faults")


def wilson(hits: int, runs: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion (E. B. Wilson, 1927); (0, 1) without any run."""
    if runs == 0:
        return 0.0, 1.0
    share, square = hits / runs, _Z * _Z
    middle = (share + square / (2 * runs)) / (1 + square / runs)
    half = _Z / (1 + square / runs) * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
    # At both ends the formula gives 0 and 1, except for rounding.
    return (0.0 if hits == 0 else middle - half), (1.0 if hits == runs else middle + half)


@dataclass(frozen=True, kw_only=True)
class LaneViolation:
    """A lane that broke its prediction, and how."""

    lane: str
    reasons: tuple[str, ...]


def violations_in(verdict: RunVerdict) -> tuple[LaneViolation, ...]:
    """The lanes that broke their predictions."""
    broken = [lane for lane in verdict.lanes if lane.verdict is Verdict.VIOLATION]
    return tuple(LaneViolation(lane=lane.lane, reasons=lane.reasons) for lane in broken)


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run of a nightly run. If it failed, `verdict` is None and `error` says why."""

    experiment: str
    seed: int
    seconds: float
    run_dir: str | None = None
    verdict: Verdict | None = None
    error: str | None = None
    violations: tuple[LaneViolation, ...] = ()


@dataclass
class AnomalyCount:
    """In how many of `runs` an anomaly was found, with the interval of their share; `records` in all of them."""

    status: Status
    runs: int = 0
    hits: int = 0
    records: int = 0
    low: float = 0.0
    high: float = 1.0

    def add(self, status: Status, count: int) -> None:
        """Count one run that the anomaly was judged in."""
        self.status = max(self.status, status, key=_RANK.index)
        self.runs += 1
        self.hits += bool(count)
        self.records += count
        self.low, self.high = (round(bound, 4) for bound in wilson(self.hits, self.runs))


@dataclass
class LaneCount:
    """One lane in all runs of its experiment."""

    experiment: str
    lane: str
    settings: Mapping[str, Any]
    """Those that the summary tells."""
    verdicts: dict[str, int] = field(default_factory=lambda: {str(verdict): 0 for verdict in Verdict})
    anomalies: dict[str, AnomalyCount] = field(default_factory=dict)

    def add(self, verdict: RunVerdict) -> None:
        """Count one run."""
        seen = verdict.lane(self.lane)
        self.verdicts[str(seen.verdict)] += 1
        for anomaly, status in seen.predicted.items():
            count = seen.count(anomaly)
            if count is not None:
                self.anomalies.setdefault(anomaly.value, AnomalyCount(status)).add(status, count)


_RANK = (Status.FORBIDDEN, Status.PERMITTED, Status.REQUIRED)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The content of summary.json: a `night`, named by its start, its `runs` in order, and what its `lanes` showed.

    `forecasts`: how good those were that the record of runs gave before (`forecasting.Score`); None without a record.
    """

    format_version: Literal[1] = 1
    night: str
    verdict: Verdict
    seed: int
    seconds: float
    versions: Mapping[str, str]
    runs: tuple[RunEntry, ...]
    lanes: tuple[LaneCount, ...]
    forecasts: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The object of summary.json."""
        return asdict(self)

    def to_markdown(self) -> str:
        """The summary for people: first violations and failures, then the findings with their intervals."""
        failed = [run for run in self.runs if run.verdict is None]
        lines = [
            f"# Nightly run {self.night}: {self.verdict}",
            "",
            f"{counted(len(self.runs), 'run')} in {self.seconds / 60:.0f} min, {len(failed)} of them failed; Kafka "
            f"{self.versions.get('kafka', '?')}, seed {self.seed}.",
            "",
        ]
        if (said := self.forecasts) is not None and said["brier"] is not None:
            made = f"{counted(said['forecasts'], 'forecast')} of {counted(said['lanes'], 'lane')}"
            held = f"{said['within']} of {counted(said['ranges'], 'range')} held what was found (four of five should)"
            lines += [f"{made}: Brier score {said['brier']}; {held}.", ""]
        broken = [(run, violation) for run in self.runs for violation in run.violations]
        if broken:
            lines += ["## Violations", ""]
            lines += [
                f"- {run.experiment}, lane {one.lane}, seed {run.seed} (`{run.run_dir}`): {'; '.join(one.reasons)}"
                for run, one in broken
            ]
            lines.append("")
        if failed:
            lines += ["## Runs that failed", ""]
            lines += [f"- {run.experiment}, seed {run.seed}: {_first_line(run.error)}" for run in failed]
            lines.append("")
        return "\n".join([*lines, *self._table()]) + "\n"

    def _table(self) -> list[str]:
        lines = [
            "## Findings",
            "",
            "The share of runs that show an anomaly, with its 95 % Wilson interval. Forbidden anomalies that were not "
            "found are left out; all counts are in summary.json.",
            "",
            "| experiment | lane | anomaly | predicted | runs | share | 95 % interval | records |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for lane in self.lanes:
            for name, entry in lane.anomalies.items():
                if entry.hits or entry.status != Status.FORBIDDEN:
                    share = f"{entry.hits / entry.runs:.0%}"
                    lines.append(
                        f"| {lane.experiment} | {lane.lane} | {name} | {entry.status} | {entry.hits} of {entry.runs} "
                        f"| {share} | {entry.low:.0%} – {entry.high:.0%} | {entry.records:,} |"
                    )
        return lines


def write_summary(folder: Path, summary: Summary) -> None:
    """Write summary.json and summary.md, each whole or not at all."""
    write_whole(folder / "summary.json", json.dumps(summary.to_json(), indent=1) + "\n")
    write_whole(folder / "summary.md", summary.to_markdown())


def _first_line(text: str | None) -> str:
    return (text or "").splitlines()[0] if text else "no reason given"
