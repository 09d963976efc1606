"""The command line: exit codes and messages, without a cluster."""

from __future__ import annotations

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
from tests.commands import ended

ROOT = Path(__file__).parents[3]


def kafka_chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_names_every_command() -> None:
    done = kafka_chaos("--help")
    assert done.returncode == 0
    commands = ("run", "verify", "predict", "explore", "clean", "report", "prepare", "image", "scenario", "reproduce")
    for command in commands:
        assert f"\n  {command} " in done.stdout


def test_a_process_ends_with_the_code_and_the_line_of_its_command() -> None:
    done = kafka_chaos("nonsense")
    assert (done.returncode, done.stdout) == (64, "")
    assert "No such command 'nonsense'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("no_engine")
def test_a_run_without_an_engine_ends_with_3(tmp_path: Path) -> None:
    small = ROOT / "tests" / "harness" / "run" / "small.yaml"
    done = ended(main.cli, "run", small, "--out", tmp_path)
    assert done.exit_code == 3, done.stderr
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
    with pytest.raises(Interrupted) as raised:
        main._invoke()
    assert str(raised.value) == said


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
