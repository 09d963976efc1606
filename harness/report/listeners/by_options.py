"""The listeners that a command's options and the environment ask for: JUnit XML, events, and a GitHub job's summary.

JUnit XML has one test case per lane. A violation is a failure, or skipped if it was accepted as a known defect. An
unknown lane, and a run that ended without verdicts, are errors. The summary goes to the file that GITHUB_STEP_SUMMARY
names.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.events import Event, LaneJudged, RunEnded, RunStarted
from kafka_chaos.harness.event_bus import EventFile, Listener
from kafka_chaos.harness.report.pages import environment, label
from kafka_chaos.harness.report.svg import xml_text

_SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


class RunSummary:
    """Listener that fills a template when a run has ended or failed, and hands the text to `write`.

    A run that failed before it began has the experiment `kafka-chaos` and no lanes.
    """

    def __init__(self, template: str, write: Callable[[str], object]) -> None:
        # Markup, a subclass of str, is clean already.
        pages = environment().overlay(
            autoescape=".xml" in template, finalize=lambda value: xml_text(value) if type(value) is str else value
        )
        pages.filters = pages.filters | {"found_in": _found_in}  # a copy: the overlay shares the environment's filters
        self._template, self._write = pages.get_template(template), write
        self._started = RunStarted(run_id="", experiment="kafka-chaos", lanes=())
        self._judged: dict[str, LaneJudged] = {}

    def __call__(self, event: Event) -> None:
        """Remember the verdicts; write at the end."""
        match event:
            case RunStarted():
                self._started = event
            case LaneJudged():
                self._judged[event.lane] = event
            case RunEnded():
                run = {"experiment": self._started.experiment, "lanes": self._started.lanes, "judged": self._judged}
                self._write(self._template.render(ended=event, **run))


def _found_in(counts: Mapping[str, int]) -> str:
    """The anomalies that were found in a lane, in words."""
    return ", ".join(f"{label(anomaly)} {count:,}" for anomaly, count in counts.items()) or "no anomaly"


def write_job_summary(text: str) -> None:
    """Append Markdown to the summary of a job of GitHub Actions; elsewhere, or if that fails, do nothing."""
    if path := os.environ.get(_SUMMARY_VARIABLE):
        with suppress(OSError), Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text.rstrip()}\n\n")


def chosen_listeners(*, junit: Path | None = None, events: Path | None = None) -> list[Listener]:
    """Listeners for JUnit XML, JSON lines, and GitHub's job summary; raises `UsageFailure` for a bad path."""
    for option, path in (("--junit", junit), ("--events", events)):
        if path is not None and not path.parent.is_dir():
            raise UsageFailure(f"{option}: {path}: there is no folder {path.parent}; create it first")
    listeners: list[Listener] = []
    if junit is not None:
        listeners.append(RunSummary("junit.xml.j2", partial(junit.write_text, encoding="utf-8")))
    if events is not None:
        events.unlink(missing_ok=True)
        listeners.append(EventFile(events))
    if os.environ.get(_SUMMARY_VARIABLE):
        listeners.append(RunSummary("job-summary.md.j2", write_job_summary))
    return listeners
