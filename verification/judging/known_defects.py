"""Which known defects explain a finding that is forbidden or unexplained, record by record, and which an outage.

Guarantee: defects are named only if the model says that together they make the anomaly reachable in this lane, or that
it is so without them, and if the run shows for each record of the finding what each of them needs: of the same
producer, before the record, in the brokers' own files (`statements/defects/`). What is not recorded explains nothing.
"""

from collections.abc import Collection, Iterator
from typing import Any

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS, WITHOUT_EPOCH_CHECK
from kafka_chaos.verification.inputs.documents.faults import MISTIMED
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.result import Observation
from kafka_chaos.verification.recovery.outages import Outage

_BY_FAILURES = "KAFKA-14397"
_OVER_ENDS = "librdkafka-4844"
EXPLAINED_BY = {id: defect.explains for id, defect in MODELLED_DEFECTS.items() if defect.explains}
"""By defect, the statement that says which findings it explains. A defect that is not here explains none."""


def preconditions(run: RunDirectory) -> Iterator[tuple[Any, ...]]:
    """The rows of the table `preconditions`: lane, defect, statement, time, producer, partition and the rest.

    No client tells of those that are in the events and tables of any run: elections, and records that failed, which
    `views/met.sql` looks for in the lanes of a row without a time.
    """
    for lane in run.lanes:
        for met in run.events.preconditions.get(lane.lane, ()):
            if met.defect in EXPLAINED_BY:
                told = (met.ts_ns, met.producer_id, met.partition, met.transactional_id)
                commits = None if met.commits is None else int(met.commits)
                yield lane.lane, met.defect, EXPLAINED_BY[met.defect], *told, commits, met.messages
        if MODELLED_DEFECTS[_BY_FAILURES].concerns(lane):
            yield lane.lane, _BY_FAILURES, EXPLAINED_BY[_BY_FAILURES], *(None,) * 6
        if MODELLED_DEFECTS[_OVER_ENDS].concerns(lane):
            # Its members meet the ends of partitions all the time.
            yield lane.lane, _OVER_ENDS, EXPLAINED_BY[_OVER_ENDS], 0, *(None,) * 5
        elections = [won for number in range(lane.partitions) for won in run.events.elected(lane.lane, number)]
        for defect in WITHOUT_EPOCH_CHECK if run.events.knows_times(lane.lane) else ():
            for won in elections if MODELLED_DEFECTS[defect].concerns(lane) else ():
                yield lane.lane, defect, EXPLAINED_BY[defect], won.ts_ns, None, won.partition, None, None, None


def explaining_outages(run: RunDirectory, lane: Lane, outages: Collection[Outage]) -> tuple[tuple[str, ...], ...]:
    """The sets of known defects that explain each of these outages: KAFKA-8803, or none."""
    if not outages or not MODELLED_DEFECTS["KAFKA-8803"].concerns(lane):
        return ()
    moved = [fault for fault in run.events.concerning(lane.lane) if fault.kind in MISTIMED and fault.problem is None]
    met = [event for event in run.events.preconditions.get(lane.lane, ()) if event.defect == "KAFKA-8803"]
    producers = lane.transactional.producers if lane.transactional is not None else 0

    def is_explained(outage: Outage) -> bool:
        # Before it ended, the coordinator refused its own next state for an id, by its log; its clock had been moved.
        coordinators = {name for fault in moved if min(fault.applied) <= outage.end_ns for name in fault.brokers}
        refused = (event for event in met if event.ts_ns <= outage.end_ns and f"broker-{event.broker}" in coordinators)
        blocked = {event.transactional_id for event in refused}
        # Records of a partition wait for nobody else where each of its producers is blocked.
        return outage.client in blocked if outage.client else len(blocked) >= producers > 0

    return (("KAFKA-8803",),) if all(map(is_explained, outages)) else ()


def explaining(prediction: LanePrediction, anomaly: AnyAnomaly, seen: Observation) -> tuple[tuple[str, ...], ...]:
    """The sets of known defects that explain each record of what was found of an anomaly.

    The model says which make a forbidden one reachable. Of one that is permitted, and unexplained, it can be each.
    """
    explained = {defect for defect, count in seen.explained.items() if count == seen.count}
    if prediction.statuses.get(anomaly) == Status.PERMITTED:
        return tuple((defect,) for defect in sorted(explained))
    return tuple(defects for defects in prediction.known_defects.get(anomaly, ()) if explained.issuperset(defects))


def implied(run: RunDirectory, lane: Lane) -> int:
    """How many acknowledgements named no offset, as the producers' own logs say: those of KAFKA-15591, and others."""
    of_partitions = {
        (event.producer_id, event.partition): event.messages or 0
        for event in run.events.preconditions.get(lane.lane, ())
        if EXPLAINED_BY.get(event.defect) == "acknowledged_implicitly"
    }
    return sum(of_partitions.values()) + run.events.unplaced.get(lane.lane, 0)
