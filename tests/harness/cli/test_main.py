"""The command line: exit codes and messages, without a cluster."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from kafka_chaos.contract.command.command_line import run_and_exit
from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.harness.cli import main
from kafka_chaos.harness.cluster.containers import cleanup, engine
from tests.commands import ended


@pytest.mark.usefixtures("no_engine")
def test_a_run_without_an_engine_ends_with_3(tmp_path: Path) -> None:
    small = Path(__file__).parents[1] / "run" / "small.yaml"
    done = ended(main.cli, "run", small, "--out", tmp_path)
    assert done.exit_code == 3, done.stderr
    assert "no Docker engine answers" in done.stderr


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


def end(error: BaseException) -> int:
    with pytest.raises(SystemExit) as ended:
        run_and_exit(Mock(side_effect=error))
    assert isinstance(ended.value.code, int)
    return ended.value.code


ERRORS = [
    (SystemExit(1), 1, ""),
    (SystemExit(None), 0, ""),
    (UsageFailure("the file is odd"), 64, "the file is odd"),
    (EnvironmentFailure("no Docker"), 3, "no Docker"),
    (click.UsageError("no such option"), 64, "no such option"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (click.exceptions.Abort(), 130, "interrupted"),
    (OSError(errno.ENOSPC, "full", "/data/x"), 3, "/data/x: No space left on device: free some space"),
    (OSError(errno.EROFS, "read-only", "/data/x"), 3, "/data/x: Read-only file system: choose"),
    (RuntimeError("Job aborted: java.io.IOException: No space left on device\n\tat x"), 3, "No space left on device"),
    (NotADirectoryError(errno.ENOTDIR, "no", "/f/x"), 64, "/f/x: Not a directory: a file is where"),
    (PermissionError(errno.EACCES, "no", "/f/x"), 64, "/f/x: Permission denied: choose"),
    (MemoryError(), 3, "no memory is left"),
    (ModuleNotFoundError("No module named 'pyspark'", name="pyspark"), 3, "package pyspark is not installed"),
]


@pytest.mark.parametrize(("error", "code", "message"), ERRORS, ids=[repr(error)[:40] for error, *_ in ERRORS])
def test_an_error_has_its_exit_code_and_one_line(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(error) == code
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


BUGS = [
    ZeroDivisionError("division by zero"),
    SystemExit("a message"),
    FileNotFoundError(errno.ENOENT, "No such file or directory"),
    ModuleNotFoundError("No module named 'kafka_chaos.x'", name="kafka_chaos.x"),
    RecursionError(),
    AssertionError("this\nand that"),
]


@pytest.mark.parametrize("error", BUGS, ids=repr)
def test_an_error_of_ours_is_70_and_its_traceback_is_in_a_file(
    error: BaseException, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert end(error) == 70
    (line,) = capsys.readouterr().err.splitlines()
    (file,) = tmp_path.iterdir()
    assert line.startswith("kafka-chaos: internal error: ")
    assert line.endswith(f"; the traceback is in {file}")
    assert "Traceback (most recent call last)" in file.read_text()


@pytest.mark.parametrize("arguments", [["--help"], ["runs", "list"], ["explore", "--brokers", "1", "--records", "1"]])
def test_an_output_that_is_full_or_closed_is_no_violation(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_the_result_does_not_change_it(number: int) -> None:
    code = (
        "import atexit, os\n"
        "from kafka_chaos.contract.command.command_line import run_and_exit\n"
        # Callbacks run in reverse order: this one after the command has ended.
        f"atexit.register(os.kill, os.getpid(), {int(number)})\n"
        "run_and_exit(lambda: 2)"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")


def test_help_names_every_command_on_one_screen() -> None:
    lines = CliRunner().invoke(main.cli, ["--help"]).output.splitlines()
    assert len(lines) <= 24
    named = " ".join(lines).replace(",", " ").split()
    assert set(main.cli.list_commands(click.Context(main.cli))) <= set(named)
    subjects = [name for names in main._SUBJECTS.values() for name in names]
    assert len(subjects) == len(set(subjects))
    assert all(main.cli.get_command(click.Context(main.cli), name) for name in subjects), "each is a command"
