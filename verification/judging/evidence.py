"""The evidence about a lane, which the rules judge, and its ledger.

Of replicas, `judged_below` is the lowest high watermark that a broker reported, or, without checkpoints.json, the
lowest log end. Missing rows below it are a problem, and never lower the limit silently.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kafka_chaos.contract import ledger as contract
from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.ledger import BrokerLedger, ReplicaLedger, ReplicasLedger
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.assessment import reports
from kafka_chaos.verification.judging.result import EXAMPLES, Observation
from kafka_chaos.verification.judging.this_run import ThisRun, in_this_run
from kafka_chaos.verification.lacks import Doubt, Gap
from kafka_chaos.verification.recovery.evidence import Recovery
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts


def _replicas_of(run: RunDirectory, lane: Lane, facts: LaneFacts, number: int) -> ReplicaLedger:
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


@dataclass(frozen=True)
class LaneEvidence:
    """What there is to judge a lane by.

    `found`: what the engine found of its anomalies. `unread`: by table why it was not read in full; then no finding is
    certain that rests on it. `lost_input`: how many records the source of the lane's loop lost after they had been
    read; the model takes it to keep them.
    """

    run: RunDirectory
    lane: Lane
    facts: LaneFacts
    prediction: LanePrediction
    found: Mapping[AnyAnomaly, Observation] = field(default_factory=dict)
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lost_input: int = 0

    @cached_property
    def recovery(self) -> Recovery:
        """The lane's outages with their bounds."""
        return Recovery(self.run, self.lane, self.facts)

    @cached_property
    def predicted(self) -> Mapping[AnyAnomaly, Status]:
        """The statuses for the lane's faults; beyond a bound of recovery, everything is forbidden."""
        return {**self.prediction.statuses, **dict.fromkeys(self.recovery.judged, Status.FORBIDDEN)}

    @cached_property
    def observed(self) -> Mapping[AnyAnomaly, Observation]:
        """What was found of each anomaly, those of recovery included."""
        observed = dict(self.found)
        for anomaly, measured in self.recovery.too_long.items():
            shown = ({"partition": stall.outage.partition, "cause": stall.described} for stall in measured[:EXAMPLES])
            observed[anomaly] = Observation(len(measured), tuple(shown))
        return observed

    def count(self, anomaly: AnyAnomaly) -> int:
        """How often the anomaly was found."""
        return self.observed.get(anomaly, Observation()).count

    @cached_property
    def this_run(self) -> ThisRun:
        """The prediction given what the run showed."""
        anomalies = (*self.lane.anomalies, *RecoveryAnomaly)
        return in_this_run(self.run, self.lane, self.prediction, {one: self.count(one) for one in anomalies})

    @cached_property
    def replicas(self) -> ReplicasLedger | None:
        """The lane's replicas, if the run has replicas/."""
        if not self.run.has("replicas"):
            return None
        partitions = [_replicas_of(self.run, self.lane, self.facts, number) for number in range(self.lane.partitions)]
        return ReplicasLedger(replication_factor=self.lane.replication_factor, partitions=tuple(partitions))

    @cached_property
    def acknowledged(self) -> int:
        """How many of its records were acknowledged."""
        return self.facts.total("acknowledged")

    def ledger(self, missing: Iterable[str], left_out: Sequence[str]) -> contract.Ledger:
        """The lane's entry of verdict.json: what is `missing`, and what was `left_out` on purpose."""
        run, facts = self.run, self.facts
        events = None if run.events.faults is None else run.events.concerning(self.lane.lane)
        return contract.Ledger(
            missing=tuple(dict.fromkeys(missing)),
            left_out=tuple(left_out),
            rows=contract.RowsLedger(
                produced=facts.total("produced"),
                consumed=facts.total("consumed"),
                log=facts.total("stored") if run.has_log else None,
                replicas=facts.replica_rows if run.has("replicas") else None,
            ),
            acknowledged=contract.AcknowledgedLedger(
                records=self.acknowledged, judged=self.acknowledged - facts.unjudged
            ),
            partitions=tuple(
                contract.PartitionLedger(
                    partition=number,
                    log_end=of.log_end,
                    read_to=of.read_end,
                    end_reached=of.end_reached(final_log=run.has_log),
                )
                for number in range(self.lane.partitions)
                for of in [facts.partitions.get(number, PartitionFacts())]
            ),
            faults=contract.FaultsLedger(
                declared=self.lane.faults, events=None if events is None else tuple(fault.ledger() for fault in events)
            ),
            replicas=self.replicas,
            high_watermark_reports=reports(run, self.lane),
            prediction=contract.PredictionLedger(
                source=self.prediction.source,
                recomputed=self.prediction.model_digest is not None,
                model_digest=self.prediction.model_digest,
            ),
            observations=self.this_run.ledger,
            transactions=_transactions_ledger(facts),
            groups=facts.groups,
            share=facts.share,
            recovery=self.recovery.ledger,
        )


