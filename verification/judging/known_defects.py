"""Which known defects explain a forbidden finding.

Guarantee: a defect is named only if the model says that it makes the anomaly reachable in this lane, the run recorded
its precondition, and no replica contradicts it. Pure Python, no Spark.
"""

from __future__ import annotations

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.causes import Cause
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.transactions import AnyAnomaly
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.result import Observation


def explaining(
    run: RunDirectory, lane: Lane, prediction: LanePrediction, anomaly: AnyAnomaly, seen: Observation
) -> tuple[str, ...]:
    """The known defects that explain what was found of a forbidden anomaly."""
    if anomaly == Anomaly.DUPLICATE and run.has("replicas") and set(seen.causes) != {Cause.PRODUCER_EPOCH}:
        # Every defect that duplicates records sends them again in another producer epoch, which replicas show.
        return ()
    occurred = run.events.preconditions.get(lane.lane, frozenset())
    return tuple(defect for defect in prediction.known_defects.get(anomaly, ()) if defect in occurred)
