"""Assesses the evidence of a lane: what it can't show, where it is incomplete, and its ledger.

Guarantee: names every piece of evidence that a lane lacks, as left out on purpose or as missing. Pure Python, no Spark.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kafka_chaos.contract import ledger as contract
from kafka_chaos.contract.anomalies import Anomaly, Trait, those
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.events import IsrChanged
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.fault_kinds import LOCKSTEP
from kafka_chaos.contract.lane.groups import OF_LOOPS
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import SERVER
from kafka_chaos.verification.groups import evidence as of_groups
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.known_defects import implied
from kafka_chaos.verification.judging.replicas import ReplicaEvidence, replica_evidence
from kafka_chaos.verification.judging.unexplained import unexplained
from kafka_chaos.verification.recovery import evidence as of_recovery
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts
from kafka_chaos.verification.transactions import evidence as of_transactions

HISTORY = ("produced", "consumed", "log")
"""The tables that show all anomalies except those of replicas."""


class Family(Protocol):
    """A family's judgement of a lane's evidence; empty for a lane without its anomalies."""

    def not_shown(self, run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
        """The anomalies that are not searched for, and why."""

    def proves_nothing(self, run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[AnyAnomaly, str]:
        """The anomalies whose absence proves nothing, and why."""

    def doubts(self, run: RunDirectory, lane: Lane, facts: LaneFacts) -> list[str]:
        """Why the lane can't conform, whatever was found."""


FAMILIES: tuple[Family, ...] = (of_transactions, of_groups, of_recovery)
"""The families that only some lanes have, and that of recovery. Those of all lanes are assessed here."""


