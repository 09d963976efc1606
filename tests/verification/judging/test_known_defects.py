"""Known defects in a verdict: which findings they explain, on what evidence, and what accepting them changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.causes import Cause
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.verification.cli import verify_command
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.tables import Table
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts
from tests.commands import ended
from tests.verification.samples.partitions import FULL
from tests.verification.samples.run_dirs import Rows

DEFECT = "librdkafka-4953"
LANE = Lane(lane="a", idempotence=True)
MET = {"a": frozenset((DEFECT,))}
TWICE = Observation(3, causes={Cause.PRODUCER_EPOCH: 3})
PREDICTION = LanePrediction(
    dict.fromkeys(Anomaly, Status.FORBIDDEN), "model", (), "digest", {Anomaly.DUPLICATE: (DEFECT,)}
)
FOUND = "duplicate is forbidden and was found: 3"


def verdict_of(
    preconditions: Mapping[str, frozenset[str]] = MET,
    *,
    replicas: bool = False,
    prediction: LanePrediction = PREDICTION,
    facts: PartitionFacts = FULL,
    **observed: Observation,
) -> LaneVerdict:
    given = {"produced": True, "consumed": True, "log": True, "replicas": replicas}
    tables = {name: Table(given=there) for name, there in given.items()}
    run = RunDirectory(Path("run"), (LANE,), tables, Events((), preconditions=preconditions))
    seen = {Anomaly(name): one for name, one in (observed or {"duplicate": TWICE}).items()}
    return judge(run, LANE, LaneFacts({0: facts}), prediction, seen)


def run_of(*lanes: LaneVerdict) -> RunVerdict:
    return RunVerdict(Path("run"), Verdict.gravest(lane.verdict for lane in lanes), lanes)


def test_a_finding_that_a_known_defect_explains_is_a_violation_that_names_it() -> None:
    lane = verdict_of()
    assert (lane.verdict, lane.outcome) == (Verdict.VIOLATION, Verdict.VIOLATION)
    assert lane.reasons == (f"{FOUND} (known defect: {DEFECT})",)
    assert lane.to_json()["known_defects"] == [DEFECT]
    assert "accepted_defects" not in lane.to_json()


@pytest.mark.parametrize(
    "lane",
    [
        verdict_of({}),
        verdict_of({"b": frozenset((DEFECT,))}),
        verdict_of({"a": frozenset(("KAFKA-15591",))}),
        verdict_of(prediction=replace(PREDICTION, known_defects={})),
        verdict_of(prediction=replace(PREDICTION, known_defects={Anomaly.LOST_WRITE: (DEFECT,)})),
    ],
    ids=["no precondition", "another lane's", "another defect's", "the model names none", "for another anomaly"],
)
def test_without_evidence_a_known_defect_is_neither_named_nor_accepted(lane: LaneVerdict) -> None:
    assert lane.reasons == (FOUND,)
    assert "known_defects" not in lane.to_json()
    assert lane.accepting([DEFECT, "KAFKA-15591"]) == lane


@pytest.mark.parametrize(
    ("causes", "named"),
    [
        ({Cause.PRODUCER_EPOCH: 3}, True),
        ({Cause.PRODUCER_EPOCH: 2, Cause.UNEXPLAINED: 1}, False),
        ({Cause.UNEXPLAINED: 3}, False),
        ({}, False),
    ],
)
def test_where_replicas_show_producer_epochs_every_duplicate_must_have_two(
    causes: Mapping[str, int], named: bool
) -> None:
    lane = verdict_of(replicas=True, duplicate=Observation(3, causes=causes))
    assert lane.verdict == Verdict.VIOLATION
    assert (lane.known_defects == (DEFECT,)) == named


def test_an_accepted_defect_leaves_the_violation_and_changes_the_exit_code() -> None:
    run = run_of(verdict_of()).accepting([DEFECT])
    (lane,) = run.lanes
    assert (run.verdict, run.outcome, lane.verdict) == (Verdict.VIOLATION, Verdict.CONFORMS, Verdict.VIOLATION)
    assert (run.described, lane.described) == ("violation (accepted)", "violation (accepted)")
    entry = run.to_json()["lanes"][0]
    assert (run.to_json()["verdict"], entry["verdict"]) == ("violation", "violation")
    assert (entry["known_defects"], entry["accepted_defects"]) == ([DEFECT], [DEFECT])
    assert entry["reasons"] == [f"{FOUND} (known defect: {DEFECT})", f"accepted as known: {DEFECT}"]


def test_only_what_was_asked_for_is_accepted() -> None:
    run = run_of(verdict_of())
    assert run.accepting([]) == run
    assert run.accepting(["KAFKA-15591"]) == run
    assert run.outcome == Verdict.VIOLATION


@pytest.mark.parametrize(
    "lane",
    [
        verdict_of(duplicate=TWICE, lost_write=Observation(1)),
        verdict_of(facts=replace(FULL, read_end=5)),
        replace(verdict_of(), verdict=Verdict.UNKNOWN),
    ],
    ids=["another violation", "a doubt", "unknown"],
)
def test_any_other_reason_keeps_a_lane_from_being_accepted(lane: LaneVerdict) -> None:
    assert lane.known_defects == (DEFECT,)
    assert lane.accepting([DEFECT]) == lane
    assert run_of(lane).accepting([DEFECT]).outcome == lane.verdict


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_other_lanes_decide_the_exit_code(verdict: Verdict) -> None:
    other = replace(verdict_of(), verdict=verdict, reasons=("because",), explained={})
    assert run_of(verdict_of(), other).accepting([DEFECT]).outcome == verdict


def test_a_run_that_the_checkers_disagree_on_stays_unknown() -> None:
    run = replace(run_of(verdict_of()), verdict=Verdict.UNKNOWN)
    assert run.accepting([DEFECT]).outcome == Verdict.UNKNOWN


@pytest.mark.parametrize("command", ["run", "verify"])
def test_an_unknown_defect_is_refused_before_anything_is_read(tmp_path: Path, command: str) -> None:
    result = ended(cli, command, tmp_path / "missing", "--accept-known", DEFECT, "--accept-known", "librdkafka-1")
    assert result.exit_code == 64
    assert "--accept-known: 'librdkafka-1': expected known defects out of librdkafka-4953, KAFKA-15591" in result.output


def planted(*, met: bool) -> Rows:
    """An idempotent producer's record that is in the log twice, sent in two producer epochs."""
    rows = Rows(lanes=[{"lane": "a", "acks": "all", "idempotence": True, "replication_factor": 2}])
    for seq in range(20):
        rows.all(seq, seq).replica(1, seq, seq, producer_epoch=0).replica(2, seq, seq, producer_epoch=0)
    rows.read(20, 7).store(20, 7).replica(1, 20, 7, producer_epoch=1).replica(2, 20, 7, producer_epoch=1)
    entry = {"high_watermark": 21, "log_end_offset": 21, "leader_epochs": [[0, 0]]}
    rows.checkpoints = {"brokers": {str(broker): {"a/0": dict(entry)} for broker in (1, 2)}}
    rows.event("run_started", run_id="r", experiment="e", lanes=["a"], collects=["log", "replicas"])
    if met:
        rows.event("defect_precondition", defect=DEFECT, lane="a", producer_id=0, evidence="a message timed out")
    return rows


@pytest.mark.spark
@pytest.mark.parametrize(
    ("met", "options", "code"),
    [(True, (), 1), (True, ("--accept-known", DEFECT), 0), (False, ("--accept-known", DEFECT), 1)],
)
def test_the_exit_code_of_a_planted_run(
    tmp_path: Path, spark: Any, met: bool, options: tuple[str, ...], code: int
) -> None:
    run_dir = planted(met=met).write(tmp_path / "run")
    result = CliRunner().invoke(verify_command, [str(run_dir), *options])
    assert result.exit_code == code, result.output
    verdict = json.loads((run_dir / "verdict.json").read_text())
    (lane,) = verdict["lanes"]
    assert (verdict["verdict"], lane["verdict"]) == ("violation", "violation")
    assert lane.get("known_defects", []) == [DEFECT] * met
    assert lane.get("accepted_defects", []) == [DEFECT] * (code == 0)
    assert (f"accepted as known: {DEFECT}" in result.output) == (code == 0)
