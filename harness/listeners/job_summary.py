"""The summary of a run on the page of a GitHub Actions job, through the file that GITHUB_STEP_SUMMARY names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kafka_chaos.harness.events import Event, LaneJudged, RunEnded, RunStarted
from kafka_chaos.reference_model.anomalies import Verdict

VARIABLE = "GITHUB_STEP_SUMMARY"
_SIGNS = {Verdict.CONFORMS: "✅", Verdict.VIOLATION: "❌", Verdict.UNKNOWN: "❔"}


def write_job_summary(text: str, environment: Mapping[str, str] | None = None) -> bool:
    """Append Markdown to the job's summary; False where there is no such job."""
    path = (os.environ if environment is None else environment).get(VARIABLE)
    if not path:
        return False
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{text.rstrip()}\n\n")
    return True


class JobSummary:
    """Listener that appends a table of the lanes when the run has ended; nothing outside of such a job."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._started: RunStarted | None = None
        self._judged: list[LaneJudged] = []

    def __call__(self, event: Event) -> None:
        """Remember what was judged; write at the end."""
        match event:
            case RunStarted():
                self._started = event
            case LaneJudged():
                self._judged.append(event)
            case RunEnded():
                write_job_summary(self._markdown(event), self._environment)

    def _markdown(self, ended: RunEnded) -> str:
        name = self._started.experiment if self._started is not None else "kafka-chaos"
        verdict = "the run failed" if ended.verdict == "none" else ended.verdict
        lines = [f"### {name}: {verdict} after {ended.seconds:.0f} s", ""]
        if self._judged:
            lines += [
                "| lane | verdict | produced | acknowledged | found | reasons |",
                "| --- | --- | --- | --- | --- | --- |",
            ]
        for lane in self._judged:
            found = ", ".join(f"{anomaly} {count:,}" for anomaly, count in lane.found.items()) or "nothing"
            sign = _SIGNS[Verdict(lane.verdict)]
            lines.append(
                f"| {lane.lane} | {sign} {lane.verdict} | {lane.produced:,} | {lane.acknowledged:,} | {found} | "
                f"{'; '.join(lane.reasons).replace('|', '/')} |"
            )
        return "\n".join(lines)
