"""One lane, and what is judged of it with the evidence that a test gives it."""

from itertools import groupby
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.columns import TABLES
from kafka_chaos.contract.events import HighWatermark
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.documents.checkpoints import Checkpoints
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.tables import Table
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.result import LaneVerdict, Observation
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts, ReplicaFacts
from tests.verification.samples.partitions import FULL

LANE = Lane(lane="a")
KILLED = Lane(lane="a", faults=("kill",))
KILL = FaultRecord("kill-1", "kill", requested=[200], proven=[300], healed=[400])
REPLICAS = {broker: ReplicaFacts(10, 0, 9) for broker in (1, 2, 3)}
MARKS = dict.fromkeys(REPLICAS, 10)


def run(
    *,
    log: bool = True,
    faults: tuple[FaultRecord, ...] | None = None,
    replicas: bool = False,
    marks: dict[int, int | None] | None = None,
    reports: tuple[HighWatermark, ...] = (),
) -> RunDirectory:
    given = {"produced": True, "consumed": True, "log": log, "replicas": replicas}
    checkpoints = Checkpoints() if marks is None else Checkpoints({}, {("a", 0): marks}, True)
    tables = {name: Table(given=there) for name, there in given.items()}
    by_place = {place: [*of] for place, of in groupby(reports, lambda one: (one.lane, one.partition))}
    return RunDirectory(Path("run"), (LANE,), tables, Events(faults, by_place), checkpoints=checkpoints)


def verdict_of(
    directory: RunDirectory,
    facts: PartitionFacts | None = FULL,
    *,
    lane: Lane = LANE,
    statuses: dict[Anomaly, Status] | None = None,
    counts: dict[Anomaly, int] | None = None,
    steps: tuple[str, ...] = (),
    unjudged: int = 0,
    replicas: dict[int, ReplicaFacts] | None = None,
    unread: dict[str, tuple[str, ...]] | None = None,
) -> LaneVerdict:
    predicted = LanePrediction(dict.fromkeys(Anomaly, Status.FORBIDDEN) | (statuses or {}), "model", steps, "digest")
    observed = {anomaly: Observation(count) for anomaly, count in (counts or {}).items()}
    of_lane = LaneFacts({0: facts} if facts else {}, unjudged, {0: replicas} if replicas else {})
    return judge(LaneEvidence(directory, lane, of_lane, predicted, observed, unread=unread or {}))


def verdict_with_all_tables(
    facts: LaneFacts,
    *lanes: Lane,
    without: str | None = None,
    statuses: dict[Any, Status] | None = None,
    counts: dict[Any, int] | None = None,
    **evidence: Any,
) -> LaneVerdict:
    """The last lane's verdict in a run with every table but the one named; unless told otherwise, all is forbidden."""
    directory = RunDirectory(Path("run"), lanes, {name: Table(given=name != without) for name in TABLES}, Events(None))
    lane = lanes[-1]
    predicted = dict.fromkeys(lane.anomalies, Status.FORBIDDEN) if statuses is None else statuses
    observed: dict[Any, Observation] = {anomaly: Observation(count) for anomaly, count in (counts or {}).items()}
    prediction = LanePrediction(predicted, "model", (), "digest")
    return judge(LaneEvidence(directory, lane, facts, prediction, observed, **evidence))
