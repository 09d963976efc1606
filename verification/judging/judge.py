"""Turns counts into verdicts: compares findings with the prediction, lane by lane. Pure Python, no Spark.

Guarantee: a lane conforms only with sufficient evidence (`rules.py`), without any forbidden anomaly and with every
required one. Two things are violations though the prediction permits the anomaly: what this run's faults and elections
rule out (`this_run.py`), and what no behaviour of the model explains. A violation outweighs doubts, unless the tables
that show it were not read in full.

What the model permits only where brokers' sessions end, in a lane whose faults end none, is no violation if leaders
were elected or sessions ended all the same: on a machine with too much to do, a session may end by itself. The lane is
then unknown. What is forbidden even so stays a violation.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from kafka_chaos.contract.anomalies import Anomaly, Status, Trait, Verdict
from kafka_chaos.contract.columns import ALL_TABLES_OF_SHARES
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.events import LeaderElected
from kafka_chaos.contract.lane.families import AnyAnomaly, Cause
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.lanes import DELETE, Lane
from kafka_chaos.contract.lane.recovery import USUAL_TIMINGS
from kafka_chaos.contract.lane.share import ShareAnomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.verification.inputs.documents.events import SESSION_EXPIRY
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.judging.assessment import not_applied
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.known_defects import explaining, explaining_outages
from kafka_chaos.verification.judging.result import LaneVerdict, Observation
from kafka_chaos.verification.judging.rules import RULES, left_out
from kafka_chaos.verification.lacks import Doubt

MOST_SESSIONS = 2
"""How many ends of sessions are searched for, at most."""


def unplanned(run: RunDirectory, lane: Lane) -> list[LeaderElected]:
    """The elections in the lane's phases, after the first ones, before any fault that the model knows was requested."""
    phases = run.events.phases_of(lane.lane).values()
    if not phases or run.events.outside.get(lane.lane) or run.events.steps(lane.lane):
        return []
    faults, knows_times = run.events.concerning(lane.lane), run.events.knows_times(lane.lane)
    started_ns = min(phase.started_ns for phase in phases)
    ended_ns = max(math.inf if phase.ended_ns is None else phase.ended_ns for phase in phases)
    first_ns = min((ns for fault in faults if fault.moves_leaders for ns in fault.requested), default=math.inf)
    elections = (won for partition in range(lane.partitions) for won in run.events.elected(lane.lane, partition))
    later = [won for won in elections if won.leader_epoch > 0]
    if not knows_times:
        return later if first_ns == math.inf else []
    return [won for won in later if won.ts_ns < first_ns and started_ns <= won.ts_ns <= ended_ns]


def _explained_by_them(run: RunDirectory, lane: Lane, anomaly: AnyAnomaly) -> str | None:
    """Why unplanned elections, or ends of sessions, may have led to an anomaly; None if they can't have."""
    from kafka_chaos.reference_model.predict.cache import predict_cached
    from kafka_chaos.reference_model.search import ScopeNotExhausted

    won = unplanned(run, lane)
    session_ns = run.timings.get(lane.lane, USUAL_TIMINGS).session_ms * 1_000_000
    ends = run.events.unplanned_ends(lane.lane, session_ns)
    if anomaly not in lane.anomalies or not (ends or won):
        return None
    if ends:
        why = f"the session of broker {ends[0].broker} ended, and no fault of the run explains it"
    else:
        first = min(won, key=lambda election: election.ts_ns)
        where = f"partition {first.partition} in leader epoch {first.leader_epoch}"
        elected = f"broker {first.broker} became leader of {where}"
        why = f"{elected}, and no fault of the run had been requested that may cause it"
    sessions = min(MOST_SESSIONS, max(len(ends), len({election.leader_epoch for election in won})))
    try:
        prediction = predict_cached(replace(lane, faults=(*lane.faults, *(SESSION_EXPIRY,) * sessions)))
    except ScopeNotExhausted:
        return why
    answer = prediction.anomalies.get(anomaly)
    return None if answer is None or answer.status == Status.FORBIDDEN else why


