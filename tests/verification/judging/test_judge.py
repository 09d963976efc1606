"""From counts to verdicts: every reason to violate, to doubt and to conform."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.ledger import FileLedger, TableLedger
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.result import LaneVerdict, RunVerdict
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts
from tests.verification.judging.one_lane import KILL, KILLED, LANE, run, verdict_of
from tests.verification.samples.partitions import FULL


def test_a_clean_lane_conforms() -> None:
    lane = verdict_of(run(faults=(KILL,)), lane=KILLED)
    assert (lane.verdict, lane.reasons) == (Verdict.CONFORMS, ())
    assert (lane.produced, lane.acknowledged, lane.consumed) == (10, 10, 10)


LOSS = Anomaly.LOST_WRITE
PERMITTED, REQUIRED = {LOSS: Status.PERMITTED}, {LOSS: Status.REQUIRED}
UNREAD = "no consumer reached the end of partition 0, offset 9: nothing of it was read"
BEHIND = "no consumer reached the end of partition 0, offset 9: the last offset read is"


@pytest.mark.parametrize(
    ("judged", "verdict", "reasons"),
    [
        (lambda: verdict_of(run(), counts={Anomaly.DUPLICATE: 3}), "violation",
         ["duplicate is forbidden and was found: 3"]),
        (lambda: verdict_of(run(), statuses=PERMITTED, counts={LOSS: 3}), "conforms", []),
        (lambda: verdict_of(run(), statuses=PERMITTED), "conforms", []),
        (lambda: verdict_of(run(), statuses=REQUIRED, counts={LOSS: 1}), "conforms", []),
        (lambda: verdict_of(run(), statuses=REQUIRED), "violation", ["lost_write is required and was not found"]),
        (lambda: verdict_of(run(log=False), statuses={Anomaly.OFFSET_GAP: Status.REQUIRED}), "unknown",
         ["offset_gap is required and could not be judged: there is no final log (log/)"]),
        (lambda: verdict_of(run(), None), "unknown", ["empty history: nothing was produced"]),
        (lambda: verdict_of(run(), replace(FULL, acknowledged=0, first_acknowledged_ns=None)), "unknown",
         ["nothing was acknowledged: no record could be lost"]),
        (lambda: verdict_of(run(), replace(FULL, stored=0)), "unknown",
         ["log/ holds no record of this lane, although 10 were acknowledged"]),
        (lambda: verdict_of(run(), replace(FULL, read_end=None)), "unknown", [UNREAD]),
        (lambda: verdict_of(run(log=False), replace(FULL, read_end=None)), "unknown", [UNREAD]),
        (lambda: verdict_of(run(log=False), replace(FULL, read_end=8), counts={Anomaly.UNSEEN: 1}), "unknown",
         [f"{BEHIND} 8"]),
        (lambda: verdict_of(run(), replace(FULL, read_end=3), counts={Anomaly.PHANTOM: 1}), "violation",
         ["phantom is forbidden and was found: 1", f"{BEHIND} 3"]),
    ],
)  # fmt: skip
def test_counts_and_evidence_make_a_verdict_with_its_reasons(
    judged: Callable[[], LaneVerdict], verdict: str, reasons: list[str]
) -> None:
    lane = judged()
    assert (lane.verdict, list(lane.reasons)) == (verdict, reasons)


def test_what_is_required_of_a_fault_without_effect_or_of_an_empty_history_is_unknown() -> None:
    unproven = replace(KILL, proven=[], denied="process still there")
    lane = verdict_of(run(faults=(unproven,)), statuses=REQUIRED)
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.to_json()["anomalies"] == {"lost_write": {"count": 0, "status": "required", "examples": []}}
    assert "fault kill-1: not proven: process still there" in lane.reasons
    assert verdict_of(run(faults=(KILL,)), None, statuses=REQUIRED).verdict == Verdict.UNKNOWN


def test_a_loss_that_was_found_counts_although_others_could_not_be_judged() -> None:
    lane = verdict_of(run(log=False), unjudged=4, counts={Anomaly.LOST_WRITE: 1})
    assert lane.verdict == Verdict.VIOLATION
    assert lane.count(Anomaly.LOST_WRITE) == 1


def test_what_was_not_read_makes_even_a_violation_unknown() -> None:
    lane = verdict_of(run(), counts={Anomaly.DUPLICATE: 3}, unread={"log": ("log/_x.parquet is hidden",)})
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("duplicate is forbidden and was found: 3", "log/_x.parquet is hidden")


def test_the_verdict_of_a_run_is_that_of_its_gravest_lane_with_all_tables() -> None:
    lane = verdict_of(run())
    table = TableLedger(files=(FileLedger(file="log/a.parquet", rows=5),), rows_by_footer=5, rows_as_read=4)
    whole = RunVerdict(Path("run"), Verdict.UNKNOWN, (lane,), {"log": table}, seconds=3.0)
    assert whole.to_json() == {
        "format_version": 1,
        "verdict": "unknown",
        "engine": "spark",
        "tables": {"log": {"files": ({"file": "log/a.parquet", "rows": 5},), "rows_by_footer": 5, "rows_as_read": 4}},
        "lanes": [lane.to_json()],
    }
    assert whole.lane("a") is lane
    with pytest.raises(KeyError, match="b"):
        whole.lane("b")


def test_doubts_come_in_the_order_of_partitions() -> None:
    behind = {number: replace(FULL, read_end=None) for number in (2, 0, 1)}
    predicted = LanePrediction(dict.fromkeys(Anomaly, Status.FORBIDDEN), "model", (), "digest")
    lane = judge(
        LaneEvidence(run(), replace(LANE, partitions=3), LaneFacts({None: PartitionFacts(), **behind}), predicted)
    )
    assert [reason.partition("partition ")[2][0] for reason in lane.reasons] == ["0", "1", "2"]


def test_a_lane_whose_prediction_nothing_confirms_is_unknown() -> None:
    predicted = LanePrediction(dict.fromkeys(Anomaly, Status.FORBIDDEN), "prediction.json")
    lane = judge(LaneEvidence(run(), LANE, LaneFacts({0: FULL}), predicted))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("the model could not confirm prediction.json: its search was not exhausted",)
    assert lane.ledger is not None
    assert (lane.ledger.prediction.source, lane.ledger.prediction.recomputed) == ("prediction.json", False)


ASSUMING = replace(LANE, assume=("queuing.strategy", "replica.selector.class"))
"""They touch reordered, without which no lane is certain, and what reads from followers may show."""


def test_what_is_assumed_is_not_judged_and_never_conforms() -> None:
    """Even a finding is none: the configuration may have caused it."""
    statuses = dict.fromkeys(ASSUMING.unjudged, Status.NOT_JUDGED)
    for counts in ({}, {Anomaly.REORDERED: 3}):
        lane = verdict_of(run(), lane=ASSUMING, statuses=statuses, counts=counts)
        assert lane.verdict == Verdict.UNKNOWN
        assert any("queuing.strategy is assumed to do no harm" in reason for reason in lane.reasons)
        assert "queuing.strategy" in lane.not_judged[Anomaly.REORDERED]
        assert lane.to_json()["predicted"]["reordered"] == "not judged"
        assert "reordered" not in lane.to_json()["anomalies"]


def test_the_rest_of_a_lane_that_assumes_something_is_judged() -> None:
    statuses = dict.fromkeys(ASSUMING.unjudged, Status.NOT_JUDGED)
    lane = verdict_of(run(), lane=ASSUMING, statuses=statuses, counts={Anomaly.DUPLICATE: 1})
    assert lane.verdict == Verdict.VIOLATION
    # What no lane needs to be certain of is left out visibly.
    less = replace(LANE, assume=("transactional.id.expiration.ms",))
    assert Anomaly.DUPLICATE in less.unjudged
    follower = replace(LANE, assume=("replica.selector.class",))
    assert "replica.selector.class" in verdict_of(run(), lane=follower).not_judged[Anomaly.NONMONOTONIC_POLL]
