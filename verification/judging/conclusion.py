"""The findings of an engine in a run, and the verdict on it: the seam between examining rows and judging.

Guarantee: every engine is judged by the same rules. No Spark.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.storage import RunPath
from kafka_chaos.verification.judging.assessment import unread
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.result import Observation, RunVerdict
from kafka_chaos.verification.tables.facts import LaneFacts

FRAMES = "frames"
"""The name of a run that has no directory."""


@dataclass(frozen=True, slots=True)
class Examined:
    """The findings of an engine. Lanes without rows may be missing.

    `observed`: count, first examples and causes of every anomaly that is judged in its lane and was found. `write`:
    writes the rows of findings/ into a folder that does not exist. `of_groups`: the rows of tables that were read for
    groups and share groups.
    """

    facts: Mapping[str, LaneFacts]
    observed: Mapping[tuple[str, AnyAnomaly], Observation]
    write: Callable[[RunPath], None]
    of_groups: Mapping[str, int] = field(default_factory=dict)


def concluded(
    run: RunDirectory, examined: Examined, predictions: Mapping[str, LanePrediction], engine: Engine
) -> RunVerdict:
    """The verdict on what an engine found."""
    # Every table that the run has, with its rows by footer and the rows that the engine read.
    facts = examined.facts
    counted = {
        "produced": sum(lane.total("produced") for lane in facts.values()),
        "consumed": sum(lane.total("consumed") for lane in facts.values()),
        "log": sum(lane.total("stored") for lane in facts.values()),
        "replicas": sum(lane.replica_rows for lane in facts.values()),
        "transactions": sum(lane.transactions.transactions for lane in facts.values() if lane.transactions),
        "assignments": sum(lane.transactions.assignments for lane in facts.values() if lane.transactions),
        **examined.of_groups,
    }
    tables = {name: run.tables[name].ledger(name, rows) for name, rows in counted.items() if run.has(name)}
    missing = unread(run, tables)
    truncated = {name: seen.count for (name, one), seen in examined.observed.items() if one == Anomaly.TRUNCATED_READ}
    lanes = tuple(
        judge(
            LaneEvidence(
                run,
                lane,
                examined.facts.get(lane.lane, LaneFacts()),
                predictions[lane.lane],
                {anomaly: seen for (name, anomaly), seen in examined.observed.items() if name == lane.lane},
                unread=missing,
                # What the source of its loop lost after it had been read.
                lost_input=0 if lane.loop is None else truncated.get(lane.loop.source, 0),
            )
        )
        for lane in run.lanes
    )
    return RunVerdict(
        run_dir=run.path or Path(FRAMES),
        verdict=Verdict.gravest(lane.verdict for lane in lanes),
        lanes=lanes,
        tables=tables,
        engine=engine,
    )
