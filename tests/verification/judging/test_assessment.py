"""The ledger of a lane: all that is known of its evidence, what is missing, and what the run left out."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import TransactionAnomaly
from kafka_chaos.contract.ledger import TableLedger
from kafka_chaos.contract.run_directory import EXPERIMENT_FILE
from kafka_chaos.verification.inputs.documents.events import Events, Phase
from kafka_chaos.verification.inputs.tables import Table
from kafka_chaos.verification.judging.assessment import unread
from kafka_chaos.verification.lacks import Doubt
from kafka_chaos.verification.tables.facts import ReplicaFacts
from tests.verification.judging.one_lane import LANE, MARKS, REPLICAS, run, verdict_of
from tests.verification.samples.changes import reported
from tests.verification.samples.partitions import FULL


def test_what_a_run_left_out_is_written_down() -> None:
    ledger = verdict_of(run(log=False)).ledger
    assert ledger is not None
    assert ledger.left_out == (
        "no log/: the final log is unknown",
        "no replicas/: replicas are not compared",
        "no events.jsonl: proofs of faults are not judged",
        "no timings.json: recovery is not judged",
        "no reports of high watermarks",
    )
    assert (ledger.rows.log, ledger.rows.replicas, ledger.replicas, ledger.faults.events) == (None, None, None, None)
    of_replicas = verdict_of(run(replicas=True), replicas=REPLICAS).ledger
    assert of_replicas is not None
    assert "no checkpoints.json: replicas are compared below the lowest log end" in of_replicas.left_out


def test_announced_tables_and_phases_that_never_ended_are_missed() -> None:
    directory = run(log=False)
    phases = {"one": Phase(("a",), 1), "two": Phase(("b",), 1), "three": Phase(None, 1), "four": Phase(None, 1, 2)}
    events = Events((), collects=("log", "replicas"), phases=phases)
    lane = verdict_of(replace(directory, events=events))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == (
        "log/ is missing: events.jsonl announces it, so the run ended before it was collected",
        "replicas/ is missing: events.jsonl announces it, so the run ended before it was collected",
        "the load of phase one never ended: events.jsonl reports no phase_ended",
        "the load of phase three never ended: events.jsonl reports no phase_ended",
    )


def test_replicas_without_the_checkpoints_that_are_written_with_them(tmp_path: Path) -> None:
    events = Events((), collects=("replicas",))
    why = "checkpoints.json is missing, which is written with the replicas/ of events.jsonl"
    missing = replace(run(replicas=True), path=tmp_path, events=events)
    assert why not in verdict_of(missing, replicas=REPLICAS).reasons
    (tmp_path / EXPERIMENT_FILE).touch()
    assert why in verdict_of(missing, replicas=REPLICAS).reasons
    there = replace(run(replicas=True, marks=MARKS), path=tmp_path, events=events)
    assert why not in verdict_of(there, replicas=REPLICAS).reasons


def test_tables_that_were_not_read_in_full_are_named() -> None:
    tables = {"produced": Table(given=True), "log": Table(given=True, unread=("log/_late.parquet is hidden",))}
    directory = replace(run(), tables={**run().tables, **tables})
    read = {
        "produced": TableLedger(files=(), rows_by_footer=10, rows_as_read=9),
        "log": TableLedger(files=(), rows_by_footer=5, rows_as_read=5),
    }
    assert unread(directory, read) == {
        "produced": ("produced/ holds 10 rows by its files' footers, but 9 were read",),
        "log": ("log/_late.parquet is hidden",),
    }


def test_what_is_not_judged_is_named_and_says_why() -> None:
    whole = verdict_of(run(replicas=True), replicas=REPLICAS)
    assert set(whole.not_judged) == {Anomaly.HIGH_WATERMARK_REGRESSION}
    assert whole.verdict == Verdict.CONFORMS
    no_log = "there is no final log (log/)"
    assert verdict_of(run(log=False)).not_judged == {
        Anomaly.OFFSET_MISMATCH: no_log,
        Anomaly.TRUNCATED_READ: no_log,
        Anomaly.OFFSET_GAP: no_log,
        Anomaly.REPLICA_DIVERGENCE: "there are no replica logs (replicas/)",
        Anomaly.HIGH_WATERMARK_REGRESSION: "events.jsonl holds no high_watermark reports of this lane",
    }
    cleaned = verdict_of(run(log=False), lane=replace(LANE, cleanup_policy="delete")).not_judged
    assert cleaned[Anomaly.SKIPPED_POLL] == cleaned[Anomaly.REORDERED] == "cleanup.policy=delete removes records"


@pytest.mark.parametrize("acks", ["0", "all"])
def test_records_that_nothing_shows_are_not_judged_without_a_log(acks: str) -> None:
    lane = verdict_of(run(log=False), unjudged=4, lane=replace(LANE, acks=acks))
    gone = "4 of 10 acknowledged records were read by nobody, and there is no final log (log/)"
    assert lane.verdict == Verdict.UNKNOWN
    assert gone in lane.reasons
    assert lane.not_judged[Anomaly.LOST_WRITE] == lane.not_judged[Anomaly.UNSEEN] == gone
    assert lane.ledger is not None
    assert (lane.ledger.acknowledged.records, lane.ledger.acknowledged.judged) == (10, 6)
    assert not lane.ledger.complete


CLEANED = {Anomaly.LOST_WRITE, Anomaly.REORDERED, Anomaly.OFFSET_MISMATCH, Anomaly.TRUNCATED_READ, Anomaly.OFFSET_GAP}


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
@pytest.mark.parametrize("keys", [{"unclean_leader_election": True}, {}], ids=str)
def test_what_each_cleanup_policy_leaves_out(policy: str, keys: dict[str, bool]) -> None:
    lane = replace(LANE, cleanup_policy=policy, idempotence=True, **keys)
    by_policy = {"delete": set(), "compact": {Anomaly.OFFSET_GAP}}
    left_out = by_policy.get(policy, CLEANED) | ({Anomaly.REORDERED} if keys else set())
    watermarks = {Anomaly.HIGH_WATERMARK_REGRESSION}
    assert set(verdict_of(run(replicas=True), lane=lane, replicas=REPLICAS).not_judged) == left_out | watermarks
    without_log = verdict_of(run(log=False, replicas=True), lane=lane, replicas=REPLICAS)
    assert set(without_log.not_judged) == CLEANED | watermarks | {Anomaly.SKIPPED_POLL}


@pytest.mark.parametrize(
    ("replicas", "marks", "problem"),
    [
        ({1: REPLICAS[1]}, None, "replicas/ holds records of 1 of 3 replicas"),
        (REPLICAS, {1: 10, 2: 10}, "checkpoints.json has no high watermark of broker 3"),
        (REPLICAS, {1: 10, 2: 10, 3: None}, "checkpoints.json has no high watermark of broker 3"),
        ({1: REPLICAS[1], 2: REPLICAS[2]}, MARKS, "no record of broker 3, whose high watermark is 10"),
        (REPLICAS | {3: ReplicaFacts(6, 0, 5)}, MARKS, "ends at offset 5, below its high watermark 10"),
        (REPLICAS | {3: ReplicaFacts(8, 0, 9)}, MARKS, "has 8 rows for 10 offsets"),
        (REPLICAS | {3: ReplicaFacts(20, 0, 9)}, MARKS, "has 20 rows for 10 offsets"),
        (REPLICAS | {3: ReplicaFacts(6, 4, 9)}, MARKS, "begins at offset 4, another one at 0"),
    ],
)
def test_replicas_that_contradict_their_checkpoints(
    replicas: dict[int, ReplicaFacts], marks: dict[int, int | None] | None, problem: str
) -> None:
    lane = verdict_of(run(replicas=True, marks=marks), replicas=replicas)
    assert lane.verdict == Verdict.UNKNOWN
    assert problem in lane.not_judged[Anomaly.REPLICA_DIVERGENCE]


def test_a_log_that_ends_below_a_high_watermark_was_cut() -> None:
    cut = verdict_of(run(marks={1: 12, 2: 12, 3: 11}))
    assert cut.verdict == Verdict.UNKNOWN
    assert "partition 0: log/ ends at offset 9, below every broker's high watermark, 11" in cut.reasons
    cut = verdict_of(run(marks={1: 10, 2: 12, 3: 10}))
    assert "partition 0: log/ ends at offset 9, below a high watermark, 12 of broker 2" in cut.reasons
    cut = verdict_of(run(marks={1: 10, 2: 11, 3: 10}))
    assert "partition 0: log/ ends at offset 9, below a high watermark, 11 of broker 2" in cut.reasons
    cleaned = replace(LANE, cleanup_policy="delete")
    assert verdict_of(run(marks={1: 10, 2: 11, 3: 10}), lane=cleaned).reasons == cut.reasons
    assert verdict_of(run(marks={1: 10, 2: None, 3: 9})).verdict == Verdict.CONFORMS
    assert verdict_of(run(log=False, marks={1: 12})).verdict == verdict_of(run(log=False)).verdict


def test_no_broker_answers_with_an_offset_to_acks_0() -> None:
    lane = replace(LANE, acks="0")
    reasons = verdict_of(run(), replace(FULL, unplaced=9), lane=lane).reasons
    assert reasons == ("1 acknowledgement name an offset, which no broker answers to acks=0",)
    assert verdict_of(run(), replace(FULL, unplaced=10), lane=lane).verdict == Verdict.CONFORMS


def test_a_doubt_leaves_what_rests_on_it_unjudged() -> None:
    doubt = Doubt(
        "log/part-0.parquet, row 7: no producer sent it",
        (Anomaly.PHANTOM, Anomaly.UNSEEN, TransactionAnomaly.ABORTED_READ),
    )
    lane = verdict_of(replace(run(), doubts={"a": (doubt,), "b": ()}))
    assert lane.verdict == Verdict.UNKNOWN
    assert doubt.text in lane.reasons
    assert lane.not_judged[Anomaly.PHANTOM] == doubt.text
    assert {Anomaly.DUPLICATE, TransactionAnomaly.ABORTED_READ}.isdisjoint(lane.not_judged)
    assert verdict_of(replace(run(), doubts={"b": (doubt,)})).verdict == Verdict.CONFORMS


def test_more_replicas_than_the_lane_has_are_a_contradiction() -> None:
    lane = verdict_of(run(replicas=True), replicas=REPLICAS | {4: REPLICAS[1]})
    assert lane.verdict == Verdict.UNKNOWN
    assert any("replicas/ holds records of 4 brokers, expected 3" in reason for reason in lane.reasons)


def test_replicas_that_were_compared_in_part_are_named() -> None:
    lane = verdict_of(run(replicas=True, marks={1: 5, 2: 10, 3: 10}), replicas=REPLICAS)
    assert lane.verdict == Verdict.CONFORMS
    assert "below the lowest high watermark 5" in lane.not_judged[Anomaly.REPLICA_DIVERGENCE]
    assert lane.ledger is not None
    assert lane.ledger.replicas is not None
    assert lane.ledger.replicas.partitions[0].judged_below == 5


def test_reports_of_another_lane_are_no_evidence() -> None:
    directory = replace(run(reports=(reported(1, "b", 0, 0, 5),)), lanes=(LANE, Lane(lane="b")))
    assert Anomaly.HIGH_WATERMARK_REGRESSION in verdict_of(directory).not_judged
    own = run(reports=(reported(1, "a", 0, 0, 5),))
    assert Anomaly.HIGH_WATERMARK_REGRESSION not in verdict_of(own).not_judged


def test_replicas_without_checkpoints_are_compared_below_the_lowest_end() -> None:
    replicas = REPLICAS | {3: ReplicaFacts(8, 0, 7)}
    lane = verdict_of(run(replicas=True), replicas=replicas)
    assert lane.ledger is not None
    assert lane.ledger.replicas is not None
    assert lane.ledger.replicas.partitions[0].judged_below == 8
