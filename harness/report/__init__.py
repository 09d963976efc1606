"""The report of a run: one HTML file that opens offline and says what was predicted and what was found.

Guarantee: `report.html` is written whole or not at all, stays below 2 MB for a run of any size, loads nothing from
anywhere, and says by name what the run directory lacks. Only verdict.json and lanes.json are required.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.command.progress import progress
from kafka_chaos.contract.run_directory import REPORT_FILE

if TYPE_CHECKING:
    from kafka_chaos.harness.report.side_by_side import Difference, Side

__all__ = ["write_report", "write_side_by_side"]


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into a verified run directory and return its path.

    Raises `UsageFailure` where verdict.json or lanes.json is missing or unusable.
    """
    from kafka_chaos.harness.report.page import render

    side = _read(run_dir)
    target = run_dir / REPORT_FILE
    write_whole(target, render(side.evidence, side.timeline_events, side.series))
    return target


def write_side_by_side(before: Path, after: Path, target: Path, differences: Sequence[Difference]) -> None:
    """Write a page with two verified runs side by side; `differences`: those of their settings. As `write_report`."""
    from kafka_chaos.harness.report.side_by_side import render

    sides = []
    for number, run_dir in enumerate((before, after)):
        progress(number, 2, str(run_dir))
        sides.append(_read(run_dir))
    write_whole(target, render((sides[0], sides[1]), differences))


def _read(run_dir: Path) -> Side:
    """The part of a run that pages show."""
    from kafka_chaos.harness.report.inputs.evidence import read_evidence
    from kafka_chaos.harness.report.inputs.series import Span, condense
    from kafka_chaos.harness.report.side_by_side import Side
    from kafka_chaos.harness.report.timeline.events import timeline_events_of

    evidence = read_evidence(run_dir)
    timeline_events = timeline_events_of(evidence)
    spans = {
        lane: Span(phase.start_ns, phase.end_ns, phase.name) for phase in timeline_events.phases for lane in phase.lanes
    }
    return Side(evidence, timeline_events, condense(evidence.tables, spans))
