"""`kafka-chaos known`: the table out of the heads, and both verdicts out of runs that a stand-in makes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.anomalies import Anomaly, Status, Verdict
from kafka_chaos.contract.command.errors import ClusterFailure, ExitCode, UsageFailure
from kafka_chaos.harness.cli.known_command import KNOWN_FOLDER, Comparison, compare_sides, known_command, known_defects
from kafka_chaos.harness.cli.plan_command import plan_of
from kafka_chaos.harness.experiment.file import load_experiment, parse_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.verification import LaneVerdict, RunVerdict
from kafka_chaos.verification.judging.result import Observation
from tests.commands import ended

HEAD = """\
name: lost
defect:
  ticket: https://example.org/1
  title: Records are lost
  affected: "2.0 to 2.4.1"
  mended: "2.5"
  borders: source
  anomalies: [lost_write]
  lanes: [old]
  minutes: 2
  runs: 3
  shown: 2
cluster: {kafka_version: 2.4.1, broker_configs: {message.max.bytes: 2000000}}
lanes:
  - {lane: old, client: java 2.8.2}
  - {lane: new, client: java 3.9.1}
"""
TWICE = HEAD.replace("lanes: [old]", "control: {kafka_version: 2.8.2, broker_configs: {num.io.threads: 4}}")
Found = tuple[Verdict, Mapping[Anomaly, int]]
CLEAN: Found = (Verdict.CONFORMS, {})
LOST: Found = (Verdict.VIOLATION, {Anomaly.LOST_WRITE: 7})
PERMITTED_LOSS: Found = (Verdict.CONFORMS, {Anomaly.LOST_WRITE: 7})


def judged(lane: str, verdict: Verdict, counts: Mapping[Anomaly, int], status: Status) -> LaneVerdict:
    observed = {anomaly: Observation(count) for anomaly, count in counts.items()}
    return LaneVerdict(lane, verdict, 9, 9, 9, dict.fromkeys(Anomaly, status), observed, {})


def result_of(lanes: tuple[LaneVerdict, ...], **gaps: float) -> RunResult:
    verdict = RunVerdict(Path("run"), Verdict.gravest(lane.verdict for lane in lanes), lanes)  # type: ignore[arg-type]
    return RunResult(Path("run"), verdict, gaps)


def runs(
    *found: Mapping[str, Found], status: Status = Status.FORBIDDEN
) -> tuple[Callable[[Experiment], RunResult], list[Experiment]]:
    """A stand-in for runs that finds this in one run after the other, and the experiments that it was given."""
    asked: list[Experiment] = []

    def run(experiment: Experiment) -> RunResult:
        lanes = tuple(judged(lane, *what, status) for lane, what in found[len(asked)].items())
        asked.append(experiment)
        return result_of(lanes)

    return run, asked


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lost-1.yaml"
    path.write_text(HEAD)
    return path


def test_both_verdicts_of_lanes_that_run_side_by_side(file: Path) -> None:
    run, asked = runs({"old": LOST, "new": CLEAN})
    shown = compare_sides(file, run)
    assert shown.lines == [
        "affected (Kafka 2.4.1; old: java 2.8.2): violation; lost_write 7",
        "control (Kafka 2.4.1; new: java 3.9.1): conforms",
        "lost-1 is shown",
    ]
    assert (shown.exit_code, len(asked)) == (ExitCode.CONFORMS, 1)


def test_both_verdicts_of_two_clusters(file: Path) -> None:
    file.write_text(TWICE)
    run, asked = runs({"old": LOST, "new": LOST}, {"old": CLEAN, "new": CLEAN})
    shown = compare_sides(file, run)
    assert shown.lines[:2] == ["affected (Kafka 2.4.1): violation; lost_write 14", "control (Kafka 2.8.2): conforms"]
    assert shown.exit_code is ExitCode.CONFORMS
    clusters = [(one.cluster.kafka_version, one.cluster.broker_configs) for one in asked]
    assert clusters == [
        ("2.4.1", {"message.max.bytes": 2000000}),
        ("2.8.2", {"message.max.bytes": 2000000, "num.io.threads": 4}),
    ]


@pytest.mark.parametrize(
    ("old", "new", "status", "code"),
    [
        # What settings permit is a defect of the promise: it is found, and no violation.
        (PERMITTED_LOSS, CLEAN, Status.PERMITTED, ExitCode.CONFORMS),
        (CLEAN, CLEAN, Status.FORBIDDEN, ExitCode.UNKNOWN),
        ((Verdict.UNKNOWN, {Anomaly.LOST_WRITE: 7}), CLEAN, Status.FORBIDDEN, ExitCode.UNKNOWN),
        (LOST, (Verdict.UNKNOWN, {}), Status.FORBIDDEN, ExitCode.UNKNOWN),
        (PERMITTED_LOSS, (Verdict.CONFORMS, {Anomaly.LOST_WRITE: 1}), Status.PERMITTED, ExitCode.UNKNOWN),
        (LOST, LOST, Status.FORBIDDEN, ExitCode.VIOLATION),
        (LOST, (Verdict.VIOLATION, {Anomaly.PHANTOM: 1}), Status.FORBIDDEN, ExitCode.VIOLATION),
        ((Verdict.VIOLATION, {Anomaly.PHANTOM: 1}), CLEAN, Status.FORBIDDEN, ExitCode.VIOLATION),
        ((Verdict.VIOLATION, {Anomaly.LOST_WRITE: 7, Anomaly.PHANTOM: 1}), CLEAN, Status.FORBIDDEN, ExitCode.VIOLATION),
    ],
)
def test_a_defect_is_shown_by_the_affected_side_alone(
    file: Path, old: Found, new: Found, status: Status, code: ExitCode
) -> None:
    run, _ = runs({"old": old, "new": new}, status=status)
    shown: Comparison = compare_sides(file, run)
    assert (shown.exit_code, " is shown" in shown.lines[-1]) == (code, code is ExitCode.CONFORMS)


@pytest.mark.parametrize(
    ("reasons", "code"), [(("the client ended: out of order",), ExitCode.CONFORMS), (("no end",), ExitCode.UNKNOWN)]
)
def test_a_defect_may_leave_its_lane_unknown_for_a_reason(file: Path, reasons: tuple[str, ...], code: ExitCode) -> None:
    file.write_text(HEAD.replace("anomalies: [lost_write]", "reason: out of order"))
    old = replace(judged("old", Verdict.UNKNOWN, {}, Status.FORBIDDEN), reasons=reasons)
    new = judged("new", Verdict.CONFORMS, {}, Status.FORBIDDEN)
    assert compare_sides(file, lambda _: result_of((old, new))).exit_code is code


@pytest.mark.parametrize(
    ("old_gap", "new_gap", "code"),
    [(50.0, 4.0, ExitCode.CONFORMS), (20.0, 4.0, ExitCode.UNKNOWN), (50.0, 31.0, ExitCode.UNKNOWN)],
)
def test_a_defect_may_show_as_a_gap_that_a_fault_excuses(
    file: Path, old_gap: float, new_gap: float, code: ExitCode
) -> None:
    file.write_text(HEAD.replace("anomalies: [lost_write]", "gap: 30"))
    lanes = tuple(judged(lane, Verdict.CONFORMS, {}, Status.FORBIDDEN) for lane in ("old", "new"))
    shown = compare_sides(file, lambda _: result_of(lanes, old=old_gap, new=new_gap))
    assert shown.exit_code is code
    assert shown.lines[0].endswith(f"conforms; nothing acknowledged for {old_gap} s")


@pytest.mark.parametrize(
    ("former", "new", "expected"),
    [
        ("lanes: [old]", "lanes: [odd]", "x.yaml:9: defect.lanes[0]: 'odd' is not a lane: expected some of new, old"),
        ("lanes: [old]", "lanes: [old, new]", "x.yaml:9: defect.lanes: expected at least one lane that is not listed"),
        ("lanes: [old]", "colour: red", "x.yaml:9: defect.colour: no such key; expected ticket, title"),
        ("  lanes: [old]\n", "", "defect: expected either `lanes`, the other lanes being the control, or `control`, a"),
        ("lanes: [old]", "control: {kafka_version: 9.9}", "x.yaml:9: defect.control.kafka_version: "),
        ("[lost_write]", "[lost]", "x.yaml:8: defect.anomalies[0]: 'lost' is not a valid Anomaly"),
        ("https:", "KAFKA", "x.yaml:3: defect.ticket: expected the address of a ticket"),
        ("  anomalies: [lost_write]\n", "", "defect: expected `anomalies`, `gap` or `reason`"),
        ("shown: 2", "shown: 4", "defect: `shown`: expected at most 3, the number of runs, got 4"),
        ("shown: 2", "shown: 0", "defect: expected `tried` if no run showed the defect"),
        ("source", "hearsay", "x.yaml:7: defect.borders: expected "),
    ],
)
def test_a_head_that_is_wrong_is_refused_with_its_place(former: str, new: str, expected: str) -> None:
    with pytest.raises(UsageFailure) as refusal:
        parse_experiment(HEAD.replace(former, new), "x.yaml")
    assert expected in str(refusal.value)


def test_a_file_without_a_head_is_refused(file: Path) -> None:
    file.write_text("name: x\nlanes: [{lane: one}]\n")
    with pytest.raises(UsageFailure, match=r"lost-1\.yaml: defect: missing"):
        known_defects(file.parent)


def test_a_violation_stays_the_result_if_the_run_of_a_later_defect_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    violation = Mock(lines=["a violation has another cause"], exit_code=ExitCode.VIOLATION)
    compare = Mock(side_effect=[violation, ClusterFailure("no answer")])
    monkeypatch.setattr("kafka_chaos.harness.cli.known_command.compare_sides", compare)
    assert ended(known_command, "kafka-8803", "kafka-12153").exit_code == ExitCode.VIOLATION


def test_the_table_has_every_file_within_120_columns() -> None:
    result = CliRunner().invoke(known_command, [], catch_exceptions=False)
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 120
    first_words = {line.partition(" ")[0] for line in result.output.splitlines()}
    assert {path.stem for path in KNOWN_FOLDER.glob("*.yaml")} <= first_words
    heads = json.loads(CliRunner().invoke(known_command, ["--json"]).output)
    assert heads["kafka-8803"]["control"] == {"kafka_version": "2.8.2", "broker_configs": {}}


@pytest.mark.parametrize("path", sorted(KNOWN_FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_both_sides_of_every_file_can_be_planned(path: Path) -> None:
    run, asked = runs({}, {})
    compare_sides(path, run)
    assert all(plan_of(experiment)["phases"] for experiment in asked)
    assert load_experiment(path).name == path.stem
