"""Which known defects explain a finding that is forbidden or unexplained, record by record.

Guarantee: defects are named only if the model says that together they make the anomaly reachable in this lane, or that
it is so without them, and if the run shows for each record of the finding what each of them needs: of the same
producer, before the record, in the brokers' own files. Whatever is not recorded explains nothing. Pure Python, no
Spark.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import ABORT, COMMIT
from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS, READ_ON
from kafka_chaos.verification.inputs.documents.faults import MISTIMED
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.parquet import rows_where
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.defect_evidence import (
    EXPLAINS,
    Recorded,
    Sent,
    acknowledged_implicitly,
    is_blocked,
)
from kafka_chaos.verification.judging.result import Identity, Observation
from kafka_chaos.verification.recovery.outages import Outage

_ACKNOWLEDGED = ("producer_id", "partition", "seq", "offset")
_COPY = ("broker", "partition", "offset", "producer_epoch", "kind")
_MARKER = ("broker", "partition", "offset", "producer_id", "kind")
_ENDED = ("producer_id", "transaction", "transactional_id", "begin_ns", "end_ns", "outcome")
_FAILED = ("producer_id", "partition", "complete_ns", "error")
_READ = ("partition", "offset", "consumer", "poll_ns")
_BY_ROWS = frozenset({"KAFKA-14397", *READ_ON})
"""The defects whose preconditions are in the tables and events of any run: no client tells of them."""


def is_watched(run: RunDirectory, lane: Lane) -> bool:
    """Whether a known defect may explain what is found in a lane, record by record."""
    return lane.lane in run.events.preconditions or bool(_concerned(lane))


def _concerned(lane: Lane) -> list[str]:
    return [one for one in sorted(_BY_ROWS) if KNOWN_DEFECTS[one].concerns(lane)]


def preconditions(run: RunDirectory, lane: Lane) -> Sequence[DefectPrecondition]:
    """Those that events report, and those that the run's rows show: records that failed, elections."""
    of_rows = [one for defect in _concerned(lane) for one in _by_rows(run, lane, defect)]
    return (*run.events.preconditions.get(lane.lane, ()), *of_rows)


def _by_rows(run: RunDirectory, lane: Lane, defect: str) -> Iterator[DefectPrecondition]:
    if defect not in READ_ON:
        of = {"lane": [lane.lane], "outcome": ["info"]}
        for producer, partition, failed_ns, error in rows_where(run.tables["produced"].files, "produced", _FAILED, of):
            if failed_ns is not None and error:
                at = {"ts_ns": failed_ns, "producer_id": producer, "partition": partition}
                yield DefectPrecondition(defect=defect, lane=lane.lane, evidence=error, **at)
    elif not any(fault.kind in MISTIMED for fault in run.events.concerning(lane.lane)):
        # Where clocks were moved, nobody knows when brokers logged an election.
        for partition in range(lane.partitions):
            for won in run.events.elected(lane.lane, partition):
                told = f"broker {won.broker} led in epoch {won.leader_epoch} from offset {won.start_offset} on"
                at = {"ts_ns": won.ts_ns, "partition": partition}
                yield DefectPrecondition(defect=defect, lane=lane.lane, evidence=told, **at)


def explaining_outages(run: RunDirectory, lane: Lane, outages: Collection[Outage]) -> tuple[tuple[str, ...], ...]:
    """The sets of known defects that explain each of these outages: KAFKA-8803, or none."""
    if not outages or not KNOWN_DEFECTS["KAFKA-8803"].concerns(lane):
        return ()
    moved = [fault for fault in run.events.concerning(lane.lane) if fault.kind in MISTIMED and fault.problem is None]
    met = [one for one in run.events.preconditions.get(lane.lane, ()) if one.defect == "KAFKA-8803"]
    producers = lane.transactional.producers if lane.transactional is not None else 0

    def is_explained(outage: Outage) -> bool:
        blocked = {one.transactional_id for one in met if is_blocked(one, outage, moved)}
        # Records of a partition wait for nobody else where each of its producers is blocked.
        return outage.client in blocked if outage.client else len(blocked) >= producers > 0

    return (("KAFKA-8803",),) if all(map(is_explained, outages)) else ()