def _explained_by_retention(run: RunDirectory, lane: Lane, anomaly: AnyAnomaly) -> str | None:
    """Why a group went on behind its commit, where retention removes what it reads: with the records goes the leader
    epoch of the commit, and brokers set the group back (KAFKA-19902). Nothing of the commit was lost."""
    policies = [run.lane(reads).cleanup_policy or "" for reads in lane.groups.values()]
    set_back = (GroupAnomaly.COMMIT_LOST, GroupAnomaly.COMMIT_REGRESSED, GroupAnomaly.PROCESSED_TWICE)
    if anomaly not in set_back or not any(DELETE in policy.split(",") for policy in policies):
        return None
    return "retention may have removed what was read, and brokers then set a group back"


def _explained_by_ids(lane: LaneEvidence, anomaly: AnyAnomaly) -> str | None:
    """Why producers that lanes.json does not tell of may have led to a cycle, as they may side by side."""
    told, facts = lane.lane.transactional, lane.facts.transactions
    if anomaly != TransactionAnomaly.DEPENDENCY_CYCLE or not (told and facts and facts.ids > told.producers):
        return None
    return f"lanes.json tells of {counted(told.producers, 'producer')}, transactions/ of {facts.ids}"


@dataclass(frozen=True, slots=True)
class Violation:
    """What a finding violates. `defects`: the sets of known defects that explain it."""

    text: str
    defects: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """An anomaly that is judged in a lane, and its status for the lane's faults."""

    lane: LaneEvidence
    anomaly: AnyAnomaly
    status: Status

    @property
    def seen(self) -> Observation:
        """How often the anomaly was found, and its first cases."""
        return self.lane.observed.get(self.anomaly, Observation())

    @property
    def is_forbidden(self) -> bool:
        """Whether the anomaly was found though it is forbidden in this run."""
        here = self.lane.this_run.prediction.statuses.get(self.anomaly, self.status)
        return here == Status.FORBIDDEN and bool(self.seen.count)

    def violation(self, text: str) -> Violation:
        """The violation, with what is known of its cause."""
        lane = self.lane
        if stalls := lane.recovery.too_long.get(self.anomaly):
            defects = explaining_outages(lane.run, lane.lane, [stall.outage for stall in stalls])
        else:
            defects = explaining(lane.this_run.prediction, self.anomaly, self.seen)
        outage = f": {self.seen.examples[0]['cause']}" if self.anomaly in lane.recovery.judged else ""
        known = f" (known defect: {', '.join(' with '.join(ids) for ids in defects)})" if defects else ""
        return Violation(f"{text}{outage}{known}", defects)


def _rests_on_lost_input(found: Found) -> Doubt | None:
    lost = found.lane.lost_input
    rests_on_input = isinstance(found.anomaly, GroupAnomaly) and found.anomaly != GroupAnomaly.OWNED_TWICE
    if not (found.is_forbidden and lost and rests_on_input):
        return None
    return Doubt(f"{found.anomaly} was found: {found.seen.count}, but the loop's source lost {counted(lost, 'record')}")


def _may_be_explained(found: Found) -> Doubt | None:
    if not found.is_forbidden or Cause.UNEXPLAINED in found.seen.causes:
        return None
    evidence = (found.lane.run, found.lane.lane, found.anomaly)
    why = _explained_by_ids(found.lane, found.anomaly)
    why = why or _explained_by_retention(*evidence) or _explained_by_them(*evidence)
    if why is None:
        return None
    return Doubt(f"{found.anomaly} is forbidden for these faults and was found: {found.seen.count}, but {why}")


def _forbidden(found: Found) -> Violation | None:
    if not found.is_forbidden or (found.anomaly == Anomaly.UNSEEN and not found.lane.run.has_log):
        return None
    these = "" if found.status == Status.FORBIDDEN else f" in this run ({found.status} for these faults)"
    return found.violation(f"{found.anomaly} is forbidden{these} and was found: {found.seen.count}")


def _unexplained(found: Found) -> Violation | None:
    unexplained = found.seen.causes.get(Cause.UNEXPLAINED)
    if found.is_forbidden or not unexplained:
        return None
    why = f"no behaviour of the model explains {unexplained} of {found.seen.count}"
    return found.violation(f"{found.anomaly} is {found.status}, but {why}")


