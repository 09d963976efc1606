"""The listeners that a command's options and its environment ask for."""

from __future__ import annotations

import os
from pathlib import Path

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.event_bus import EventFile, Listener
from kafka_chaos.harness.report.listeners.job_summary import VARIABLE, JobSummary
from kafka_chaos.harness.report.listeners.junit import JunitFile


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
