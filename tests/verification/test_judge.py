"""From counts to verdicts: every reason to violate, to doubt and to conform."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.reference_model.anomalies import Anomaly, Status, Verdict
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.verification.judge import LaneFacts, PartitionFacts, judge
from kafka_chaos.verification.result import LaneVerdict, Observation
from kafka_chaos.verification.run_directory import Fault, RunDirectory

LANE = Lane(lane="a")
FULL = PartitionFacts(
    produced=10,
    acknowledged=10,
    consumed=10,
    stored=10,
    first_acknowledged_ns=100,
    acknowledged_end=9,
    read_end=9,
    log_end=9,
)
KILL = Fault(fault_id="kill-1", kind="kill", requested_ns=200, lanes=None, proven=True, reason=None)


def run(*, log: bool = True, faults: tuple[Fault, ...] | None = None, replicas: bool = False) -> RunDirectory:
    files = {table: (Path("x"),) for table in ("produced", "consumed")}
    files |= {"log": (Path("x"),) if log else (), "replicas": (Path("x"),) if replicas else ()}
    return RunDirectory(Path("run"), (LANE,), files, dict.fromkeys(files, 10), faults, {})


def verdict_of(
    directory: RunDirectory,
    facts: PartitionFacts | None = FULL,
    *,
    lane: Lane = LANE,
    statuses: dict[Anomaly, Status] | None = None,
    counts: dict[Anomaly, int] | None = None,
) -> LaneVerdict:
    predicted = dict.fromkeys(Anomaly, Status.FORBIDDEN) | (statuses or {})
    observed = {anomaly: Observation(count) for anomaly, count in (counts or {}).items()}
    return judge(directory, lane, LaneFacts({0: facts} if facts else {}), predicted, observed)


def test_a_clean_lane_conforms() -> None:
    lane = verdict_of(run(faults=(KILL,)))
    assert (lane.verdict, lane.reasons) == (Verdict.CONFORMS, ())
    assert (lane.produced, lane.acknowledged, lane.consumed) == (10, 10, 10)


def test_a_forbidden_anomaly_violates() -> None:
    lane = verdict_of(run(), counts={Anomaly.DUPLICATE: 3})
    assert lane.verdict == Verdict.VIOLATION
    assert lane.reasons == ("duplicate is forbidden and was found: 3",)


def test_a_permitted_anomaly_confirms() -> None:
    statuses = {Anomaly.LOST_WRITE: Status.PERMITTED}
    assert verdict_of(run(), statuses=statuses, counts={Anomaly.LOST_WRITE: 3}).verdict == Verdict.CONFORMS
    assert verdict_of(run(), statuses=statuses).verdict == Verdict.CONFORMS


def test_a_required_anomaly_must_be_there() -> None:
    statuses = {Anomaly.LOST_WRITE: Status.REQUIRED}
    assert verdict_of(run(), statuses=statuses, counts={Anomaly.LOST_WRITE: 1}).verdict == Verdict.CONFORMS
    missing = verdict_of(run(), statuses=statuses)
    assert missing.verdict == Verdict.VIOLATION
    assert missing.to_json()["anomalies"] == {"lost_write": {"count": 0, "status": "required", "examples": []}}


def test_what_is_required_of_a_fault_that_did_not_bite_is_unknown() -> None:
    unproven = replace(KILL, proven=False, reason="process still there")
    lane = verdict_of(run(faults=(unproven,)), statuses={Anomaly.LOST_WRITE: Status.REQUIRED})
    assert lane.verdict == Verdict.UNKNOWN
    assert "no proof that fault kill-1 bit: process still there" in lane.reasons


def test_required_but_not_judged_is_unknown() -> None:
    lane = verdict_of(run(log=False), statuses={Anomaly.OFFSET_MISMATCH: Status.REQUIRED})
    assert lane.verdict == Verdict.UNKNOWN


def test_an_empty_history_is_unknown() -> None:
    assert verdict_of(run(), None).reasons == ("empty history: nothing was produced",)
    assert verdict_of(run(), None).verdict == Verdict.UNKNOWN


@pytest.mark.parametrize("first_acknowledged_ns", [None, 200, 300])
def test_no_acknowledgement_before_the_first_fault(first_acknowledged_ns: int | None) -> None:
    facts = replace(FULL, first_acknowledged_ns=first_acknowledged_ns)
    later = replace(KILL, fault_id="kill-2", requested_ns=900)
    lane = verdict_of(run(faults=(later, KILL)), facts)
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("no acknowledgement before the first fault, kill-1",)


def test_a_fault_of_other_lanes_does_not_matter() -> None:
    other = replace(KILL, proven=False, lanes=("b",), requested_ns=1)
    assert verdict_of(run(faults=(other,))).verdict == Verdict.CONFORMS


def test_without_events_no_proof_is_asked_for() -> None:
    assert verdict_of(run(faults=None), replace(FULL, first_acknowledged_ns=None)).verdict == Verdict.CONFORMS


@pytest.mark.parametrize("read_end", [None, 8])
@pytest.mark.parametrize("log", [True, False])
def test_an_end_that_no_consumer_reached_is_unknown(read_end: int | None, log: bool) -> None:
    lane = verdict_of(run(log=log), replace(FULL, read_end=read_end))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("no consumer reached the end of partition 0, offset 9",)


def test_a_violation_outweighs_a_doubt() -> None:
    lane = verdict_of(run(), replace(FULL, read_end=3), counts={Anomaly.PHANTOM: 1})
    assert lane.verdict == Verdict.VIOLATION
    assert len(lane.reasons) == 2


def test_unseen_without_a_log_is_unknown_and_no_violation() -> None:
    lane = verdict_of(run(log=False), replace(FULL, read_end=8), counts={Anomaly.UNSEEN: 1})
    assert lane.verdict == Verdict.UNKNOWN


def test_what_is_not_judged_is_named() -> None:
    assert set(verdict_of(run(replicas=True)).not_judged) == {Anomaly.HIGH_WATERMARK_REGRESSION}
    assert set(verdict_of(run(log=False)).not_judged) == {
        Anomaly.OFFSET_MISMATCH,
        Anomaly.TRUNCATED_READ,
        Anomaly.OFFSET_GAP,
        Anomaly.REPLICA_DIVERGENCE,
        Anomaly.HIGH_WATERMARK_REGRESSION,
    }


def test_losses_of_acks_0_are_not_judged_without_a_log() -> None:
    lane = verdict_of(run(log=False), replace(FULL, unplaced_acknowledgements=10), lane=replace(LANE, acks="0"))
    assert "acks=0" in lane.not_judged[Anomaly.LOST_WRITE]


def test_a_lane_that_is_cleaned_up_leaves_out_what_would_misfire() -> None:
    lane = verdict_of(run(), lane=replace(LANE, cleanup_policy="compact"), counts={Anomaly.LOST_WRITE: 5})
    assert lane.verdict == Verdict.CONFORMS
    assert lane.count(Anomaly.LOST_WRITE) is None
    assert lane.not_judged[Anomaly.OFFSET_GAP] == "cleanup.policy=compact removes records"
    assert lane.count(Anomaly.PHANTOM) == 0
