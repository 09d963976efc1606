"""Assesses the replicas of a lane: which of them exist, how far they can be compared, and contradictions.

Guarantee: `judged_below` is the lowest high watermark that a broker reported, or, without checkpoints.json, the lowest
log end. Missing rows below it are a problem, and never lower the limit silently. Pure Python, no Spark.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.ledger import BrokerLedger, ReplicaLedger, ReplicasLedger
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.facts import LaneFacts


@dataclass(frozen=True, slots=True)
class ReplicaEvidence:
    """`contradictions`: where a piece of evidence announces what another lacks. `problems`: these, and whatever else
    keeps the comparison incomplete."""

    ledger: ReplicasLedger
    problems: tuple[str, ...]
    contradictions: tuple[str, ...]


def replica_evidence(run: RunDirectory, lane: Lane, facts: LaneFacts) -> ReplicaEvidence:
    """The evidence about a lane in replicas/ and checkpoints.json."""
    problems, contradictions, partitions = [], [], []
    for number in range(lane.partitions):
        partition = _partition(run, lane, facts, number)
        found = [f"partition {number}: {what}" for what in _contradictions(run, lane, facts, partition)]
        contradictions += found
        problems += found
        ends = min((one.last + 1 for one in partition.brokers if one.last is not None), default=0)
        if (limit := partition.judged_below or 0) < ends:
            below = f"compared below the lowest high watermark {limit}, all logs end at {ends} or later"
            problems.append(f"partition {number}: {below}")
        partitions.append(partition)
    ledger = ReplicasLedger(replication_factor=lane.replication_factor, partitions=tuple(partitions))
    return ReplicaEvidence(ledger, tuple(problems), tuple(contradictions))


def _partition(run: RunDirectory, lane: Lane, facts: LaneFacts, number: int) -> ReplicaLedger:
    """The replicas of a partition, and below which offset they are compared: None if nothing is known about them."""
    replicas = facts.replicas.get(number, {})
    marks = run.checkpoints.high_watermarks.get((lane.lane, number), {})
    known = [mark for mark in marks.values() if mark is not None]
    ends = [replica.last + 1 for replica in replicas.values()]
    brokers = []
    for broker in sorted({*replicas, *marks}):
        found, mark = replicas.get(broker), marks.get(broker)
        rows, first, last = (found.rows, found.first, found.last) if found else (0, None, None)
        brokers.append(BrokerLedger(broker=broker, rows=rows, first=first, last=last, high_watermark=mark))
    return ReplicaLedger(partition=number, judged_below=min(known or ends, default=None), brokers=tuple(brokers))


def _contradictions(run: RunDirectory, lane: Lane, facts: LaneFacts, partition: ReplicaLedger) -> Iterator[str]:
    if partition.judged_below is None and run.checkpoints.given:
        yield "neither checkpoints.json nor replicas/ names it"
    replicas, number = facts.replicas.get(partition.partition, {}), partition.partition
    is_stored = number in facts.partitions and facts.partitions[number].stored
    if not (replicas or is_stored or any(one.high_watermark for one in partition.brokers)):
        return
    if len(replicas) < lane.replication_factor:
        yield f"replicas/ holds records of {len(replicas)} of {lane.replication_factor} replicas"
    if len(replicas) > lane.replication_factor:
        yield f"replicas/ holds records of {len(replicas)} brokers, expected {lane.replication_factor}"
    for one in partition.brokers:
        if one.high_watermark and one.broker not in replicas:
            yield f"replicas/ holds no record of broker {one.broker}, whose high watermark is {one.high_watermark}"
        if one.high_watermark is None and one.broker in replicas and run.checkpoints.given:
            yield f"checkpoints.json has no high watermark of broker {one.broker}"
    for broker, replica in sorted(replicas.items()):
        mark = run.checkpoints.high_watermarks.get((lane.lane, number), {}).get(broker)
        if mark is not None and replica.last + 1 < mark:
            yield f"the replica of broker {broker} ends at offset {replica.last}, below its high watermark {mark}"
        if lane.cleanup_policy is None:
            first = min(other.first for other in replicas.values())
            if not replica.is_whole:
                expected = replica.last - replica.first + 1
                yield f"the replica of broker {broker} has {replica.rows} rows for {expected} offsets"
            if replica.first > first:
                yield f"the replica of broker {broker} begins at offset {replica.first}, another one at {first}"