def lacks_of_replicas(evidence: LaneEvidence) -> Iterator[Gap | Doubt]:
    """What keeps a lane's replicas from being compared in full; what contradicts other evidence is a doubt as well."""
    problems: list[str] = []
    for partition in evidence.replicas.partitions if evidence.replicas else ():
        where = f"partition {partition.partition}"
        contradictions = [f"{where}: {contradiction}" for contradiction in _contradictions(evidence, partition)]
        yield from map(Doubt, contradictions)
        problems += contradictions
        ends = min((broker.last + 1 for broker in partition.brokers if broker.last is not None), default=0)
        if (limit := partition.judged_below or 0) < ends:
            below = f"compared below the lowest high watermark {limit}, all logs end at {ends} or later"
            problems.append(f"{where}: {below}")
    if problems:
        yield Gap("; ".join(problems), (Anomaly.REPLICA_DIVERGENCE,))


def _contradictions(evidence: LaneEvidence, partition: ReplicaLedger) -> Iterator[str]:
    """Where one piece of evidence about a partition's replicas announces what another one lacks."""
    run, lane, facts = evidence.run, evidence.lane, evidence.facts
    if partition.judged_below is None and run.checkpoints.given:
        yield "neither checkpoints.json nor replicas/ names it"
    replicas, number = facts.replicas.get(partition.partition, {}), partition.partition
    is_stored = number in facts.partitions and facts.partitions[number].stored
    if not (replicas or is_stored or any(broker.high_watermark for broker in partition.brokers)):
        return
    if len(replicas) < lane.replication_factor:
        yield f"replicas/ holds records of {len(replicas)} of {lane.replication_factor} replicas"
    if len(replicas) > lane.replication_factor:
        yield f"replicas/ holds records of {len(replicas)} brokers, expected {lane.replication_factor}"
    for entry in partition.brokers:
        if entry.high_watermark and entry.broker not in replicas:
            yield f"replicas/ holds no record of broker {entry.broker}, whose high watermark is {entry.high_watermark}"
        if entry.high_watermark is None and entry.broker in replicas and run.checkpoints.given:
            yield f"checkpoints.json has no high watermark of broker {entry.broker}"
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


def _transactions_ledger(facts: LaneFacts) -> contract.TransactionsLedger | None:
    """The lane's transactions in verdict.json; None if it is not transactional."""
    found = facts.transactions
    if found is None:
        return None
    open_at = {end.partition: end.offset for end in found.open_ends}
    return contract.TransactionsLedger(
        rows=found.transactions,
        committed=found.committed,
        aborted=found.aborted,
        in_doubt=found.in_doubt,
        markers=found.markers,
        partitions=tuple(
            contract.CommittedLedger(
                partition=number,
                committed_end=partition.committed_end,
                read_to=found.read_to.get(number),
                open_at=open_at.get(number),
            )
            for number, partition in facts.numbered
        ),
    )
