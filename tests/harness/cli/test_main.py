"""The command line: exit codes and messages, without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.errors import Interrupted
from kafka_chaos.harness.cli import main
from kafka_chaos.harness.cluster.containers import cleanup, engine, labels
from kafka_chaos.harness.experiment.file import parse_experiment

ROOT = Path(__file__).parents[3]


def kafka_chaos(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafka_chaos.harness.cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_names_every_command() -> None:
    done = kafka_chaos("--help")
    assert done.returncode == 0
    for command in (
        "run",
        "verify",
        "predict",
        "explore",
        "clean",
        "report",
        "prepare",
        "image",
        "scenario",
        "reproduce",
    ):
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
        (("predict", "--acks", "1", "--idempotence"), "idempotence"),
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
    small = ROOT / "tests" / "harness" / "run" / "small.yaml"
    done = kafka_chaos("run", str(small), "--out", str(tmp_path), DOCKER_HOST="unix:///nowhere/docker.sock")
    assert done.returncode == 3, done.stderr
    assert "no Docker engine answers" in done.stderr


@pytest.mark.parametrize(
    ("started", "said"), [(set(), "interrupted"), ({"a-run"}, "interrupted; everything that was started is removed")]
)
def test_an_interrupt_speaks_of_what_was_started_only_where_something_was(
    monkeypatch: pytest.MonkeyPatch, started: set[str], said: str
) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "invoke", interrupt)
    monkeypatch.setattr(labels, "STARTED", started)
    with pytest.raises(Interrupted) as ended:
        main._invoke()
    assert str(ended.value) == said


def test_labels_note_that_something_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "STARTED", set())
    labels.run_labels("a-run", keep=False)
    assert {"a-run"} == labels.STARTED


def test_clean_says_what_it_removed_what_it_left_and_that_nothing_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    dead, alive = cleanup.Leftover("dead", 1, False, False), cleanup.Leftover("alive", 2, False, True)

    def said(removed: list[Any], left: list[Any]) -> str:
        monkeypatch.setattr(engine, "docker_client", lambda: None)
        monkeypatch.setattr(cleanup, "clean", lambda client, kept: removed)
        monkeypatch.setattr(cleanup, "leftovers", lambda client: left)
        return CliRunner().invoke(main.cli, ["clean"], catch_exceptions=False).output

    assert said([], []) == "nothing to remove: no run left anything on this Docker engine\n"
    assert said([dead], [alive]) == (
        "removed 1 thing of run dead\nleft 2 things of run alive alone: it is still running\n"
    )


def test_the_seed_of_the_command_line_overrides_the_file() -> None:
    text = "name: x\nseed: 1\nlanes: [{lane: a}]\n"
    assert parse_experiment(text, "x.yaml", overrides={"seed": 2}).seed == 2
    assert "instead of the seed in the file" in " ".join(CliRunner().invoke(main.cli, ["run", "--help"]).output.split())
