import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.faults import registry
from kafka_chaos.faults.process.ended import Kill
from kafka_chaos.harness.cli.kinds_command import faults_command
from kafka_chaos.harness.cli.plan_command import plan_command
from kafka_chaos.harness.experiment.file import load_experiment
from kafka_chaos.harness.run.runner import require_available

EXPERIMENT = """\
name: planned
seed: 3
workload: {rate: 100, record_size: 100, duration: 30}
lanes:
  - {lane: one, acks: "1", leader: 1}
schedule:
  - {fault: kill, target: leader(one), at: 2, duration: 3}
  - {fault: stop, target: majority, at: 9.5, duration: 4}
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "planned.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_a_plan_has_schedule_predictions_and_costs(experiment: Path) -> None:
    result = CliRunner().invoke(plan_command, [str(experiment)], catch_exceptions=False)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "planned: 1 ZooKeeper and 3 brokers of Kafka 3.9.1; seed 3" in lines
    assert "main: 1 lane, each 100 records/s of 100 bytes for 30 s" in lines
    assert "2 s 5 s kill leader(one) 1 broker kill" in lines
    assert "9.5 s 13.5 s stop majority 2 brokers stop, stop" in lines
    assert any(line.startswith("one lost_write, duplicate") for line in lines)
    assert any(line.startswith("load for 30 s in all; up to ") for line in lines)


def test_an_experiment_of_the_package_needs_no_file_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results = [CliRunner().invoke(plan_command, [f"experiments/{name}.yaml"]) for name in ("demo", "nowhere")]
    assert "demo: 1 ZooKeeper and 3 brokers" in results[0].output
    assert [results[0].exit_code, str(results[1].exception).partition(":")[0]] == [0, "experiments/nowhere.yaml"]


def test_a_plan_as_json(experiment: Path) -> None:
    document = json.loads(CliRunner().invoke(plan_command, [str(experiment), "--json", "--seed", "8"]).output)
    phase = document["phases"][0]
    assert (document["seed"], document["load_seconds"]) == (8, 30)
    assert [one["fault"] for one in phase["schedule"]] == ["kill", "stop"]
    assert phase["lanes"][0]["faults"] == ["kill", "stop", "stop"]
    assert phase["lanes"][0]["anomalies"]["lost_write"] == "permitted"
    assert phase["lanes"][0]["recovery"]["isr_not_restored"]["derivation"].startswith(
        "81 s (session 3 s + election 3 s"
    )


def test_a_plan_names_the_known_defects_of_what_it_uses() -> None:
    """What is forbidden may happen by them: a user learns it before the run, not by a violation."""
    result = CliRunner().invoke(plan_command, ["experiments/known/kafkajs-822.yaml"], catch_exceptions=False)
    words = " ".join(result.output.split())
    assert "forbidden, yet known defects can cause: reordered (kafkajs-822)" in words


def test_a_plan_tells_faults_of_controllers_from_those_of_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "quorum.yaml"
    file.write_text(
        "name: quorum\ncluster: {metadata_mode: kraft, controllers: 3}\nlanes: [{lane: orders}]\nschedule:\n"
        "  - {fault: kill, target: controller, at: 1, duration: 2}\n"
        "  - {fault: kill, target: 'controllers:majority', at: 4, duration: 2}\n"
        "  - {fault: partition, target: controller, at: 8, duration: 2}\n"
    )
    (phase,) = json.loads(CliRunner().invoke(plan_command, [str(file), "--json"]).output)["phases"]
    expiries = ["session-expiry"] * 3
    assert [one["model_faults"] for one in phase["schedule"]] == [[], [], expiries]
    assert [one["brokers"] for one in phase["schedule"]] == [0, 0, 0]
    assert phase["model_faults_together"] == expiries
    text = CliRunner().invoke(plan_command, [str(file)]).output
    assert "faults that overlap may leave no majority of controllers: the model also expects session-expiry" in text


def test_faults_are_listed_with_their_proofs_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for kind in registry.fault_kinds().values():
        monkeypatch.setattr(kind, "unavailable", staticmethod(lambda: "no root"))
    monkeypatch.setattr(Kill, "unavailable", staticmethod(lambda: None))
    text = " ".join(CliRunner().invoke(faults_command, []).output.split())
    assert "kill Kill the processes (SIGKILL). Proof: each is gone" in text
    kinds = [json.loads(line) for line in CliRunner().invoke(faults_command, ["--json"]).output.splitlines()]
    partition = next(kind for kind in kinds if kind["kind"] == "partition")
    assert partition["keys"] == {"direction": "both", "port": None, "action": "drop", "peers": None}
    assert {kind["kind"] for kind in kinds if kind["unavailable"] is None} == {"kill"}
    assert {kind["unavailable"] for kind in kinds if kind["kind"] != "kill"} == {"no root"}


def test_what_this_machine_cannot_do_is_refused_before_anything_starts(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_experiment(experiment)
    require_available(loaded)
    monkeypatch.setattr(Kill, "unavailable", staticmethod(lambda: "no signals here: use a kernel"))
    with pytest.raises(EnvironmentFailure, match="phase main: kill can't be injected on this machine: no signals here"):
        require_available(loaded)
    assert "no: no signals here" in " ".join(CliRunner().invoke(faults_command, []).output.split())
