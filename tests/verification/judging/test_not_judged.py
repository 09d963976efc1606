"""What is not judged, for want of evidence or because records are removed, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from tests.verification.judging.one_lane import LANE, REPLICAS, run, verdict_of
from tests.verification.samples.partitions import FULL


def test_what_is_not_judged_is_named() -> None:
    whole = verdict_of(run(replicas=True), replicas=REPLICAS)
    assert set(whole.not_judged) == {Anomaly.HIGH_WATERMARK_REGRESSION}
    assert whole.verdict == Verdict.CONFORMS
    assert set(verdict_of(run(log=False)).not_judged) == {
        Anomaly.OFFSET_MISMATCH,
        Anomaly.TRUNCATED_READ,
        Anomaly.OFFSET_GAP,
        Anomaly.REPLICA_DIVERGENCE,
        Anomaly.HIGH_WATERMARK_REGRESSION,
    }


@pytest.mark.parametrize("acks", ["0", "all"])
def test_records_that_nothing_shows_are_not_judged_without_a_log(acks: str) -> None:
    lane = verdict_of(run(log=False), unjudged=4, lane=replace(LANE, acks=acks))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.not_judged[Anomaly.LOST_WRITE].startswith("4 of 10 acknowledged records")
    assert lane.ledger is not None
    assert (lane.ledger.acknowledged.records, lane.ledger.acknowledged.judged) == (10, 6)
    assert not lane.ledger.complete


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
def test_a_cleaned_lane_needs_a_log_or_reads_of_all_records(policy: str) -> None:
    lane = replace(LANE, cleanup_policy=policy)
    assert verdict_of(run(), lane=lane).verdict == Verdict.CONFORMS
    assert verdict_of(run(), replace(FULL, stored=0, log_end=None), lane=lane).verdict == Verdict.UNKNOWN
    unread = verdict_of(run(), lane=lane, unjudged=3)
    assert (unread.verdict, len(unread.reasons)) == (Verdict.UNKNOWN, 1)


def test_a_lane_that_is_cleaned_up_leaves_out_what_would_misfire() -> None:
    lane = verdict_of(run(), lane=replace(LANE, cleanup_policy="compact"), counts={Anomaly.LOST_WRITE: 5})
    assert lane.verdict == Verdict.CONFORMS
    assert lane.count(Anomaly.LOST_WRITE) is None
    assert lane.not_judged[Anomaly.OFFSET_GAP] == "cleanup.policy=compact removes records"
    assert lane.count(Anomaly.PHANTOM) == 0


CLEANED = {
    Anomaly.LOST_WRITE,
    Anomaly.REORDERED,
    Anomaly.OFFSET_MISMATCH,
    Anomaly.TRUNCATED_READ,
    Anomaly.OFFSET_GAP,
}


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
def test_what_each_cleanup_policy_leaves_out(policy: str) -> None:
    lane = replace(LANE, cleanup_policy=policy)
    watermarks = {Anomaly.HIGH_WATERMARK_REGRESSION}
    assert set(verdict_of(run(replicas=True), lane=lane, replicas=REPLICAS).not_judged) == CLEANED | watermarks
    without_log = verdict_of(run(log=False, replicas=True), lane=lane, replicas=REPLICAS)
    assert set(without_log.not_judged) == CLEANED | watermarks | {Anomaly.SKIPPED_POLL}


def test_why_each_anomaly_is_not_judged() -> None:
    without = verdict_of(run(log=False)).not_judged
    no_log = "there is no final log (log/)"
    assert without == {
        Anomaly.OFFSET_MISMATCH: no_log,
        Anomaly.TRUNCATED_READ: no_log,
        Anomaly.OFFSET_GAP: no_log,
        Anomaly.REPLICA_DIVERGENCE: "there are no replica logs (replicas/)",
        Anomaly.HIGH_WATERMARK_REGRESSION: "events.jsonl holds no high_watermark reports of this lane",
    }
    cleaned = verdict_of(run(log=False), lane=replace(LANE, cleanup_policy="delete")).not_judged
    assert cleaned[Anomaly.SKIPPED_POLL] == cleaned[Anomaly.REORDERED] == "cleanup.policy=delete removes records"


def test_why_records_could_not_be_judged() -> None:
    gone = "4 of 10 acknowledged records were read by nobody, and "
    cleaned = verdict_of(run(), unjudged=4, lane=replace(LANE, cleanup_policy="delete"))
    assert cleaned.reasons == (gone + "are not in the log, from which records are removed",)
    unlogged = verdict_of(run(log=False), unjudged=4)
    assert unlogged.reasons == (gone + "there is no final log (log/)",)
    assert unlogged.not_judged[Anomaly.UNSEEN] == gone + "there is no final log (log/)"
