import json
from pathlib import Path

import pytest
import report_runs as runs

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.report import write_report
from kafka_chaos.harness.report.inputs.evidence import read_evidence
from kafka_chaos.harness.report.timeline.events import WHOLE_RUN, timeline_of


def plain_run(path: Path, **more: object) -> Path:
    return runs.write(path, [runs.lane("orders")], [runs.judged("orders")], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("verdict.json", None, "verify the run first"),
        ("lanes.json", None, "missing"),
        ("verdict.json", "{", "not valid JSON"),
        ("verdict.json", "[]", "expected an object"),
        ("verdict.json", '{"verdict": "fine", "lanes": []}', "'fine', expected conforms, unknown, violation"),
        ("verdict.json", '{"verdict": "conforms", "lanes": [{}]}', "lanes[0]"),
        ("verdict.json", '{"verdict": "conforms", "lanes": [{"lane": "a", "verdict": 1}]}', "lane 'a': verdict: 1"),
        ("lanes.json", '{"lanes": {}}', "lanes: expected a list"),
    ],
)
def test_refuses_a_run_without_a_usable_verdict_and_writes_nothing(
    tmp_path: Path, name: str, content: str | None, expected: str
) -> None:
    run = plain_run(tmp_path / "run")
    (run / name).unlink() if content is None else (run / name).write_text(content)
    with pytest.raises(UsageFailure) as refusal:
        write_report(run)
    assert str(run / name) in str(refusal.value)
    assert expected in str(refusal.value)
    assert not list(run.glob("*report*"))
    assert not list(run.glob(".report*"))


def test_broken_small_files_are_named_and_passed_over(tmp_path: Path) -> None:
    run = plain_run(tmp_path / "run", experiment="a: [", events=runs.story())
    (run / "prediction.json").write_text("{")
    with (run / "events.jsonl").open("a") as lines:
        lines.write('{"ts_ns": 1, "type": "leader_ch\n{"ts_ns": "soon", "type": "step"}\n[]\n')
    evidence = read_evidence(run)
    assert evidence.experiment == {}
    assert evidence.predicted == {}
    assert any("experiment.yaml is not valid YAML" in line for line in evidence.missing)
    assert any("prediction.json is not valid JSON" in line for line in evidence.missing)
    assert any("3 lines are no events and are left out" in line for line in evidence.missing)


@pytest.mark.parametrize("nested", [True, False])
def test_reads_what_the_run_recorded_of_itself(tmp_path: Path, nested: bool) -> None:
    recorded = {"run_id": "r-1", "versions": {"kafka": "3.9.1"}}
    written = {"recorded": recorded} if nested else recorded
    evidence = read_evidence(plain_run(tmp_path / "run", experiment=json.dumps({"name": "x", **written})))
    assert evidence.run_id == "r-1"
    assert evidence.recorded["versions"] == {"kafka": "3.9.1"}


def test_tells_phases_faults_leaders_and_truncations(tmp_path: Path) -> None:
    reported = timeline_of(read_evidence(plain_run(tmp_path / "run", events=runs.story())))
    (phase,) = reported.phases
    assert (phase.name, phase.lanes) == ("load", ("orders",))
    assert (phase.start_ns, phase.end_ns) == (1 * runs.SECOND, 11 * runs.SECOND)
    (fault,) = reported.faults
    assert (fault.request.kind, fault.request.resolved, fault.proven) == ("pause", ("broker-1",), True)
    assert (fault.request.ts_ns, fault.healed_ns) == (3 * runs.SECOND, 8 * runs.SECOND)
    assert (fault.proof, fault.raw) == ("frozen by the cgroup freezer", '{"broker-1": {"freezer": "FROZEN"}}')
    assert [change.value for change in reported.leaders["orders"][0]] == ["1", "2"]
    assert [change.value for change in reported.isrs["orders"][0]] == ["1 2 3", "2 3"]
    assert [won.start_offset for won in reported.elections["orders"][0]] == [0, 40]
    assert [cut.offset for cut in reported.truncations["orders"][0]] == [40]
    assert reported.seconds == 11.5


def test_a_fault_without_proof_or_healing_says_so(tmp_path: Path) -> None:
    events = [
        runs.event(1, "fault_requested", fault_id="f", kind="kill", target="random", resolved=[]),
        runs.event(2, "fault_not_proven", fault_id="f", reason="still there"),
        runs.event(3, "fault_healed", fault_id="somebody else's"),
    ]
    (fault,) = timeline_of(read_evidence(plain_run(tmp_path / "run", events=events))).faults
    assert (fault.proven, fault.healed_ns, fault.proof) == (False, None, "still there")
    assert fault.concerns("any lane")


def test_odd_events_are_left_out(tmp_path: Path) -> None:
    events = [
        runs.event(1, "leader_changed", lane="orders", partition=0),
        runs.event(1, "leader_elected", lane="orders", partition="x", broker=1, leader_epoch=1, start_offset=0),
        runs.event(1, "log_truncated", lane="orders", partition=0, broker=None, offset=1),
        runs.event(1, "phase_started", phase="load"),
        runs.event(1, "never heard of"),
    ]
    reported = timeline_of(read_evidence(plain_run(tmp_path / "run", events=events)))
    assert not reported.leaders
    assert not reported.elections
    assert not reported.truncations
    assert [phase.name for phase in reported.phases] == [WHOLE_RUN]
