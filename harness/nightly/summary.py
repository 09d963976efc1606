"""The summary of a nightly run: in how many runs each lane showed each anomaly, with a 95 % Wilson interval.

Guarantee: a run counts for an anomaly only if that anomaly was judged. Failed and unjudged runs are counted separately.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

from kafka_chaos.contract.anomalies import Status, Verdict
from kafka_chaos.contract.errors import counted
from kafka_chaos.contract.files import write_whole
from kafka_chaos.verification import RunVerdict

FORMAT_VERSION = 1
_Z = NormalDist().inv_cdf(0.975)
_SETTINGS = ("acks", "idempotence", "min_insync_replicas", "unclean_leader_election", "faults")


def wilson(hits: int, runs: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion (E. B. Wilson, 1927); (0, 1) without any run."""
    if runs == 0:
        return 0.0, 1.0
    share, square = hits / runs, _Z * _Z
    middle = (share + square / (2 * runs)) / (1 + square / runs)
    half = _Z / (1 + square / runs) * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
    # At both ends the formula gives 0 and 1, except for rounding.
    return (0.0 if hits == 0 else middle - half), (1.0 if hits == runs else middle + half)


@dataclass(frozen=True)
class RepeatResult:
    """One run of a nightly run. If it failed, `verdict` is None and `error` says why."""

    experiment: str
    seed: int
    seconds: float
    lanes: Mapping[str, Mapping[str, Any]]
    run_dir: str | None = None
    verdict: RunVerdict | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry of `runs` in summary.json."""
        return {
            "experiment": self.experiment,
            "seed": self.seed,
            "seconds": self.seconds,
            "run_dir": self.run_dir,
            "verdict": str(self.verdict.verdict) if self.verdict is not None else None,
            "error": self.error,
            "violations": [
                {"lane": lane.lane, "reasons": list(lane.reasons)}
                for lane in (self.verdict.lanes if self.verdict is not None else ())
                if lane.verdict is Verdict.VIOLATION
            ],
        }


@dataclass
class AnomalyCount:
    """In how many of `runs` an anomaly was found, and how many `records` in all of them."""

    status: str
    runs: int = 0
    hits: int = 0
    records: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts, with the interval of the share of runs that show the anomaly."""
        low, high = wilson(self.hits, self.runs)
        return {
            "status": self.status,
            "runs": self.runs,
            "hits": self.hits,
            "records": self.records,
            "low": round(low, 4),
            "high": round(high, 4),
        }


@dataclass
class LaneCount:
    """One lane in all runs of its experiment."""

    experiment: str
    lane: str
    settings: Mapping[str, Any]
    verdicts: dict[str, int] = field(default_factory=lambda: {str(verdict): 0 for verdict in Verdict})
    anomalies: dict[str, AnomalyCount] = field(default_factory=dict)

    def add(self, verdict: RunVerdict) -> None:
        """Count one run."""
        seen = verdict.lane(self.lane)
        self.verdicts[str(seen.verdict)] += 1
        for anomaly in seen.predicted:
            count = seen.count(anomaly)
            if count is None:
                continue
            entry = self.anomalies.setdefault(anomaly.value, AnomalyCount(str(seen.predicted[anomaly])))
            if _RANK[str(seen.predicted[anomaly])] > _RANK[entry.status]:
                entry.status = str(seen.predicted[anomaly])
            entry.runs += 1
            entry.hits += bool(count)
            entry.records += count

    def to_json(self) -> dict[str, Any]:
        """The entry of `lanes` in summary.json."""
        return {
            "experiment": self.experiment,
            "lane": self.lane,
            "settings": dict(self.settings),
            "verdicts": self.verdicts,
            "anomalies": {name: entry.to_json() for name, entry in self.anomalies.items()},
        }


_RANK = {str(Status.FORBIDDEN): 0, str(Status.PERMITTED): 1, str(Status.REQUIRED): 2}


@dataclass(frozen=True)
class Summary:
    """A nightly run, named by its start: its `runs` in order, and the counts of its `lanes` in all of them."""

    name: str
    seed: int
    seconds: float
    versions: Mapping[str, str]
    runs: Sequence[RepeatResult]
    lanes: Sequence[LaneCount]

    @classmethod
    def of(
        cls, runs: Sequence[RepeatResult], *, name: str, seed: int, seconds: float, versions: Mapping[str, str]
    ) -> Summary:
        """Count the runs."""
        lanes: dict[tuple[str, str], LaneCount] = {}
        for run in runs:
            for lane_name, settings in run.lanes.items():
                shown = {key: settings[key] for key in _SETTINGS}
                lane = lanes.setdefault((run.experiment, lane_name), LaneCount(run.experiment, lane_name, shown))
                if run.verdict is not None:
                    lane.add(run.verdict)
        return cls(name, seed, seconds, versions, tuple(runs), tuple(lanes.values()))

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all runs; with a failed run it is unknown at best."""
        return Verdict.gravest(run.verdict.verdict if run.verdict else Verdict.UNKNOWN for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """The content of summary.json."""
        return {
            "format_version": FORMAT_VERSION,
            "night": self.name,
            "verdict": str(self.verdict),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "versions": dict(self.versions),
            "runs": [run.to_json() for run in self.runs],
            "lanes": [lane.to_json() for lane in self.lanes],
        }

    def to_markdown(self) -> str:
        """The summary for people: first violations and failures, then the findings with their intervals."""
        failed = [run for run in self.runs if run.verdict is None]
        lines = [
            f"# Nightly run {self.name}: {self.verdict}",
            "",
            f"{counted(len(self.runs), 'run')} in {self.seconds / 60:.0f} min, {len(failed)} of them failed; Kafka "
            f"{self.versions.get('kafka', '?')}, seed {self.seed}.",
            "",
        ]
        broken = [(run, entry) for run in self.runs for entry in run.to_json()["violations"]]
        if broken:
            lines += ["## Violations", ""]
            lines += [
                f"- {run.experiment}, lane {entry['lane']}, seed {run.seed} (`{run.run_dir}`): "
                + "; ".join(entry["reasons"])
                for run, entry in broken
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
                    shown = entry.to_json()
                    share = f"{entry.hits / entry.runs:.0%}"
                    lines.append(
                        f"| {lane.experiment} | {lane.lane} | {name} | {entry.status} | {entry.hits} of {entry.runs} "
                        f"| {share} | {shown['low']:.0%} – {shown['high']:.0%} | {entry.records:,} |"
                    )
        return lines


def write_summary(folder: Path, summary: Summary) -> None:
    """Write summary.json and summary.md, each whole or not at all."""
    write_whole(folder / "summary.json", json.dumps(summary.to_json(), indent=1) + "\n")
    write_whole(folder / "summary.md", summary.to_markdown())


def _first_line(text: str | None) -> str:
    return (text or "").splitlines()[0] if text else "no reason given"
