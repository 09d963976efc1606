"""Replicas in a verdict: how far they are compared, and what contradicts their checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.verification.tables.facts import ReplicaFacts
from tests.verification.judging.one_lane import LANE, MARKS, REPLICAS, run, verdict_of
from tests.verification.samples.changes import reported


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


def test_a_log_that_ends_below_every_high_watermark_was_cut() -> None:
    cut = verdict_of(run(marks={1: 12, 2: 12, 3: 11}))
    assert cut.verdict == Verdict.UNKNOWN
    assert "partition 0: log/ ends at offset 9, below every broker's high watermark, 11" in cut.reasons
    assert verdict_of(run(marks={1: 12, 2: 12, 3: 10})).verdict == Verdict.CONFORMS
    assert verdict_of(run(log=False, marks={1: 12})).verdict == verdict_of(run(log=False)).verdict


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
