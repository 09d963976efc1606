"""From counts to verdicts: what was found against what was predicted, lane by lane. Pure Python, no Spark.

Guarantee: a lane conforms only if it has a history, an acknowledgement before its first fault, a proof for
every fault, every partition read to its end, no forbidden anomaly and every required one. A violation found
outweighs whatever else is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_chaos.reference_model.anomalies import Anomaly, Status, Verdict
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.verification.result import LaneVerdict, Observation
from kafka_chaos.verification.run_directory import Fault, RunDirectory

NEEDS_LOG = (Anomaly.OFFSET_MISMATCH, Anomaly.TRUNCATED_READ, Anomaly.OFFSET_GAP)
MISFIRES_AFTER_CLEANUP = (
    Anomaly.LOST_WRITE,
    Anomaly.REORDERED,
    Anomaly.OFFSET_MISMATCH,
    Anomaly.TRUNCATED_READ,
    Anomaly.OFFSET_GAP,
)
"""Compaction and retention remove records, first occurrences among them, without any fault."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Per partition: how many rows each table has of it, and its highest offsets (None: no such row)."""

    produced: int = 0
    acknowledged: int = 0
    consumed: int = 0
    stored: int = 0
    unplaced_acknowledgements: int = 0
    first_acknowledged_ns: int | None = None
    acknowledged_end: int | None = None
    read_end: int | None = None
    log_end: int | None = None

    def end(self, *, final_log: bool) -> int | None:
        """The last offset of the final log; without one, the highest offset read or acknowledged."""
        if final_log:
            return self.log_end
        ends = [end for end in (self.read_end, self.acknowledged_end) if end is not None]
        return max(ends, default=None)

    def end_reached(self, *, final_log: bool) -> bool:
        """Whether some consumer read the partition to its end; one without any record has none to reach."""
        end = self.end(final_log=final_log)
        return end is None or (self.read_end is not None and self.read_end >= end)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """Per lane: its partitions' facts, by number; produced rows without a partition are under None."""

    partitions: Mapping[int | None, PartitionFacts] = field(default_factory=dict)

    def total(self, name: str) -> int:
        """The sum of a count over all partitions."""
        return sum(getattr(facts, name) for facts in self.partitions.values())

    @property
    def first_acknowledged_ns(self) -> int | None:
        """When the first acknowledgement of the lane completed."""
        stamps = [facts.first_acknowledged_ns for facts in self.partitions.values()]
        return min((stamp for stamp in stamps if stamp is not None), default=None)


def not_judged(run: RunDirectory, lane: Lane, facts: LaneFacts) -> dict[Anomaly, str]:
    """What cannot be judged in this lane, and why; never to be counted as clean."""
    reasons: dict[Anomaly, str] = {}
    if not run.has_log:
        reasons.update(dict.fromkeys(NEEDS_LOG, "there is no final log (log/)"))
        if lane.acks == "0" and facts.total("unplaced_acknowledgements"):
            reasons[Anomaly.LOST_WRITE] = "acks=0 reports no offsets, and there is no final log (log/)"
    if not run.files["replicas"]:
        reasons[Anomaly.REPLICA_DIVERGENCE] = "there are no replica logs (replicas/)"
    if not run.reports_high_watermarks:
        reasons[Anomaly.HIGH_WATERMARK_REGRESSION] = "events.jsonl holds no high_watermark reports"
    if lane.cleanup_policy is not None:
        gone = f"cleanup.policy={lane.cleanup_policy} removes records"
        reasons.update(dict.fromkeys(MISFIRES_AFTER_CLEANUP, gone))
        if not run.has_log:
            reasons[Anomaly.SKIPPED_POLL] = gone
    return reasons


def judge(
    run: RunDirectory,
    lane: Lane,
    facts: LaneFacts,
    predicted: Mapping[Anomaly, Status],
    observed: Mapping[Anomaly, Observation],
) -> LaneVerdict:
    """One lane's verdict, with every reason for not conforming."""
    skipped = not_judged(run, lane, facts)
    doubts = [*_doubts(run, lane, facts), *_required_but_not_judged(predicted, skipped)]
    violations = []
    for anomaly in Anomaly:
        if anomaly in skipped:
            continue
        count = observed.get(anomaly, Observation()).count
        status = predicted[anomaly]
        if status == Status.FORBIDDEN and count and (run.has_log or anomaly != Anomaly.UNSEEN):
            violations.append(f"{anomaly} is forbidden and was found: {count}")
        if status == Status.REQUIRED and not count:
            # What a fault must bring about can't be asked of a run in which nothing happened.
            missing = doubts if _nothing_happened(run, lane, facts) else violations
            missing.append(f"{anomaly} is required and was not found")
    verdict = Verdict.VIOLATION if violations else Verdict.UNKNOWN if doubts else Verdict.CONFORMS
    return LaneVerdict(
        lane=lane.lane,
        verdict=verdict,
        produced=facts.total("produced"),
        acknowledged=facts.total("acknowledged"),
        consumed=facts.total("consumed"),
        predicted=predicted,
        observed=observed,
        not_judged=skipped,
        reasons=(*violations, *doubts),
    )


def _concerning(run: RunDirectory, lane: Lane) -> list[Fault]:
    return [fault for fault in run.faults or () if fault.concerns(lane.lane)]


def _nothing_happened(run: RunDirectory, lane: Lane, facts: LaneFacts) -> bool:
    unproven = any(not fault.proven for fault in _concerning(run, lane))
    return unproven or not facts.total("produced")


def _doubts(run: RunDirectory, lane: Lane, facts: LaneFacts) -> list[str]:
    doubts = []
    if not facts.total("produced"):
        doubts.append("empty history: nothing was produced")
    faults = _concerning(run, lane)
    if faults:
        first = min(faults, key=lambda fault: fault.requested_ns)
        acknowledged_ns = facts.first_acknowledged_ns
        if acknowledged_ns is None or acknowledged_ns >= first.requested_ns:
            doubts.append(f"no acknowledgement before the first fault, {first.fault_id}")
    for fault in faults:
        if not fault.proven:
            doubts.append(f"no proof that fault {fault.fault_id} bit: {fault.reason or 'no event says so'}")
    for partition, partition_facts in sorted(facts.partitions.items(), key=lambda item: item[0] or 0):
        if partition is not None and not partition_facts.end_reached(final_log=run.has_log):
            end = partition_facts.end(final_log=run.has_log)
            doubts.append(f"no consumer reached the end of partition {partition}, offset {end}")
    return doubts


def _required_but_not_judged(predicted: Mapping[Anomaly, Status], skipped: Mapping[Anomaly, str]) -> list[str]:
    return [
        f"{anomaly} is required and could not be judged: {reason}"
        for anomaly, reason in skipped.items()
        if predicted[anomaly] == Status.REQUIRED
    ]
