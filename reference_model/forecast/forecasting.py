"""Forecasts from the record: how likely a lane shows an anomaly, in how many of its records, and how long it stops.

The share of runs that show an anomaly has a beta distribution. It begins with all lanes of the record for which the
anomaly was predicted (Jeffreys prior), and is updated with ever closer ones: the same settings, then also the same
faults, client and cluster. The runs of each step count in full, what was known before as much as `STRENGTH` runs do.
Quantiles are those of the closest step that has at least `ENOUGH` lanes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kafka_chaos.contract.command.errors import EnvironmentFailure, counted
from kafka_chaos.reference_model.forecast.lane_runs import LaneRun
from kafka_chaos.reference_model.forecast.shares import Share

STRENGTH = 4.0
ENOUGH = 5
_LOW, _HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True)
class Question:
    """The subject of a forecast as far as it is known, where it is no lane of a run (`LaneRun`)."""

    settings: str
    faults: str | None = None
    declared: str | None = None
    client: str | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one anomaly: the `probability` that a run shows it, with a 95 % interval (`low`, `high`).

    `runs`: the closest lanes that there are, `hits` of them showed it; `common`: the last of the steps that they share
    with the question, empty where only the prediction is the same. `share`: the range that four of five runs fall into,
    as a share of the records; None where too few runs are known.
    """

    anomaly: str
    probability: float
    low: float
    high: float
    runs: int
    hits: int
    common: str
    share: tuple[float, float] | None

    def to_json(self) -> dict[str, Any]:
        """The entry of `predict --forecast --json`."""
        return {
            "probability": round(self.probability, 4),
            "interval": [round(self.low, 4), round(self.high, 4)],
            "runs": self.runs,
            "hits": self.hits,
            "in_common": self.common,
            "share_of_records": None if self.share is None else [round(bound, 6) for bound in self.share],
        }

    def __str__(self) -> str:
        share = "" if self.share is None or not self.share[1] else f", up to {self.share[1]:.2%} of the records"
        alike = f"of the same {self.common}" if self.common else "that may show it"
        seen = f"{self.hits} of {counted(self.runs, 'run')} {alike}"
        return f"{self.anomaly}: {self.probability:.0%} ({self.low:.0%} to {self.high:.0%}; {seen}){share}"


def forecast(record: Sequence[LaneRun], question: Question | LaneRun, anomaly: str) -> Forecast:
    """How likely a lane shows an anomaly that its prediction permits or requires.

    Raises `EnvironmentFailure` where scipy is missing.
    """
    try:
        from scipy.stats import beta
    except ImportError:
        raise EnvironmentFailure("scipy is missing: install kafka-chaos[forecasts]") from None
    judged = [run for run in record if anomaly in run.predicted and anomaly not in run.not_judged]
    closest, common, enough = Share.of(judged, anomaly), "", judged
    a, b = closest.hits + 0.5, closest.runs - closest.hits + 0.5
    for name, near in _closer(judged, question):
        if not near:
            break
        strength = min(STRENGTH, a + b)
        closest, common = Share.of(near, anomaly), name
        a, b = closest.hits + strength * a / (a + b), closest.runs - closest.hits + strength * b / (a + b)
        enough = near if len(near) >= ENOUGH else enough
    shares = [run.found.get(anomaly, 0) / run.records for run in enough if run.records]
    low, high = (float(bound) for bound in beta(a, b).ppf([0.025, 0.975]))
    return Forecast(anomaly, a / (a + b), low, high, closest.runs, closest.hits, common, _range(shares))


def longest_gap(record: Sequence[LaneRun], question: Question | LaneRun) -> tuple[float, float] | None:
    """The range that four of five runs fall into of the longest time without an acknowledgement, in seconds."""
    known = [run for run in record if run.gap_s is not None]
    near = [runs for _, runs in _closer(known, question) if len(runs) >= ENOUGH]
    return _range([run.gap_s for run in (near[-1] if near else ()) if run.gap_s is not None])


def _closer(runs: list[LaneRun], question: Question | LaneRun) -> Iterator[tuple[str, list[LaneRun]]]:
    """Ever fewer of the lanes: with the name of what these have in common with the question besides."""
    for name in ("settings", "declared", "faults", "client", "cluster"):
        if (wanted := getattr(question, name)) is not None:
            runs = [run for run in runs if getattr(run, name) == wanted]
            yield name, runs


def _range(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < ENOUGH:
        return None
    low, high = np.quantile(values, [_LOW, _HIGH])
    return float(low), float(high)


@dataclass
class Score:
    """How good forecasts were: `brier`, the mean of squared errors of probabilities (G. W. Brier, 1950).

    `within`: how many of the `ranges` that were forecast, of shares of records and of gaps, held what was found. Four
    of five should.
    """

    squares: list[float] = field(default_factory=list)
    ranges: int = 0
    within: int = 0
    lanes: int = 0

    @property
    def brier(self) -> float | None:
        """From 0, always right and sure, to 1; None without any forecast."""
        return sum(self.squares) / len(self.squares) if self.squares else None

    def add(self, record: Sequence[LaneRun], run: LaneRun) -> None:
        """Compare what the record says of a lane with what the lane showed; the record must not have it yet."""
        self.lanes += 1
        for anomaly in run.predicted:
            if anomaly in run.not_judged:
                continue
            said = forecast(record, run, anomaly)
            self.squares.append((said.probability - bool(run.found.get(anomaly))) ** 2)
            if run.records:
                self._range(said.share, run.found.get(anomaly, 0) / run.records)
        if run.gap_s is not None:
            self._range(longest_gap(record, run), run.gap_s)

    def _range(self, said: tuple[float, float] | None, was: float) -> None:
        if said is not None:
            self.ranges += 1
            self.within += said[0] <= was <= said[1]

    def to_json(self) -> Mapping[str, Any]:
        """The entry `forecasts` of a summary."""
        return {
            "lanes": self.lanes,
            "forecasts": len(self.squares),
            "brier": None if self.brier is None else round(self.brier, 4),
            "ranges": self.ranges,
            "within": self.within,
        }