def explaining(
    run: RunDirectory, lane: Lane, prediction: LanePrediction, anomaly: AnyAnomaly, seen: Observation
) -> tuple[tuple[str, ...], ...]:
    """The sets of known defects that explain each record of what was found of an anomaly.

    The model says which make a forbidden one reachable. Of one that is permitted, and unexplained, it can be each.
    """
    met = preconditions(run, lane)
    occurred = {one.defect for one in met} & EXPLAINS.keys()
    possible = prediction.known_defects.get(anomaly, ())
    if prediction.statuses.get(anomaly) == Status.PERMITTED:
        possible = tuple((defect,) for defect in sorted(occurred))
    named = [defects for defects in possible if occurred.issuperset(defects)]
    if not named or not seen.records or len(seen.records) != seen.count:
        return ()
    recorded = recorded_of(run, lane, seen.records, met)

    def explains(defect: str, record: Identity) -> bool:
        return any(one.defect == defect and EXPLAINS[defect](one, anomaly, record, recorded) for one in met)

    return tuple(
        defects for defects in named if all(explains(defect, record) for defect in defects for record in seen.records)
    )


def recorded_of(
    run: RunDirectory, lane: Lane, records: Collection[Identity], met: Collection[DefectPrecondition]
) -> Recorded:
    """The rows of the run's tables about these records of the lane, its transactions, and the subjects of `met`."""
    found = Recorded()
    of = {name: {record[at] for record in records} - {None} for at, name in enumerate(("producer_id", "seq"))}

    def rows(table: str, *columns: str, **of: Collection[Any]) -> Iterable[tuple[Any, ...]]:
        return rows_where(run.tables[table].files, table, columns, {"lane": [lane.lane], **of})

    for producer, seq, *row in rows("produced", *of, *Sent._fields, **of):
        found.sent[producer, seq].append(Sent(*row))
    if producers := {one.producer_id for one in met if one.messages is not None} - {None}:
        placed: dict[tuple[int, int], int] = {}
        unplaced: list[tuple[int, int, int]] = []
        for producer, partition, seq, offset in rows("produced", *_ACKNOWLEDGED, producer_id=producers, outcome=["ok"]):
            if offset is None and partition is not None:
                unplaced.append((producer, partition, seq))
            elif offset is not None:
                placed[producer, partition] = min(seq, placed.get((producer, partition), seq))
        for producer, partition, seq in sorted(unplaced):
            if seq < placed.get((producer, partition), seq + 1):
                found.unplaced[producer, partition].append(seq)
    for producer, seq, *row in rows("log", *of, "partition", "offset", **of):
        found.stored[producer, seq].append(tuple(row))
    if acknowledged := {one.offset for each in found.sent.values() for one in each} - {None}:
        for partition, offset, *holder in rows("log", "partition", "offset", *of, offset=acknowledged):
            found.holders[partition, offset].append(tuple(holder))
    if twice := {offset for places in found.stored.values() if len(places) > 1 for _, offset in places}:
        for partition, offset, *claimant in rows("produced", "partition", "offset", *of, outcome=["ok"], offset=twice):
            found.claimants[partition, offset].append(tuple(claimant))
    for producer, seq, broker, partition, offset, epoch, kind in rows("replicas", *of, *_COPY, **of):
        if kind not in (COMMIT, ABORT):
            found.copies[producer, seq][broker, partition].append((offset, epoch))
    if any(one.defect in READ_ON for one in met):
        places = {place for of_record in found.stored.values() for place in of_record}
        for partition, offset, consumer, poll_ns in rows("consumed", *_READ, partition={place[0] for place in places}):
            last = found.reached[partition].get(consumer, offset)
            found.reached[partition][consumer] = max(last, offset)
            if (partition, offset) in places:
                found.reads[partition, offset].append((consumer, poll_ns))
                found.first_ns[partition] = min(poll_ns, found.first_ns.get(partition, poll_ns))
    if lane.transactional is not None:
        for broker, partition, *row in rows("replicas", *_MARKER, kind=[COMMIT, ABORT]):
            found.markers[broker, partition].append(tuple(row))
        for producer, number, *row in rows("transactions", *_ENDED):
            found.transactions[producer, number].append(tuple(row))
    return found


def implied(run: RunDirectory, lane: Lane) -> int:
    """How many acknowledgements named no offset, as the producers' own logs say: those of KAFKA-15591, and others."""
    met = run.events.preconditions.get(lane.lane, ())
    of_partitions = {
        (one.producer_id, one.partition): one.messages or 0
        for one in met
        if EXPLAINS.get(one.defect) is acknowledged_implicitly
    }
    return sum(of_partitions.values()) + run.events.unplaced.get(lane.lane, 0)
