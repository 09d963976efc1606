"""The summary of a run on the page of a GitHub Actions job, through the file that GITHUB_STEP_SUMMARY names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.events import RunEnded
from kafka_chaos.harness.report.listeners.whole_run import WholeRun, found_in
from kafka_chaos.harness.report.svg import clock

VARIABLE = "GITHUB_STEP_SUMMARY"
_SIGNS = {Verdict.CONFORMS: "✅", Verdict.VIOLATION: "❌", Verdict.UNKNOWN: "❔"}


def write_job_summary(text: str, environment: Mapping[str, str] | None = None) -> bool:
    """Append Markdown to the job's summary; returns False outside of GitHub Actions."""
    path = (os.environ if environment is None else environment).get(VARIABLE)
    if not path:
        return False
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{text.rstrip()}\n\n")
    return True


class JobSummary(WholeRun):
    """Listener that appends a table of the lanes when the run has ended; outside of such a job it writes nothing."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._environment = environment

    def write(self, ended: RunEnded) -> None:
        """Append the table."""
        write_job_summary(self._markdown(ended), self._environment)

    def _markdown(self, ended: RunEnded) -> str:
        verdict = "the run failed" if ended.verdict == "none" else ended.verdict
        lines = [f"### {self.experiment}: {verdict} after {clock(ended.seconds)}", ""]
        if self.judged:
            lines += [
                "| lane | verdict | produced | acknowledged | found | reasons |",
                "| --- | --- | --- | --- | --- | --- |",
            ]
        for lane in self.judged:
            sign = "⚠️" if lane.accepted_defects else _SIGNS[Verdict(lane.verdict)]
            counts = f"{lane.produced:,} | {lane.acknowledged:,} | {found_in(lane)}"
            reasons = "; ".join(lane.reasons).replace("|", "/")
            lines.append(f"| {lane.lane} | {sign} {lane.verdict} | {counts} | {reasons} |")
        return "\n".join(lines)
