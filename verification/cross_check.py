"""A cross-check at a run: DuckDB examines the same files while Spark works, and both have to count the same.

Guarantee: one that fails is reported, and never ends the verification. A disagreement makes its lane and the run
`unknown`, and names both counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.lane.families import ALL_ANOMALIES, AnyAnomaly
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.ledger import CrossCheck, Disagreement
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.closure.resolve import Unresolved
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.result import RunVerdict

MOST_ROWS = 1_000_000
"""A larger run is not looked at twice: both engines share the machine."""
_COMPARED = tuple(anomaly for anomaly in ALL_ANOMALIES if not isinstance(anomaly, RecoveryAnomaly))


@dataclass(frozen=True, slots=True)
class Checked:
    """DuckDB's counts by lane and anomaly; `problem`: why it looked at nothing.

    `unresolved`: what the relations find, None if it looked at nothing. Checks that count the same are equal.
    """

    counts: Mapping[tuple[str, AnyAnomaly], int] = field(default_factory=dict)
    problem: str | None = None
    unresolved: Sequence[Unresolved] | None = field(default=None, compare=False)


def cross_checked(run: RunDirectory) -> Checked:
    """DuckDB's counts in the run; files that cannot be read are its `problem`."""
    if not isinstance(run.path, Path):
        return Checked(problem="only local run directories are looked at twice")
    if any(table.counted for table in run.tables.values()):
        return Checked(problem="not all tables are files of the run directory")
    if run.rows > MOST_ROWS:
        return Checked(problem=f"the run has more than {MOST_ROWS:,} rows")
    from kafka_chaos.verification.by_statements import examine
    from kafka_chaos.verification.engines.duckdb_engine import DuckDb

    try:
        with DuckDb(run) as engine:
            examined = examine(engine, run)
        counts = {key: seen.count for key, seen in examined.observed.items()}
        return Checked(counts, unresolved=examined.unresolved)
    except (RunDirectoryError, OSError, ValueError, pa.ArrowException, duckdb.Error) as error:
        # Whatever is wrong with a file, Spark's answer is about what Spark could read.
        return Checked(problem=f"it failed: {type(error).__name__}: {error}")


def with_cross_check(verdict: RunVerdict, checked: Checked, rows: int) -> RunVerdict:
    """The verdict after the cross-check. `rows`: those of the run."""
    if checked.problem is not None:
        return replace(verdict, cross_check=CrossCheck(problem=checked.problem))
    disagreements: list[Disagreement] = []
    lanes = []
    for lane in verdict.lanes:
        counts = {
            anomaly: (lane.count(anomaly) or 0, checked.counts.get((lane.lane, anomaly), 0))
            for anomaly in _COMPARED
            if anomaly not in lane.not_judged
        }
        problems = [
            Disagreement(lane=lane.lane, anomaly=anomaly, spark=spark, duckdb=by_duckdb)
            for anomaly, (spark, by_duckdb) in counts.items()
            if spark != by_duckdb
        ]
        disagreements += problems
        if problems:
            lane = replace(lane, verdict=Verdict.UNKNOWN, reasons=(*map(str, problems), *lane.reasons))
        lanes.append(lane)
    cross_check = CrossCheck(lanes=len(lanes), rows=rows, disagreements=tuple(disagreements))
    gravest = Verdict.UNKNOWN if disagreements else verdict.verdict
    return replace(verdict, lanes=tuple(lanes), verdict=gravest, cross_check=cross_check)