def _required(found: Found) -> Violation | Doubt | None:
    """A required anomaly can't be expected of a run in which no fault took effect."""
    if found.status != Status.REQUIRED or found.seen.count:
        return None
    lane, text = found.lane, f"{found.anomaly} is required and was not found"
    unproven = any(fault.problem is not None for fault in lane.run.events.concerning(lane.lane.lane))
    return Doubt(text) if unproven or not lane.facts.total("produced") else Violation(text)


OF_FINDINGS: tuple[Callable[[Found], Violation | Doubt | None], ...] = (
    _rests_on_lost_input,
    _may_be_explained,
    _forbidden,
    _unexplained,
    _required,
)
"""The rules of what was found of an anomaly that is judged; the first one that says something decides."""


def judge(lane: LaneEvidence) -> LaneVerdict:
    """One lane's verdict, with its ledger and every reason for not conforming."""
    said = [outcome for rule in RULES for outcome in rule(lane)]
    doubts = [outcome.text for outcome in said if isinstance(outcome, Doubt)]
    gaps: dict[AnyAnomaly, str] = {anomaly: outcome.text for outcome in said for anomaly in outcome.rests}
    ledger = lane.ledger([*doubts, *gaps.values()], left_out(lane))
    not_judged = {anomaly: why for anomaly, why in gaps.items() if not lane.count(anomaly)}
    not_judged |= not_applied(lane.run, lane.lane, lane.facts)
    doubts += _of_what_is_not_judged(lane, not_judged, gaps)
    doubts += [f"the model does not predict {one}" for one in lane.lane.anomalies if one not in lane.predicted]
    judged = [Found(lane, one, status) for one, status in lane.predicted.items() if one not in not_judged]
    said_of_findings = [next(filter(None, (rule(found) for rule in OF_FINDINGS)), None) for found in judged]
    violations = [outcome for outcome in said_of_findings if isinstance(outcome, Violation)]
    doubts += [outcome.text for outcome in said_of_findings if isinstance(outcome, Doubt)]
    verdict = Verdict.VIOLATION if violations else Verdict.UNKNOWN if doubts else Verdict.CONFORMS
    # Tables that show none of the lane's anomalies need not have been read in full.
    needless = set() if lane.lane.transactional is not None else {"replicas"}
    if not (lane.lane.group_anomalies or lane.lane.share):
        needless |= {"commits", *ALL_TABLES_OF_SHARES}
    return LaneVerdict(
        lane=lane.lane.lane,
        verdict=Verdict.UNKNOWN if lane.unread.keys() - needless else verdict,
        produced=lane.facts.total("produced"),
        acknowledged=lane.acknowledged,
        consumed=lane.facts.total("consumed"),
        predicted=lane.predicted,
        observed=lane.observed,
        not_judged=not_judged,
        reasons=(*(violation.text for violation in violations), *dict.fromkeys(doubts)),
        ledger=ledger,
        in_this_run=lane.this_run.ruled_out,
        explained={violation.text: violation.defects for violation in violations if violation.defects},
    )


def _of_what_is_not_judged(
    lane: LaneEvidence, not_judged: Mapping[AnyAnomaly, str], gaps: Mapping[AnyAnomaly, str]
) -> Iterator[str]:
    for anomaly, why in not_judged.items():
        if lane.predicted.get(anomaly) == Status.REQUIRED:
            yield f"{anomaly} is required and could not be judged: {why}"
        elif isinstance(anomaly, GroupAnomaly | ShareAnomaly) or (
            lane.lane.transactional is not None
            and (isinstance(anomaly, TransactionAnomaly) or Trait.DECISIVE_IN_TRANSACTIONS in anomaly.traits)
        ):
            yield f"{anomaly} could not be judged: {why}"
        elif Trait.DECISIVE in anomaly.traits and (
            anomaly in lane.lane.unjudged or (anomaly in gaps and lane.predicted[anomaly] == Status.FORBIDDEN)
        ):
            yield why
