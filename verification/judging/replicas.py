"""Assesses the replicas of a lane: which of them exist, how far they can be compared, and contradictions.

Guarantee: `judged_below` is the lowest high watermark that a broker reported, or, without checkpoints.json, the lowest
log end. Missing rows below it are a problem, and never lower the limit silently. Pure Python, no Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_chaos.contract import ledger as contract
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.tables.facts import LaneFacts, ReplicaFacts

Marks = Mapping[int, int | None]


@dataclass(slots=True)
class ReplicaEvidence:
    """`limits`: by partition, the offset below which replicas are compared. `problems`: why the comparison is
    incomplete. `contradictions`: the problems in which one piece of evidence announces what another lacks.
    """

    replicas: Mapping[int, Mapping[int, ReplicaFacts]]
    marks: Mapping[int, Marks]
    limits: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)

    def ledger(self, lane: Lane) -> contract.ReplicasLedger:
        """The lane's replicas in verdict.json."""
        partitions = tuple(self._partition(partition) for partition in range(lane.partitions))
        return contract.ReplicasLedger(replication_factor=lane.replication_factor, partitions=partitions)

    def _partition(self, partition: int) -> contract.ReplicaLedger:
        replicas, marks = self.replicas.get(partition, {}), self.marks.get(partition, {})
        brokers = []
        for broker in sorted({*replicas, *marks}):
            found = replicas.get(broker)
            brokers.append(
                contract.BrokerLedger(
                    broker=broker,
                    rows=found.rows if found else 0,
                    first=found.first if found else None,
                    last=found.last if found else None,
                    high_watermark=marks.get(broker),
                )
            )
        return contract.ReplicaLedger(
            partition=partition, judged_below=self.limits.get(partition), brokers=tuple(brokers)
        )

    def contradict(self, problem: str) -> None:
        """Add a contradiction, which is a problem, too."""
        self.problems.append(problem)
        self.contradictions.append(problem)


def replica_evidence(run: RunDirectory, lane: Lane, facts: LaneFacts) -> ReplicaEvidence:
    """The evidence about a lane in replicas/ and checkpoints.json."""
    marks = {number: run.checkpoints.high_watermarks.get((lane.lane, number), {}) for number in range(lane.partitions)}
    evidence = ReplicaEvidence(facts.replicas, marks)
    for partition in range(lane.partitions):
        replicas = facts.replicas.get(partition, {})
        limit = limit_of(replicas, marks[partition])
        if limit is not None:
            evidence.limits[partition] = limit
        elif run.checkpoints.given:
            evidence.contradict(f"partition {partition}: neither checkpoints.json nor replicas/ names it")
        holds_records = partition in facts.partitions and facts.partitions[partition].stored
        if replicas or any(marks[partition].values()) or holds_records:
            _check_presence(evidence, run, lane, partition)
            for broker, replica in sorted(replicas.items()):
                _check_replica(evidence, lane, partition, broker, replica)
    return evidence


def limit_of(replicas: Mapping[int, ReplicaFacts], marks: Marks) -> int | None:
    """The offset below which replicas are compared; None if nothing is known about them."""
    known = [mark for mark in marks.values() if mark is not None]
    ends = [replica.last + 1 for replica in replicas.values()]
    return min(known or ends, default=None)


def _check_presence(evidence: ReplicaEvidence, run: RunDirectory, lane: Lane, partition: int) -> None:
    replicas, marks = evidence.replicas.get(partition, {}), evidence.marks[partition]
    if len(replicas) < lane.replication_factor:
        present = f"{len(replicas)} of {lane.replication_factor} replicas"
        evidence.contradict(f"partition {partition}: replicas/ holds records of {present}")
    if len(replicas) > lane.replication_factor:
        present = f"{len(replicas)} brokers, expected {lane.replication_factor}"
        evidence.contradict(f"partition {partition}: replicas/ holds records of {present}")
    for broker in sorted(broker for broker, mark in marks.items() if mark and broker not in replicas):
        evidence.contradict(
            f"partition {partition}: replicas/ holds no record of broker {broker}, whose high watermark is "
            f"{marks[broker]}"
        )
    ends = min((replica.last + 1 for replica in replicas.values()), default=0)
    if (limit := evidence.limits.get(partition, 0)) < ends:
        evidence.problems.append(
            f"partition {partition}: compared below the lowest high watermark {limit}, all logs end at {ends} or later"
        )
    if run.checkpoints.given:
        for broker in sorted(broker for broker in replicas if marks.get(broker) is None):
            evidence.contradict(f"partition {partition}: checkpoints.json has no high watermark of broker {broker}")


def _check_replica(evidence: ReplicaEvidence, lane: Lane, partition: int, broker: int, replica: ReplicaFacts) -> None:
    place = f"partition {partition}: the replica of broker {broker}"
    mark = evidence.marks[partition].get(broker)
    if mark is not None and replica.last + 1 < mark:
        evidence.contradict(f"{place} ends at offset {replica.last}, below its high watermark {mark}")
    if lane.cleanup_policy is not None:
        return
    if not replica.is_whole:
        expected = replica.last - replica.first + 1
        evidence.contradict(f"{place} has {replica.rows} rows for {expected} offsets")
    first = min(other.first for other in evidence.replicas[partition].values())
    if replica.first > first:
        evidence.contradict(f"{place} begins at offset {replica.first}, another one at {first}")
