"""From counts to verdicts: every reason to violate, to doubt and to conform."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.ledger import SecondLook, TableLedger
from kafka_chaos.verification.inputs.documents.checkpoints import Checkpoints, read_checkpoints
from kafka_chaos.verification.inputs.documents.events import Events, FaultRecord, Report
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import RunDirectory
from kafka_chaos.verification.inputs.tables import Table
from kafka_chaos.verification.judging.account import unread
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.judging.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.tables.facts import LaneFacts, PartitionFacts, ReplicaFacts
from tests.verification.samples.partitions import FULL

LANE = Lane(lane="a")
KILL = FaultRecord("kill-1", "kill", requested=[200], proven=[300], healed=[400])
REPLICAS = {broker: ReplicaFacts(10, 0, 9) for broker in (1, 2, 3)}
MARKS = dict.fromkeys(REPLICAS, 10)


def run(
    *,
    log: bool = True,
    faults: tuple[FaultRecord, ...] | None = None,
    replicas: bool = False,
    marks: dict[int, int | None] | None = None,
    reports: tuple[Report, ...] = (),
) -> RunDirectory:
    given = {"produced": True, "consumed": True, "log": log, "replicas": replicas}
    checkpoints = Checkpoints() if marks is None else Checkpoints({}, {("a", 0): marks}, True)
    tables = {name: Table(given=there) for name, there in given.items()}
    return RunDirectory(Path("run"), (LANE,), tables, Events(faults, reports), checkpoints=checkpoints)


def verdict_of(
    directory: RunDirectory,
    facts: PartitionFacts | None = FULL,
    *,
    lane: Lane = LANE,
    statuses: dict[Anomaly, Status] | None = None,
    counts: dict[Anomaly, int] | None = None,
    steps: tuple[str, ...] = (),
    unjudged: int = 0,
    replicas: dict[int, ReplicaFacts] | None = None,
    unread: tuple[str, ...] = (),
) -> LaneVerdict:
    predicted = LanePrediction(dict.fromkeys(Anomaly, Status.FORBIDDEN) | (statuses or {}), "model", steps, "digest")
    observed = {anomaly: Observation(count) for anomaly, count in (counts or {}).items()}
    of_lane = LaneFacts({0: facts} if facts else {}, unjudged, {0: replicas} if replicas else {})
    return judge(directory, lane, of_lane, predicted, observed, unread=unread)


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


def test_what_is_required_of_a_fault_without_effect_is_unknown() -> None:
    unproven = replace(KILL, proven=[], denied="process still there")
    lane = verdict_of(run(faults=(unproven,)), statuses={Anomaly.LOST_WRITE: Status.REQUIRED})
    assert lane.verdict == Verdict.UNKNOWN
    assert "fault kill-1: not proven: process still there" in lane.reasons


def test_required_but_not_judged_is_unknown() -> None:
    lane = verdict_of(run(log=False), statuses={Anomaly.OFFSET_MISMATCH: Status.REQUIRED})
    assert lane.verdict == Verdict.UNKNOWN


def test_an_empty_history_is_unknown() -> None:
    assert verdict_of(run(), None).reasons == ("empty history: nothing was produced",)
    assert verdict_of(run(), None).verdict == Verdict.UNKNOWN


@pytest.mark.parametrize("first_acknowledged_ns", [None, 200, 300])
def test_no_acknowledgement_before_the_first_fault(first_acknowledged_ns: int | None) -> None:
    facts = replace(FULL, first_acknowledged_ns=first_acknowledged_ns)
    later = replace(KILL, fault_id="kill-2", requested=[900], proven=[901], healed=[902])
    lane = verdict_of(run(faults=(later, KILL)), facts)
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("no acknowledgement before the first fault, kill-1",)


def test_a_fault_of_other_lanes_does_not_matter() -> None:
    other = replace(KILL, proven=[], lanes=("b",), requested=[1])
    assert verdict_of(run(faults=(other,))).verdict == Verdict.CONFORMS


def test_without_events_no_proof_is_asked_for() -> None:
    assert verdict_of(run(faults=None), replace(FULL, first_acknowledged_ns=None)).verdict == Verdict.CONFORMS


@pytest.mark.parametrize("read_end", [None, 8])
@pytest.mark.parametrize("log", [True, False])
def test_an_end_that_no_consumer_reached_is_unknown(read_end: int | None, log: bool) -> None:
    lane = verdict_of(run(log=log), replace(FULL, read_end=read_end))
    assert lane.verdict == Verdict.UNKNOWN
    far = "nothing of it was read" if read_end is None else "the last offset read is 8"
    assert lane.reasons == (f"no consumer reached the end of partition 0, offset 9: {far}",)


def test_a_violation_outweighs_a_doubt() -> None:
    lane = verdict_of(run(), replace(FULL, read_end=3), counts={Anomaly.PHANTOM: 1})
    assert lane.verdict == Verdict.VIOLATION
    assert len(lane.reasons) == 2


def test_unseen_without_a_log_is_unknown_and_no_violation() -> None:
    lane = verdict_of(run(log=False), replace(FULL, read_end=8), counts={Anomaly.UNSEEN: 1})
    assert lane.verdict == Verdict.UNKNOWN


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


def test_a_loss_that_was_found_counts_although_others_could_not_be_judged() -> None:
    lane = verdict_of(run(log=False), unjudged=4, counts={Anomaly.LOST_WRITE: 1})
    assert lane.verdict == Verdict.VIOLATION
    assert lane.count(Anomaly.LOST_WRITE) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"requested": [200, 210]}, "requested 2 times under one id"),
        ({"requested": []}, "never requested"),
        ({"proven": []}, "not proven: no event says so"),
        ({"proven": [], "denied": "gone"}, "not proven: gone"),
        ({"denied": "gone"}, "reported as proven and as not proven: gone"),
        ({"proven": [199]}, "proven before it was requested"),
        ({"healed": []}, "not healed: no event says so"),
        ({"healed": [250]}, "healed before it was proven"),
    ],
)
def test_a_fault_must_be_requested_proven_and_healed_in_this_order(change: dict[str, Any], problem: str) -> None:
    lane = verdict_of(run(faults=(replace(KILL, **change),)))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == (f"fault kill-1: {problem}",)
    assert lane.ledger is not None
    assert lane.ledger.faults.events is not None
    assert lane.ledger.faults.events[0].problem == problem


def test_a_lockstep_phase_is_healed_by_its_faults() -> None:
    phase = FaultRecord("cut/lockstep", "lockstep", steps=("append",), requested=[200], proven=[300])
    assert verdict_of(run(faults=(phase,)), steps=("append",)).verdict == Verdict.CONFORMS
    other = verdict_of(run(faults=(phase,)), steps=("append", "elect"))
    assert other.reasons == ("prediction.json is for a lock-step phase that events.jsonl does not report",)


@pytest.mark.parametrize(
    ("resolved", "declared", "mode", "missing"),
    [
        (("broker-1", "broker-2"), ("kill", "kill"), None, None),
        (("zookeeper-1",), ("session-expiry",) * 3, None, None),
        (("controller-1",), ("session-expiry",) * 3, "kraft", None),
        (("broker-1", "broker-2"), ("kill", "kill", "session-expiry"), "kraft", None),
        (("broker-1", "broker-2"), ("kill", "kill", "session-expiry"), "zookeeper", "session-expiry"),
        (("broker-1",), ("kill", "session-expiry"), "kraft", "session-expiry"),
        (("broker-1", "broker-2"), ("kill",) * 3, "kraft", "kill"),
    ],
)
def test_a_fault_counts_for_each_container_that_it_hit(
    resolved: tuple[str, ...], declared: tuple[str, ...], mode: str | None, missing: str | None
) -> None:
    lane = replace(LANE, faults=declared, metadata_mode=mode)
    judged = verdict_of(run(faults=(replace(KILL, resolved=resolved),)), lane=lane)
    reason = f"lanes.json declares faults that events.jsonl does not report: {missing}"
    assert judged.reasons == (() if missing is None else (reason,))


@pytest.mark.parametrize(("faults", "missing"), [((), "kill, kill"), ((KILL,), "kill")])
def test_a_declared_fault_must_be_reported(faults: tuple[FaultRecord, ...], missing: str) -> None:
    lane = replace(LANE, faults=("kill", "kill"))
    assert verdict_of(run(faults=None), lane=lane).verdict == Verdict.CONFORMS
    unknown = verdict_of(run(faults=faults), lane=lane)
    assert unknown.reasons == (f"lanes.json declares faults that events.jsonl does not report: {missing}",)


def test_a_fault_from_outside_needs_no_report() -> None:
    directory = replace(run(), events=Events((), (), {"a": ("kill",)}))
    assert verdict_of(directory, lane=replace(LANE, faults=("kill",))).verdict == Verdict.CONFORMS


def test_a_history_without_an_acknowledgement_is_unknown() -> None:
    assert verdict_of(run(), replace(FULL, acknowledged=0)).verdict == Verdict.UNKNOWN


def test_log_rows_that_are_there_twice_are_unknown() -> None:
    assert verdict_of(run(), replace(FULL, doubled=2)).reasons == ("log/ holds 2 rows twice",)


def test_what_was_not_read_makes_even_a_violation_unknown() -> None:
    lane = verdict_of(run(), counts={Anomaly.DUPLICATE: 3}, unread=("log/_x.parquet is hidden",))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("duplicate is forbidden and was found: 3", "log/_x.parquet is hidden")


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


def test_replicas_that_were_compared_in_part_are_named() -> None:
    lane = verdict_of(run(replicas=True, marks={1: 5, 2: 10, 3: 10}), replicas=REPLICAS)
    assert lane.verdict == Verdict.CONFORMS
    assert "below the lowest high watermark 5" in lane.not_judged[Anomaly.REPLICA_DIVERGENCE]
    assert lane.ledger is not None
    assert lane.ledger.replicas is not None
    assert lane.ledger.replicas.partitions[0].judged_below == 5


def test_reports_of_another_lane_are_no_evidence() -> None:
    directory = replace(run(reports=(Report(1, "b", 0, 0, 5),)), lanes=(LANE, Lane(lane="b")))
    assert Anomaly.HIGH_WATERMARK_REGRESSION in verdict_of(directory).not_judged
    own = run(reports=(Report(1, "a", 0, 0, 5),))
    assert Anomaly.HIGH_WATERMARK_REGRESSION not in verdict_of(own).not_judged


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


def test_what_is_required_of_an_empty_history_is_unknown() -> None:
    statuses = {Anomaly.LOST_WRITE: Status.REQUIRED}
    assert verdict_of(run(faults=(KILL,)), None, statuses=statuses).verdict == Verdict.UNKNOWN


def test_the_epochs_of_a_partition_are_those_of_the_replica_with_the_newest_one(tmp_path: Path) -> None:
    chains = {"1": [[0, 0], [2, 7]], "2": [[0, 0], [3, 5]], "3": [[0, 0]]}
    brokers = {
        broker: {"a/0": {"high_watermark": 9, "log_end_offset": 9, "leader_epochs": chain}}
        for broker, chain in chains.items()
    }
    (tmp_path / "checkpoints.json").write_text(json.dumps({"brokers": brokers}))
    assert read_checkpoints(tmp_path / "checkpoints.json", [LANE]).epochs == {("a", 0): ((0, 0), (3, 5))}


def test_all_that_is_known_of_a_lane_is_written_down() -> None:
    directory = run(
        faults=(replace(KILL, proven=[]),),
        replicas=True,
        marks={1: 10, 2: 9, 3: None},
        reports=(Report(1, "a", 0, 0, 5), Report(2, "a", 0, 0, 6), Report(3, "b", 0, 0, 6)),
    )
    lane = verdict_of(
        directory,
        replace(FULL, read_end=8, consumed=9, doubled=2),
        lane=replace(LANE, faults=("kill",)),
        statuses={Anomaly.DUPLICATE: Status.REQUIRED, Anomaly.LOST_WRITE: Status.PERMITTED},
        counts={Anomaly.LOST_WRITE: 1},
        replicas={1: REPLICAS[1], 2: REPLICAS[2]},
    )
    incomplete = (
        "partition 0: replicas/ holds records of 2 of 3 replicas; "
        "partition 0: compared below the lowest high watermark 9, all logs end at 10 or later"
    )
    doubts = [
        "no consumer reached the end of partition 0, offset 9: the last offset read is 8",
        "log/ holds 2 rows twice",
        "fault kill-1: not proven: no event says so",
        "partition 0: replicas/ holds records of 2 of 3 replicas",
    ]
    found = lane.to_json()
    predicted = found.pop("predicted")
    assert predicted.pop("lost_write") == "permitted"
    assert predicted.pop("duplicate") == "required"
    assert set(predicted.values()) == {"forbidden"}
    assert found == {
        "lane": "a",
        "verdict": "unknown",
        "produced": 10,
        "acknowledged": 10,
        "consumed": 9,
        "anomalies": {
            "lost_write": {"count": 1, "status": "permitted", "examples": []},
            "duplicate": {"count": 0, "status": "required", "examples": []},
        },
        "not_judged": {"replica_divergence": incomplete},
        "reasons": [*doubts, "duplicate is required and was not found"],
        "ledger": {
            "complete": False,
            "missing": (*doubts, incomplete),
            "left_out": (),
            "rows": {"produced": 10, "consumed": 9, "log": 10, "replicas": 20},
            "acknowledged": {"records": 10, "judged": 10},
            "partitions": ({"partition": 0, "log_end": 9, "read_to": 8, "end_reached": False},),
            "faults": {
                "declared": ("kill",),
                "events": (
                    {
                        "fault_id": "kill-1",
                        "kind": "kill",
                        "requested_ns": 200,
                        "proven_ns": None,
                        "healed_ns": 400,
                        "problem": "not proven: no event says so",
                    },
                ),
            },
            "replicas": {
                "replication_factor": 3,
                "partitions": (
                    {
                        "partition": 0,
                        "judged_below": 9,
                        "brokers": (
                            {"broker": 1, "rows": 10, "first": 0, "last": 9, "high_watermark": 10},
                            {"broker": 2, "rows": 10, "first": 0, "last": 9, "high_watermark": 9},
                            {"broker": 3, "rows": 0, "first": None, "last": None, "high_watermark": None},
                        ),
                    },
                ),
            },
            "high_watermark_reports": 2,
            "prediction": {"source": "model", "recomputed": True, "model_digest": "digest"},
        },
    }


def test_what_a_run_left_out_is_written_down() -> None:
    ledger = verdict_of(run(log=False)).ledger
    assert ledger is not None
    assert ledger.left_out == (
        "no log/: the final log is unknown",
        "no replicas/: replicas are not compared",
        "no events.jsonl: proofs of faults are not judged",
        "no reports of high watermarks",
    )
    assert (ledger.rows.log, ledger.rows.replicas, ledger.replicas, ledger.faults.events) == (None, None, None, None)
    of_replicas = verdict_of(run(replicas=True), replicas=REPLICAS).ledger
    assert of_replicas is not None
    assert "no checkpoints.json: replicas are compared below the lowest log end" in of_replicas.left_out


def test_announced_tables_and_phases_that_never_ended_are_missed() -> None:
    directory = run(log=False)
    events = Events((), collects=("log", "replicas"), loads={"one": ("a",), "two": ("b",), "three": None})
    lane = verdict_of(replace(directory, events=events))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == (
        "log/ is missing: events.jsonl announces it, so the run ended before it was collected",
        "replicas/ is missing: events.jsonl announces it, so the run ended before it was collected",
        "the load of phase one never ended: events.jsonl reports no phase_ended",
        "the load of phase three never ended: events.jsonl reports no phase_ended",
    )


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


def test_tables_that_were_not_read_in_full_are_named() -> None:
    tables = {"produced": Table(given=True), "log": Table(given=True, unread=("log/_late.parquet is hidden",))}
    directory = replace(run(), tables={**run().tables, **tables})
    read = {
        "produced": TableLedger(files=(), rows_by_footer=10, rows_as_read=9),
        "log": TableLedger(files=(), rows_by_footer=5, rows_as_read=5),
    }
    assert unread(directory, read, ("produced", "consumed", "log")) == (
        "produced/ holds 10 rows by its files' footers, but 9 were read",
        "log/_late.parquet is hidden",
    )


def test_the_verdict_of_a_run_is_that_of_its_gravest_lane_with_all_tables() -> None:
    lane = verdict_of(run())
    table = TableLedger(files=(("log/a.parquet", 5),), rows_by_footer=5, rows_as_read=4)
    whole = RunVerdict(Path("run"), Verdict.UNKNOWN, (lane,), {"log": table}, SecondLook(lanes=1), seconds=3.0)
    assert whole.to_json() == {
        "format_version": 1,
        "verdict": "unknown",
        "tables": {
            "log": {"files": [{"file": "log/a.parquet", "rows": 5}], "rows_by_footer": 5, "rows_as_read": 4},
        },
        "second_look": SecondLook(lanes=1).to_json(),
        "lanes": [lane.to_json()],
    }
    assert whole.lane("a") is lane
    with pytest.raises(KeyError, match="b"):
        whole.lane("b")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            replace(FULL, acknowledged=0, first_acknowledged_ns=None),
            "nothing was acknowledged: no record could be lost",
        ),
        (replace(FULL, stored=0), "log/ holds no record of this lane, although 10 were acknowledged"),
        (replace(FULL, read_end=None), "no consumer reached the end of partition 0, offset 9: nothing of it was read"),
    ],
)
def test_why_a_history_does_not_suffice(facts: PartitionFacts, reason: str) -> None:
    assert verdict_of(run(), facts).reasons == (reason,)


def test_why_records_could_not_be_judged() -> None:
    gone = "4 of 10 acknowledged records were read by nobody, and "
    cleaned = verdict_of(run(), unjudged=4, lane=replace(LANE, cleanup_policy="delete"))
    assert cleaned.reasons == (gone + "are not in the log, from which records are removed",)
    unlogged = verdict_of(run(log=False), unjudged=4)
    assert unlogged.reasons == (gone + "there is no final log (log/)",)
    assert unlogged.not_judged[Anomaly.UNSEEN] == gone + "there is no final log (log/)"


def test_what_is_required_and_could_not_be_judged_says_why() -> None:
    lane = verdict_of(run(log=False), statuses={Anomaly.OFFSET_GAP: Status.REQUIRED})
    assert lane.reasons == ("offset_gap is required and could not be judged: there is no final log (log/)",)


def test_doubts_come_in_the_order_of_partitions() -> None:
    behind = {number: replace(FULL, read_end=None) for number in (2, 0, 1)}
    predicted = LanePrediction(dict.fromkeys(Anomaly, Status.FORBIDDEN), "model", (), "digest")
    lane = judge(run(), replace(LANE, partitions=3), LaneFacts({None: PartitionFacts(), **behind}), predicted, {})
    assert [reason.partition("partition ")[2][0] for reason in lane.reasons] == ["0", "1", "2"]


def test_replicas_without_checkpoints_are_compared_below_the_lowest_end() -> None:
    replicas = REPLICAS | {3: ReplicaFacts(8, 0, 7)}
    lane = verdict_of(run(replicas=True), replicas=replicas)
    assert lane.ledger is not None
    assert lane.ledger.replicas is not None
    assert lane.ledger.replicas.partitions[0].judged_below == 8


def test_a_lane_whose_prediction_nothing_confirms_is_unknown() -> None:
    predicted = LanePrediction(dict.fromkeys(Anomaly, Status.FORBIDDEN), "prediction.json")
    lane = judge(run(), LANE, LaneFacts({0: FULL}), predicted, {})
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("the model could not confirm prediction.json: its search was not exhausted",)
    assert lane.ledger is not None
    assert (lane.ledger.prediction.source, lane.ledger.prediction.recomputed) == ("prediction.json", False)
