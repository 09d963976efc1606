"""What `kafka_chaos_run` returns: the verdict with its evidence, and an assertion that tells what broke."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kafka_chaos.harness.runner import RunResult
from kafka_chaos.reference_model.anomalies import Anomaly, Status, Verdict
from kafka_chaos.verification import LaneVerdict, RunVerdict

EXAMPLES = 3


class ChaosRun:
    """A finished run."""

    def __init__(self, result: RunResult, *, seed: int, replay: str) -> None:
        self.path: Path = result.path
        self.result: RunVerdict = result.verdict
        self.gaps: Mapping[str, float] = result.gaps
        self.seed = seed
        self.replay = replay

    @property
    def verdict(self) -> Verdict:
        """`conforms`, `violation` or `unknown`."""
        return self.result.verdict

    @property
    def report(self) -> Path:
        """The report of the run, one HTML file."""
        return self.path / "report.html"

    def lane(self, name: str) -> LaneVerdict:
        """One lane's verdict and counts; KeyError if there is no such lane."""
        return self.result.lane(name)

    def count(self, name: str, anomaly: str) -> int | None:
        """How often an anomaly was found in a lane, such as `lost_write`; None where it could not be judged."""
        try:
            wanted = Anomaly(anomaly)
        except ValueError as error:
            raise ValueError(f"anomaly: {anomaly!r} is not one: expected {', '.join(Anomaly)}") from error
        return self.lane(name).count(wanted)

    def assert_conforms(self) -> None:
        """Fail unless every lane showed what was predicted for it and nothing else, with evidence that suffices."""
        __tracebackhide__ = True
        if self.verdict is not Verdict.CONFORMS:
            raise AssertionError(self.explain())

    def explain(self) -> str:
        """The verdict in words: what broke in which lane, the smallest examples, the report, and how to replay it."""
        lines = [f"the run's verdict is {self.verdict}"]
        for lane in self.result.lanes:
            if lane.verdict is not Verdict.CONFORMS:
                lines += [f"lane {lane.lane}: {lane.verdict}", *(f"  {reason}" for reason in lane.reasons)]
                lines += _examples(lane)
        lines += [f"report: {self.report}", f"replay: {self.replay}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ChaosRun {self.path.name}: {self.verdict}>"


def _examples(lane: LaneVerdict) -> list[str]:
    """The first few records of everything that was found and is forbidden."""
    lines = []
    for anomaly, seen in lane.observed.items():
        if seen.count and lane.predicted[anomaly] == Status.FORBIDDEN:
            for example in seen.examples[:EXAMPLES]:
                place = ", ".join(f"{key} {value}" for key, value in example.items() if value is not None)
                lines.append(f"    {anomaly}: {place}")
            if seen.count > EXAMPLES:
                lines.append(f"    {anomaly}: {seen.count - EXAMPLES:,} more in findings/")
    return lines
