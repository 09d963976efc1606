"""The report of a run: one HTML file that opens offline and says what was predicted and what was found.

Guarantee: `report.html` is written whole or not at all, stays below 2 MB for a run of any size, loads nothing from
anywhere, and says by name what the run directory lacks. Only verdict.json and lanes.json are required.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["write_report"]


def write_report(run_dir: Path, *, spark: SparkSession | None = None) -> Path:
    """Write `report.html` into a verified run directory and return its path.

    `spark`: a session to aggregate with; default, the process's own, started only if there is something to
    aggregate. Raises `UsageFailure` where verdict.json or lanes.json is missing or unusable.
    """
    from kafka_chaos.harness.report.evidence import read_evidence
    from kafka_chaos.harness.report.happenings import tell
    from kafka_chaos.harness.report.page import render
    from kafka_chaos.harness.report.series import Series, Span, condense

    evidence = read_evidence(run_dir)
    happenings = tell(evidence)
    series = Series()
    if any(evidence.tables.values()):
        from kafka_chaos.verification import spark_session

        spans = {
            lane: Span(phase.start_ns, phase.end_ns, phase.name) for phase in happenings.phases for lane in phase.lanes
        }
        series = condense(spark or spark_session(), evidence.tables, spans)
    part = run_dir / ".report.html.part"
    part.write_text(render(evidence, happenings, series), encoding="utf-8")
    target = run_dir / "report.html"
    os.replace(part, target)
    return target
