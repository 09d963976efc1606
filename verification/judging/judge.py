"""Turns counts into verdicts: compares findings with the prediction, lane by lane. Pure Python, no Spark.

Guarantee: a lane conforms only with sufficient evidence (`assessment.py`), without any forbidden anomaly and with every
required one. What is forbidden in this run is (`this_run.py`), and what no behaviour of the model explains is a
violation wherever it is permitted. A violation outweighs doubts, unless the tables that show it were not read in full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafka_chaos.contract.anomalies import Anomaly, Status, Trait, Verdict
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.lane.families import AnyAnomaly, Cause
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.verification.groups.evidence import reset_by_retention
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.assessment import EvidenceAssessment, assessment_of
from kafka_chaos.verification.judging.known_defects import explaining, explaining_outages
from kafka_chaos.verification.judging.result import EXAMPLES, LaneVerdict, Observation
from kafka_chaos.verification.judging.this_run import in_this_run
from kafka_chaos.verification.judging.unplanned import permitted_by_them
from kafka_chaos.verification.recovery.evidence import Measured, Recovery, statuses, too_long
from kafka_chaos.verification.tables.facts import LaneFacts


def judge(
    run: RunDirectory,
    lane: Lane,
    facts: LaneFacts,
    prediction: LanePrediction,
    observed: Mapping[AnyAnomaly, Observation],
    *,
    unread: tuple[str, ...] = (),
    unread_replicas: tuple[str, ...] = (),
    unread_commits: tuple[str, ...] = (),
    lost_input: int = 0,
) -> LaneVerdict:
    """One lane's verdict, with its ledger and every reason for not conforming.

    `unread`: why produced/, consumed/ or log/ were not read in full; then no finding is certain. `unread_replicas`: the
    same for replicas/, which shows how transactions ended. `unread_commits`: the same for commits/. `lost_input`: how
    many records the source of the lane's loop lost after they had been read; the model takes it to keep them.
    """
    assessment = assessment_of(run, lane, facts, prediction)
    assessment.doubts[:0] = [*unread, *unread_replicas, *unread_commits]
    recovery = Recovery(run, lane, facts)
    predicted = {**prediction.statuses, **statuses(recovery)}
    stalls = too_long(recovery)
    observed = {**observed, **{one: _seen(measured) for one, measured in stalls.items()}}
    counts = {one: observed.get(one, Observation()).count for one in (*lane.anomalies, *RecoveryAnomaly)}
    not_judged = {
        **{anomaly: why for anomaly, why in assessment.incomplete.items() if not counts[anomaly]},
        **assessment.not_applied,
    }
    doubts = [*assessment.doubts, *_not_judged_doubts(assessment, predicted, not_judged)]
    doubts += [f"the model does not predict {anomaly}" for anomaly in lane.anomalies if anomaly not in predicted]
    violations: list[str] = []
    explained: dict[str, tuple[tuple[str, ...], ...]] = {}
    this_run = in_this_run(run, lane, prediction, counts)
    for anomaly, status in predicted.items():
        if anomaly in not_judged:
            continue
        count = counts[anomaly]
        forbidden = this_run.prediction.statuses.get(anomaly, status) == Status.FORBIDDEN
        rests_on_input = isinstance(anomaly, GroupAnomaly) and anomaly != GroupAnomaly.OWNED_TWICE
        if forbidden and count and lost_input and rests_on_input:
            doubts.append(f"{anomaly} was found: {count}, but the loop's source lost {counted(lost_input, 'record')}")
            continue
        unexplained = Cause.UNEXPLAINED in observed.get(anomaly, Observation()).causes
        if (
            forbidden
            and count
            and not unexplained
            and (why := reset_by_retention(run, lane).get(anomaly) or permitted_by_them(run, lane).get(anomaly))
        ):
            doubts.append(f"{anomaly} is forbidden for these faults and was found: {count}, but {why}")
        elif count and (
            broken := _broken(anomaly, status, observed[anomaly], forbidden=forbidden, has_log=run.has_log)
        ):
            defects = (
                explaining_outages(run, lane, [one.outage for one in stalls[anomaly]])
                if anomaly in stalls
                else explaining(run, lane, this_run.prediction, anomaly, observed[anomaly])
            )
            known = f": {observed[anomaly].examples[0]['cause']}" if anomaly in recovery.judged else ""
            known += f" (known defect: {', '.join(' with '.join(one) for one in defects)})" if defects else ""
            violations.append(f"{broken}{known}")
            if defects:
                explained[violations[-1]] = defects
        if status == Status.REQUIRED and not count:
            # A required anomaly can't be expected of a run in which no fault took effect.
            unproven = any(fault.problem is not None for fault in run.events.concerning(lane.lane))
            missing = doubts if unproven or not facts.total("produced") else violations
            missing.append(f"{anomaly} is required and was not found")
    verdict = Verdict.VIOLATION if violations else Verdict.UNKNOWN if doubts else Verdict.CONFORMS
    if unread or (unread_replicas and lane.transactional is not None) or (unread_commits and lane.group_anomalies):
        verdict = Verdict.UNKNOWN
    return LaneVerdict(
        lane=lane.lane,
        verdict=verdict,
        produced=facts.total("produced"),
        acknowledged=facts.total("acknowledged"),
        consumed=facts.total("consumed"),
        predicted=predicted,
        observed=observed,
        not_judged=not_judged,
        reasons=(*violations, *dict.fromkeys(doubts)),
        ledger=replace(assessment.ledger(), observations=this_run.ledger),
        in_this_run=this_run.ruled_out,
        explained=explained,
    )


def _broken(anomaly: AnyAnomaly, status: Status, seen: Observation, *, forbidden: bool, has_log: bool) -> str | None:
    """What a finding violates; None where it violates nothing."""
    if not forbidden:
        unexplained = seen.causes.get(Cause.UNEXPLAINED)
        why = f"{anomaly} is {status}, but no behaviour of the model explains {unexplained} of {seen.count}"
        return why if unexplained else None
    these = "" if status == Status.FORBIDDEN else f" in this run ({status} for these faults)"
    found = f"{anomaly} is forbidden{these} and was found: {seen.count}"
    return found if has_log or anomaly != Anomaly.UNSEEN else None


def _seen(measured: Sequence[Measured]) -> Observation:
    shown = ({"partition": one.outage.partition, "cause": one.described} for one in measured[:EXAMPLES])
    return Observation(len(measured), tuple(shown))


def _not_judged_doubts(
    assessment: EvidenceAssessment, predicted: Mapping[AnyAnomaly, Status], not_judged: Mapping[AnyAnomaly, str]
) -> list[str]:
    doubts = []
    for anomaly, why in not_judged.items():
        if predicted.get(anomaly) == Status.REQUIRED:
            doubts.append(f"{anomaly} is required and could not be judged: {why}")
        elif isinstance(anomaly, GroupAnomaly) or (
            assessment.lane.transactional is not None
            and (isinstance(anomaly, TransactionAnomaly) or Trait.CERTAIN_IN_TRANSACTIONS in anomaly.traits)
        ):
            doubts.append(f"{anomaly} could not be judged: {why}")
        elif Trait.CERTAIN in anomaly.traits and (
            anomaly in assessment.lane.assumed
            or (anomaly in assessment.incomplete and predicted[anomaly] == Status.FORBIDDEN)
        ):
            doubts.append(why)
    return doubts