@dataclass(slots=True)
class EvidenceAssessment:
    """A lane's evidence.

    `not_applied`: anomalies that are not searched for, and why. `incomplete`: anomalies whose absence proves nothing.
    `doubts`: why the lane cannot conform. `left_out`: evidence that the run did not collect on purpose.
    """

    run: RunDirectory
    lane: Lane
    facts: LaneFacts
    prediction: LanePrediction
    replicas: ReplicaEvidence | None
    not_applied: dict[AnyAnomaly, str] = field(default_factory=dict)
    incomplete: dict[AnyAnomaly, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def ledger(self) -> contract.Ledger:
        """The lane's entry of verdict.json."""
        run, facts = self.run, self.facts
        acknowledged = facts.total("acknowledged")
        missing = [*self.doubts, *self.incomplete.values()]
        events = None if run.events.faults is None else run.events.concerning(self.lane.lane)
        return contract.Ledger(
            missing=tuple(dict.fromkeys(missing)),
            left_out=tuple(self.left_out),
            rows=contract.RowsLedger(
                produced=facts.total("produced"),
                consumed=facts.total("consumed"),
                log=facts.total("stored") if run.has_log else None,
                replicas=facts.replica_rows if run.has("replicas") else None,
            ),
            acknowledged=contract.AcknowledgedLedger(records=acknowledged, judged=acknowledged - facts.unjudged),
            partitions=tuple(self._partition(number) for number in range(self.lane.partitions)),
            faults=contract.FaultsLedger(
                declared=self.lane.faults, events=None if events is None else tuple(fault.ledger() for fault in events)
            ),
            replicas=None if self.replicas is None else self.replicas.ledger(self.lane),
            high_watermark_reports=_reports(run, self.lane),
            prediction=contract.PredictionLedger(
                source=self.prediction.source,
                recomputed=self.prediction.model_digest is not None,
                model_digest=self.prediction.model_digest,
            ),
            transactions=of_transactions.transactions_ledger(facts),
            groups=of_groups.groups_ledger(facts),
            recovery=of_recovery.recovery_ledger(of_recovery.Recovery(run, self.lane, facts)),
        )

    def _partition(self, number: int) -> contract.PartitionLedger:
        facts = self.facts.partitions.get(number, PartitionFacts())
        reached = facts.end_reached(final_log=self.run.has_log)
        return contract.PartitionLedger(
            partition=number, log_end=facts.log_end, read_to=facts.read_end, end_reached=reached
        )


def assessment_of(run: RunDirectory, lane: Lane, facts: LaneFacts, prediction: LanePrediction) -> EvidenceAssessment:
    """The assessment of a lane's evidence."""
    replicas = replica_evidence(run, lane, facts) if run.has("replicas") else None
    assessment = EvidenceAssessment(run, lane, facts, prediction, replicas)
    assessment.not_applied.update(not_applied(run, lane, facts))
    _of_what_is_there(assessment)
    _of_history(assessment)
    for family in FAMILIES:
        assessment.incomplete.update(family.proves_nothing(run, lane, facts))
        assessment.doubts += family.doubts(run, lane, facts)
    _of_faults(assessment)
    assessment.doubts += unexplained(run, lane)
    for doubt in run.doubts.get(lane.lane, ()):
        assessment.doubts.append(doubt.text)
        assessment.incomplete.update({one: doubt.text for one in doubt.rests if one in lane.anomalies})
    if replicas is not None and replicas.problems:
        assessment.incomplete[Anomaly.REPLICA_DIVERGENCE] = "; ".join(replicas.problems)
        assessment.doubts += replicas.contradictions
    if prediction.model_digest is None:
        assessment.doubts.append("the model could not confirm prediction.json: its search was not exhausted")
    return assessment


def unread(run: RunDirectory, tables: Mapping[str, contract.TableLedger], names: Iterable[str]) -> tuple[str, ...]:
    """Why these tables were not read in full, each row once."""
    problems: list[str] = []
    for name in names:
        problems += run.tables[name].unread
        table = tables.get(name)
        if table is not None and table.rows_as_read != table.rows_by_footer:
            read, there = table.rows_as_read, table.rows_by_footer
            problems.append(f"{name}/ holds {there} rows by its files' footers, but {read} were read")
    return tuple(problems)


def not_applied(run: RunDirectory, lane: Lane, facts: LaneFacts) -> Mapping[AnyAnomaly, str]:
    """The anomalies that are not searched for in this lane, and why. They never count as clean."""
    reasons: dict[AnyAnomaly, str] = {}
    if not run.has_log:
        reasons.update(dict.fromkeys(those(Anomaly, Trait.BY_LOG), "there is no final log (log/)"))
    if not run.has("replicas"):
        reasons[Anomaly.REPLICA_DIVERGENCE] = "there are no replica logs (replicas/)"
    if not _reports(run, lane):
        reasons[Anomaly.HIGH_WATERMARK_REGRESSION] = "events.jsonl holds no high_watermark reports of this lane"
    if lane.cleanup_policy is not None and not run.has_log:
        reasons[Anomaly.SKIPPED_POLL] = f"cleanup.policy={lane.cleanup_policy} removes records"
    for family in FAMILIES:
        reasons.update(family.not_shown(run, lane, facts))
    reasons.update(by_configuration(lane))
    return reasons


def by_configuration(lane: Lane) -> dict[AnyAnomaly, str]:
    """The anomalies that a lane's configuration keeps from being judged, whatever a run of it shows, and why."""
    reasons: dict[AnyAnomaly, str] = {}
    if lane.cleanup_policy is not None:
        removes = f"cleanup.policy={lane.cleanup_policy} removes"
        reasons.update(dict.fromkeys(those(Anomaly, Trait.NOT_AFTER_CLEANUP), f"{removes} records"))
        if lane.transactional is not None:
            reasons.update(dict.fromkeys(of_transactions.BY_THE_LOG, f"{removes} records and markers"))
        if lane.loop is not None:
            reasons.update(dict.fromkeys(OF_LOOPS, f"{removes} outputs"))
    return {**reasons, **lane.assumed}


def _reports(run: RunDirectory, lane: Lane) -> int:
    return sum(len(reports) for (name, _), reports in run.events.reports.items() if name == lane.lane)


def _of_what_is_there(assessment: EvidenceAssessment) -> None:
    """Which tables were left out, and which exist but are not read."""
    run = assessment.run
    replicas = run.tables["replicas"]
    if not run.has_log and not run.tables["log"].unread:
        assessment.left_out.append("no log/: the final log is unknown")
    if not replicas.given and not replicas.unread:
        assessment.left_out.append("no replicas/: replicas are not compared")
    if replicas.given and not run.checkpoints.given:
        assessment.left_out.append("no checkpoints.json: replicas are compared below the lowest log end")
    if run.events.faults is None:
        assessment.left_out.append("no events.jsonl: proofs of faults are not judged")
    if not run.timings:
        assessment.left_out.append("no timings.json: recovery is not judged")
    assessment.doubts += [
        f"{name}/ is missing: events.jsonl announces it, so the run ended before it was collected"
        for name in run.events.collects
        if not run.tables[name].given and not run.tables[name].unread
    ]
    if run.is_planned and "replicas" in run.events.collects and not run.checkpoints.given:
        assessment.doubts.append("checkpoints.json is missing, which is written with the replicas/ of events.jsonl")
    if not _reports(run, assessment.lane):
        assessment.left_out.append("no reports of high watermarks")


def _of_history(assessment: EvidenceAssessment) -> None:
    run, facts, doubts = assessment.run, assessment.facts, assessment.doubts
    doubts += [
        f"the load of phase {phase} never ended: events.jsonl reports no phase_ended"
        for phase in run.events.unfinished(assessment.lane.lane)
    ]
    doubts += run.events.doubts.get(assessment.lane.lane, ())
    acknowledged = facts.total("acknowledged")
    if not facts.total("produced"):
        doubts.append("empty history: nothing was produced")
    elif not acknowledged:
        doubts.append("nothing was acknowledged: no record could be lost")
    elif run.has_log and not facts.total("stored"):
        doubts.append(f"log/ holds no record of this lane, although {acknowledged} were acknowledged")
    for partition, of_partition in sorted(facts.partitions.items(), key=lambda item: item[0] or 0):
        if partition is not None and not of_partition.end_reached(final_log=run.has_log):
            end = of_partition.end(final_log=run.has_log)
            read = of_partition.read_end
            far = "nothing of it was read" if read is None else f"the last offset read is {read}"
            doubts.append(f"no consumer reached the end of partition {partition}, offset {end}: {far}")
    doubts += _cut_logs(assessment)
    if doubled := facts.total("doubled"):
        doubts.append(f"log/ holds {doubled} rows twice")
    placed = acknowledged - facts.total("unplaced")
    if assessment.lane.acks == "0" and placed:
        doubts.append(f"{counted(placed, 'acknowledgement')} name an offset, which no broker answers to acks=0")
    if assessment.lane.acks != "0" and (unplaced := facts.total("unplaced")):
        why = f"{counted(unplaced, 'acknowledgement')} name no offset"
        if run.is_planned and unplaced > implied(run, assessment.lane):
            doubts.append(why)
        assessment.incomplete.update(dict.fromkeys((Anomaly.OFFSET_MISMATCH, Anomaly.INCONSISTENT_OFFSET), why))
    if facts.unjudged:
        why = f"{facts.unjudged} of {acknowledged} acknowledged records were read by nobody, and "
        if run.has_log:
            doubts.append(why + "are not in the log, from which records are removed")
        else:
            why += "there is no final log (log/)"
            assessment.incomplete.update(dict.fromkeys(those(Anomaly, Trait.BY_READS), why))


def _cut_logs(assessment: EvidenceAssessment) -> Iterator[str]:
    """The partitions whose log/ ends before what some broker knows to be committed. Markers are not in log/."""
    run, lane = assessment.run, assessment.lane
    if not run.has_log or lane.cleanup_policy is not None or lane.transactional is not None:
        return
    for partition in range(lane.partitions):
        marks = run.checkpoints.high_watermarks.get((lane.lane, partition), {})
        known = [(mark, broker) for broker, mark in marks.items() if mark is not None]
        end = assessment.facts.partitions.get(partition, PartitionFacts()).log_end
        last = -1 if end is None else end
        if known and max(known)[0] > last + 1:
            (lowest, _), (highest, broker) = min(known), max(known)
            mark = f"every broker's high watermark, {lowest}"
            if lowest <= last + 1:
                mark = f"a high watermark, {highest} of broker {broker}"
            yield f"partition {partition}: log/ ends at offset {last}, below {mark}"


def _of_faults(assessment: EvidenceAssessment) -> None:
    run, lane, doubts = assessment.run, assessment.lane, assessment.doubts
    faults = run.events.concerning(lane.lane)
    late = lane.created_late
    moments = [(((late and one.healed) or one.requested)[0], one.fault_id) for one in faults if one.requested]
    if moments:
        moment_ns, fault_id = max(moments) if late else min(moments)
        acknowledged_ns = assessment.facts.first_acknowledged_ns
        if acknowledged_ns is None or acknowledged_ns >= moment_ns:
            doubts.append(
                f"no acknowledgement before {'the end of the last' if late else 'the first'} fault, {fault_id}"
            )
    doubts += [f"fault {fault.fault_id}: {fault.problem}" for fault in faults if fault.problem is not None]
    if unreported := run.events.unreported(lane, len(run.checkpoints.brokers)):
        doubts.append(f"lanes.json declares faults that events.jsonl does not report: {', '.join(unreported)}")
    if undeclared := run.events.undeclared(lane):
        doubts.append(f"events.jsonl reports faults that lanes.json does not declare: {', '.join(undeclared)}")
    # This project's checkpoints.json names every broker, even one without replicas.
    known = {f"broker-{number}" for number in run.checkpoints.brokers if run.is_planned}
    for fault in faults if known else ():
        if strangers := sorted(name for name in fault.brokers if SERVER.fullmatch(name) and name not in known):
            doubts.append(f"fault {fault.fault_id} hit {', '.join(strangers)}, which checkpoints.json does not name")
    if run.is_planned:
        own = [fault for fault in faults if fault.kind != LOCKSTEP and fault.problem is None]
        doubts += [f"fault {fault.fault_id}: proven without evidence" for fault in own if not fault.shown]
        doubts += [f"fault {fault.fault_id}: no event says what it hit" for fault in own if not fault.resolved]
    changes = [change for (name, _), of in run.events.changes.items() if name == lane.lane for change in of]
    named = {f"broker-{change.broker}" for change in changes if not isinstance(change, IsrChanged)}
    if known and (strangers := sorted(named - known)):
        doubts.append(f"events.jsonl names {', '.join(strangers)}, which checkpoints.json does not name")
    steps = assessment.prediction.steps
    if steps and not any(fault.kind == LOCKSTEP and fault.steps == steps for fault in faults):
        doubts.append("prediction.json is for a lock-step phase that events.jsonl does not report")
