"""`kafka-chaos doctor`: what is checked, the remedies, and that nothing stays behind."""

import json
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_chaos.harness.cli import doctor
from kafka_chaos.harness.cli.kernel_checks import probe_packets
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.cluster.containers import engine
from tests.harness.leftovers import left_of


def test_packet_rules_that_are_refused_are_missing_and_say_which_modules() -> None:
    def execute(*command: str) -> tuple[int, str]:
        return (2, "unknown target\nmore") if "REJECT" in command else (0, "")

    packets = probe_packets(execute)
    assert (packets.state, packets.found) == ("missing", "iptables: unknown target")
    assert "ipt_REJECT" in packets.remedy


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_it_says_how_to_mend_and_ends_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 3
    assert "· Java: no java in PATH\n    for Spark, Java clients and tiered storage: install a JRE 17" in result.output
    assert "✗ Docker engine: no Docker engine answers at DOCKER_HOST=unix:///nowhere/docker.sock" in result.output
    assert result.output.endswith("missing: Docker engine\n")


@pytest.mark.cluster
def test_without_spark_java_and_maven_runs_are_possible_with_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name, **_: None if name in ("java", "mvn") else f"/bin/{name}")
    result = CliRunner().invoke(cli, ["doctor"])
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "ready to run experiments with --engine duckdb")
    assert "· Maven: no mvn in PATH" in result.output
    assert doctor.check_maven(needed=True).state == "missing"
    assert (
        "· Spark: PySpark is not installed\n    for the engine spark, the default of `run`: pip install"
        in result.output
    )


@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_accepts_and_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "ANSWER_TIMEOUT_S", 0.2)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/mute.sock")
        check = doctor.check_docker_engine()
    assert check.state == "missing"
    engine_asked = f"DOCKER_HOST=unix://{tmp_path}/mute.sock"
    assert check.found == f"no Docker engine answers within 0.2 s at {engine_asked}: start it or unset DOCKER_HOST"


@pytest.mark.cluster
def test_on_this_machine_runs_can_be_made_and_nothing_stays_behind() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    checks = {check["name"]: check for check in json.loads(result.output)}
    assert result.exit_code == 0, checks
    for name in ("Java", "Docker engine", "Published ports", "Packet filter", "Freezer", "Memory", "Ports"):
        assert checks[name]["state"] == "ok", checks[name]
    assert left_of("doctor-") == []
