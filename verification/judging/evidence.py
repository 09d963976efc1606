"""The evidence about a lane, which the rules judge, and its ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kafka_chaos.contract import ledger as contract
from kafka_chaos.contract.anomalies import Status
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.assessment import reports
from kafka_chaos.verification.judging.replicas import ReplicaEvidence, replica_evidence
from kafka_chaos.verification.judging.result import EXAMPLES, Observation
from kafka_chaos.verification.judging.this_run import ThisRun, in_this_run
from kafka_chaos.verification.recovery.evidence import Measured, Recovery
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts
from kafka_chaos.verification.transactions.evidence import transactions_ledger


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
        return {**self.found, **{one: _observation(measured) for one, measured in self.recovery.too_long.items()}}

    def count(self, anomaly: AnyAnomaly) -> int:
        """How often the anomaly was found."""
        return self.observed.get(anomaly, Observation()).count

    @cached_property
    def this_run(self) -> ThisRun:
        """The prediction given what the run showed."""
        anomalies = (*self.lane.anomalies, *RecoveryAnomaly)
        return in_this_run(self.run, self.lane, self.prediction, {one: self.count(one) for one in anomalies})

    @cached_property
    def replicas(self) -> ReplicaEvidence | None:
        """The lane's replicas, if the run has replicas/."""
        return replica_evidence(self.run, self.lane, self.facts) if self.run.has("replicas") else None

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
            partitions=tuple(self._partition(number) for number in range(self.lane.partitions)),
            faults=contract.FaultsLedger(
                declared=self.lane.faults, events=None if events is None else tuple(fault.ledger() for fault in events)
            ),
            replicas=None if self.replicas is None else self.replicas.ledger,
            high_watermark_reports=reports(run, self.lane),
            prediction=contract.PredictionLedger(
                source=self.prediction.source,
                recomputed=self.prediction.model_digest is not None,
                model_digest=self.prediction.model_digest,
            ),
            observations=self.this_run.ledger,
            transactions=transactions_ledger(facts),
            groups=facts.groups,
            share=facts.share,
            recovery=self.recovery.ledger,
        )

    def _partition(self, number: int) -> contract.PartitionLedger:
        facts = self.facts.partitions.get(number, PartitionFacts())
        reached = facts.end_reached(final_log=self.run.has_log)
        return contract.PartitionLedger(
            partition=number, log_end=facts.log_end, read_to=facts.read_end, end_reached=reached
        )


def _observation(measured: Sequence[Measured]) -> Observation:
    shown = ({"partition": one.outage.partition, "cause": one.described} for one in measured[:EXAMPLES])
    return Observation(len(measured), tuple(shown))
