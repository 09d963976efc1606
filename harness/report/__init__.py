"""The report of a run: one HTML file that opens offline and says what was predicted and what was found.

Guarantee: `report.html` is written whole or not at all, stays below 2 MB for a run of any size, loads no other
file or page, and names what the run directory lacks. Only verdict.json and lanes.json are required.
"""

from pathlib import Path

from kafka_chaos.contract.command.files import write_whole
from kafka_chaos.contract.run_directory import REPORT_FILE

__all__ = ["write_report"]


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into a verified run directory and return its path.

    Raises `UsageFailure` where verdict.json or lanes.json is missing or unusable.
    """
    from kafka_chaos.harness.report.inputs.evidence import read_evidence
    from kafka_chaos.harness.report.inputs.series import condense
    from kafka_chaos.harness.report.report_page import render
    from kafka_chaos.harness.report.timeline.events import timeline_of

    evidence = read_evidence(run_dir)
    timeline = timeline_of(evidence)
    target = run_dir / REPORT_FILE
    write_whole(target, render(evidence, timeline, condense(evidence.tables, timeline.phases)))
    return target
