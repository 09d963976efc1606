"""The listeners that a command's options and its environment ask for: JUnit XML, and the summary of a GitHub job.

JUnit XML has one test case per lane. A violation is a failure, or skipped if it was accepted as a known defect. An
unknown lane, and a run that ended without verdicts, are errors. The summary goes to the file that GITHUB_STEP_SUMMARY
names.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.events import Event, LaneJudged, RunEnded, RunStarted
from kafka_chaos.harness.event_bus import EventFile, Listener
from kafka_chaos.harness.report.pages import label
from kafka_chaos.harness.report.svg import clock


class WholeRun(ABC):
    """Listener that reports a run when it has ended, however it ended."""

    def __init__(self) -> None:
        self.experiment = "kafka-chaos"
        self.lanes: tuple[str, ...] = ()
        self.judged: list[LaneJudged] = []

    def __call__(self, event: Event) -> None:
        """Remember the verdicts; write at the end."""
        match event:
            case RunStarted():
                self.experiment, self.lanes = event.experiment, tuple(event.lanes)
            case LaneJudged():
                self.judged.append(event)
            case RunEnded():
                self.write(event)

    @abstractmethod
    def write(self, ended: RunEnded) -> None:
        """Write the whole run. `experiment` and `lanes` have their defaults where it failed before it began."""


class JunitFile(WholeRun):
    """Listener that writes the file when the run has ended, however it ended."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def write(self, ended: RunEnded) -> None:
        """Write the file."""
        name, lanes = self.experiment, self.lanes
        judged = {lane.lane: lane for lane in self.judged}
        suite = ElementTree.Element("testsuite", name=name, time=f"{ended.seconds:.3f}")
        failures = errors = skipped = 0
        for lane in lanes or (name,):
            case = ElementTree.SubElement(suite, "testcase", classname=f"kafka_chaos.{name}", name=lane)
            result = judged.get(lane)
            if result is None:
                errors += 1
                ElementTree.SubElement(case, "error", message="the run failed before this lane was judged")
            elif result.accepted_defects:
                skipped += 1
                ElementTree.SubElement(case, "skipped", message=f"{result.verdict}: {'; '.join(result.reasons)}")
            elif result.verdict != Verdict.CONFORMS:
                broken = result.verdict == Verdict.VIOLATION
                failures, errors = failures + broken, errors + (not broken)
                problem = ElementTree.SubElement(
                    case, "failure" if broken else "error", message=f"{result.verdict}: {'; '.join(result.reasons[:1])}"
                )
                problem.text = "\n".join(result.reasons)
            if result is not None:
                output = ElementTree.SubElement(case, "system-out")
                output.text = (
                    f"{counted(result.produced, 'record')} produced, {result.acknowledged:,} acknowledged; "
                    f"found: {found_in(result)}"
                )
        suite.set("tests", str(len(lanes or (name,))))
        suite.set("failures", str(failures))
        suite.set("errors", str(errors))
        suite.set("skipped", str(skipped))
        root = ElementTree.Element("testsuites")
        root.append(suite)
        ElementTree.indent(root)
        ElementTree.ElementTree(root).write(self._path, encoding="utf-8", xml_declaration=True)


def found_in(lane: LaneJudged) -> str:
    """The anomalies that were found in a lane, in words."""
    return ", ".join(f"{label(anomaly)} {count:,}" for anomaly, count in lane.found.items()) or "no anomaly"


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


def chosen_listeners(*, junit: Path | None = None, events: Path | None = None) -> list[Listener]:
    """JUnit XML and JSON lines into files, and the job summary in GitHub Actions; `UsageFailure` for a bad path."""
    for option, path in (("--junit", junit), ("--events", events)):
        if path is not None and not path.parent.is_dir():
            raise UsageFailure(f"{option}: {path}: there is no folder {path.parent}; create it first")
    listeners: list[Listener] = []
    if junit is not None:
        listeners.append(JunitFile(junit))
    if events is not None:
        events.unlink(missing_ok=True)
        listeners.append(EventFile(events))
    if os.environ.get(VARIABLE):
        listeners.append(JobSummary())
    return listeners
