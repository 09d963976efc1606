"""In how many of some runs an anomaly was found, with a 95 % Wilson interval."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

from kafka_chaos.harness.campaign.lane_runs import LaneRun

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Share:
    """`counts`: how often an anomaly was found in each of the runs that judged it."""

    counts: Sequence[int]

    @classmethod
    def of(cls, runs: Iterable[LaneRun], anomaly: str) -> Self:
        """That of lanes of runs; those that could not judge the anomaly do not count."""
        return cls([run.found.get(anomaly, 0) for run in runs if anomaly not in run.not_judged])

    @property
    def runs(self) -> int:
        """How many runs judged it."""
        return len(self.counts)

    @property
    def hits(self) -> int:
        """How many of them showed it."""
        return sum(map(bool, self.counts))

    @property
    def most(self) -> int:
        """The most findings in one run."""
        return max(self.counts, default=0)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson score interval of the share of runs (E. B. Wilson, 1927); (0, 1) without any run."""
        hits, runs = self.hits, self.runs
        if runs == 0:
            return 0.0, 1.0
        share, square = hits / runs, _Z * _Z
        middle = (share + square / (2 * runs)) / (1 + square / runs)
        half = _Z / (1 + square / runs) * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
        # At both ends the formula gives 0 and 1, except for rounding.
        return (0.0 if hits == 0 else middle - half), (1.0 if hits == runs else middle + half)

    def __str__(self) -> str:
        low, high = self.interval
        if not self.runs:
            return "not judged"
        found = f"in {self.hits} of {self.runs}" if self.hits else f"in none of {self.runs}"
        return f"{found} ({low:.0%} – {high:.0%}){f', up to {self.most:,}' if self.hits else ''}"
