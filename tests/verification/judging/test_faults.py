"""Faults in a verdict: requested, proven and healed, and all that were declared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.verification.inputs.documents.checkpoints import Checkpoints
from kafka_chaos.verification.inputs.documents.events import Events
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from tests.verification.judging.one_lane import KILL, KILLED, LANE, run, verdict_of
from tests.verification.samples.partitions import FULL


@pytest.mark.parametrize("first_acknowledged_ns", [None, 200, 300])
def test_no_acknowledgement_before_the_first_fault(first_acknowledged_ns: int | None) -> None:
    facts = replace(FULL, first_acknowledged_ns=first_acknowledged_ns)
    later = replace(KILL, fault_id="kill-2", requested=[900], proven=[901], healed=[902])
    lane = verdict_of(run(faults=(later, KILL)), facts, lane=replace(KILLED, faults=("kill", "kill")))
    assert lane.verdict == Verdict.UNKNOWN
    assert lane.reasons == ("no acknowledgement before the first fault, kill-1",)


def test_a_lane_that_is_created_amid_faults_needs_an_acknowledgement_before_the_last_is_over() -> None:
    late = replace(KILLED, created_late=True)
    reasons = verdict_of(run(faults=(KILL,)), replace(FULL, first_acknowledged_ns=400), lane=late).reasons
    assert reasons == ("no acknowledgement before the end of the last fault, kill-1",)
    assert verdict_of(run(faults=(KILL,)), replace(FULL, first_acknowledged_ns=399), lane=late).reasons == ()


def test_checkpoints_name_every_broker_that_a_fault_hit(tmp_path: Path) -> None:
    hit = replace(KILL, resolved=("broker-1", "broker-8", "broker-9", "a-client"), shown=())
    (tmp_path / "experiment.yaml").touch()
    known = Checkpoints(brokers=frozenset({1, 2}))
    directory = replace(run(faults=(hit,)), checkpoints=known, path=tmp_path)
    doubts = verdict_of(directory, lane=replace(KILLED, faults=("kill",) * 4)).reasons
    assert "fault kill-1 hit broker-8, broker-9, which checkpoints.json does not name" in doubts


def test_a_fault_of_other_lanes_does_not_matter() -> None:
    other = replace(KILL, proven=[], lanes=("b",), requested=[1])
    assert verdict_of(run(faults=(other,))).verdict == Verdict.CONFORMS


def test_without_events_no_proof_is_asked_for() -> None:
    assert verdict_of(run(faults=None), replace(FULL, first_acknowledged_ns=None)).verdict == Verdict.CONFORMS


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
        ({"healed": [250, 400]}, "healed 2 times under one id"),
        ({"applied": [199]}, "applied before it was requested, or after it was proven"),
        ({"applied": [301]}, "applied before it was requested, or after it was proven"),
        ({"healed": [250]}, "healed before it was proven"),
        ({"resolved": ("broker-1",), "shown": ("broker-2",)}, "proven of broker-2, requested of broker-1"),
        ({"resolved": ("broker-1", "broker-2"), "shown": ("broker-2",)},
         "proven of broker-2, requested of broker-1, broker-2"),
        ({"target": "broker:1", "resolved": ("broker-2",)}, "requested of broker:1, but it hit broker-2"),
        ({"target": "brokers:1,3", "resolved": ("broker-1",)}, "requested of brokers:1,3, but it hit broker-1"),
    ],
)  # fmt: skip
def test_a_fault_must_be_requested_proven_and_healed_in_this_order(change: dict[str, Any], problem: str) -> None:
    hit = replace(KILL, **change)
    lane = verdict_of(run(faults=(hit,)), lane=replace(KILLED, faults=hit.counts_as))
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
        (("broker-1", "broker-1"), ("kill",) * 2, None, "kill"),
        (("broker-1", "broker-1"), ("kill", "session-expiry"), "kraft", "session-expiry"),
        (("zookeeper-1",), ("kill",), None, "kill"),
    ],
)
def test_a_fault_counts_for_each_container_that_it_hit(
    resolved: tuple[str, ...], declared: tuple[str, ...], mode: str | None, missing: str | None
) -> None:
    lane = replace(LANE, faults=declared, metadata_mode=mode)
    judged = verdict_of(run(faults=(replace(KILL, resolved=resolved),)), lane=lane)
    reason = f"lanes.json declares faults that events.jsonl does not report: {missing}"
    assert judged.reasons == (() if missing is None else (reason,))


@pytest.mark.parametrize(
    ("brokers", "hit", "ends_sessions"), [(2, 1, True), (3, 1, False), (3, 2, True), (5, 1, False), (5, 2, True)]
)
def test_in_kraft_mode_sessions_may_end_once_no_majority_of_the_brokers_is_left(
    brokers: int, hit: int, ends_sessions: bool
) -> None:
    lane = replace(LANE, faults=(*("kill",) * hit, "session-expiry"), metadata_mode="kraft")
    resolved = tuple(f"broker-{number}" for number in range(1, hit + 1))
    directory = run(faults=(replace(KILL, resolved=resolved),))
    directory = replace(directory, checkpoints=Checkpoints(brokers=frozenset(range(1, brokers + 1))))
    assert verdict_of(directory, lane=lane).verdict == (Verdict.CONFORMS if ends_sessions else Verdict.UNKNOWN)


def test_the_only_broker_of_a_cluster_whose_brokers_are_not_known_is_its_quorum() -> None:
    lane = replace(LANE, faults=("kill", "session-expiry"), metadata_mode="kraft", replication_factor=1)
    directory = run(faults=(replace(KILL, resolved=("broker-1",)),))
    assert verdict_of(directory, lane=lane).verdict == Verdict.CONFORMS


@pytest.mark.parametrize(("faults", "missing"), [((), "kill, kill"), ((KILL,), "kill")])
def test_a_declared_fault_must_be_reported(faults: tuple[FaultRecord, ...], missing: str) -> None:
    lane = replace(LANE, faults=("kill", "kill"))
    assert verdict_of(run(faults=None), lane=lane).verdict == Verdict.CONFORMS
    unknown = verdict_of(run(faults=faults), lane=lane)
    assert unknown.reasons == (f"lanes.json declares faults that events.jsonl does not report: {missing}",)


@pytest.mark.parametrize(
    ("faults", "missing"),
    [
        ((KILL, replace(KILL, fault_id="pause-1", kind="pause")), "pause"),
        ((replace(KILL, resolved=("broker-1", "broker-2")),), "kill"),
    ],
)
def test_a_reported_fault_must_be_declared(faults: tuple[FaultRecord, ...], missing: str) -> None:
    unknown = verdict_of(run(faults=faults), lane=KILLED)
    assert unknown.reasons == (f"events.jsonl reports faults that lanes.json does not declare: {missing}",)


def test_a_fault_from_outside_needs_no_report() -> None:
    directory = replace(run(), events=Events((), {}, {"a": ("kill",)}))
    assert verdict_of(directory, lane=replace(LANE, faults=("kill",))).verdict == Verdict.CONFORMS


def test_one_fault_of_a_kind_of_its_own_excuses_no_other() -> None:
    lane = replace(LANE, faults=("partition", "power-loss", "power-loss", "power-loss"))
    isolate = replace(KILL, fault_id="isolate-1", kind="isolate", resolved=("broker-1",))
    unknown = verdict_of(run(faults=(isolate,)), lane=lane)
    missing = ", ".join(["power-loss"] * 3)
    assert unknown.reasons == (f"lanes.json declares faults that events.jsonl does not report: {missing}",)
    brokers = tuple(f"broker-{number}" for number in (1, 2, 3))
    lost = replace(KILL, fault_id="read-only-1", kind="read-only-disk", resolved=brokers)
    assert verdict_of(run(faults=(isolate, lost)), lane=lane).verdict == Verdict.CONFORMS


@pytest.mark.parametrize(("kind", "told"), [("clock-step", ()), ("own", ()), ("own", ("partition",))])
def test_kinds_count_as_what_the_model_was_told(kind: str, told: tuple[str, ...]) -> None:
    fault = replace(KILL, kind=kind, resolved=("broker-1",), model_faults=told)
    judged = verdict_of(run(faults=(fault,)), lane=replace(LANE, faults=("partition",)))
    assert judged.verdict == (Verdict.CONFORMS if told else Verdict.UNKNOWN)


def test_a_lockstep_phase_counts_as_what_its_steps_do() -> None:
    steps = ("cut-replication", "append", "kill-leader")
    phase = FaultRecord("cut/lockstep", "lockstep", steps=steps, requested=[200], proven=[300])
    lane = replace(LANE, faults=("partition", "kill", "kill"))
    reason = "lanes.json declares faults that events.jsonl does not report: kill"
    assert verdict_of(run(faults=(phase,)), lane=lane, steps=steps).reasons == (reason,)
