"""The command line: exit codes and messages, without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def kafka_chaos(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafka_chaos.harness.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_names_every_command() -> None:
    done = kafka_chaos("--help")
    assert done.returncode == 0
    for command in ("run", "verify", "predict", "explore", "clean", "report", "prepare", "image"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("run",), "Missing argument 'EXPERIMENT'"),
        (("run", "nowhere.yaml"), "nowhere.yaml: can't be read"),
        (("run", "x.yaml", "--seed", "-1"), "-1 is not in the range x>=0"),
        (("verify",), "Missing argument 'DIR…'"),
        (("verify", "nowhere"), "nowhere"),
        (("predict", "--acks", "2"), "acks"),
        (("predict", "--acks", "1", "--idempotence", "true"), "idempotence"),
        (("predict", "--acks", "1", "--faults", "bomb"), "faults"),
        (("report", "nowhere"), "nowhere"),
    ],
)
def test_bad_arguments_end_with_64_and_say_what_was_expected(arguments: tuple[str, ...], expected: str) -> None:
    done = kafka_chaos(*arguments)
    assert done.returncode == 64, done.stderr
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_experiment_ends_with_64_and_makes_nothing(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nlanes:\n  - lane: one\n    acks: 2\n")
    done = kafka_chaos("run", str(bad), "--out", str(tmp_path / "runs"))
    assert done.returncode == 64
    assert f"{bad}:4: lanes[0].acks: '2': expected one of" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", [("clean",), ("image",), ("prepare",)])
def test_without_an_engine_commands_end_with_3_and_the_one_thing_to_do(command: tuple[str, ...]) -> None:
    done = kafka_chaos(*command, DOCKER_HOST="unix:///nowhere/docker.sock")
    assert done.returncode == 3, done.stderr
    assert "no Docker engine answers at DOCKER_HOST=unix:///nowhere/docker.sock" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_without_an_engine_ends_with_3(tmp_path: Path) -> None:
    small = ROOT / "tests" / "harness" / "small.yaml"
    done = kafka_chaos("run", str(small), "--out", str(tmp_path), DOCKER_HOST="unix:///nowhere/docker.sock")
    assert done.returncode == 3, done.stderr
    assert "no Docker engine answers" in done.stderr
