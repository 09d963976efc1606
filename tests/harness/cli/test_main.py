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
from docker.errors import APIError
from requests.exceptions import RequestException

from kafka_chaos.contract.command.command_line import run_and_exit
from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure, UsageFailure
from kafka_chaos.harness.attached import journal
from kafka_chaos.harness.cli import main
from kafka_chaos.harness.cluster.containers import cleanup, engine
from kafka_chaos.harness.cluster.containers.labels import OWNER, RUN, current_owner


def test_clean_says_what_it_removed_what_it_left_and_that_nothing_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    dead, alive = cleanup.Leftover("dead", 1, False, False), cleanup.Leftover("alive", 2, False, True)
    kept = cleanup.Leftover("kept", 3, True, False)

    def said(removed: list[Any], left: list[Any]) -> str:
        monkeypatch.setattr(engine, "docker_client", Mock())
        monkeypatch.setattr(cleanup, "clean", lambda client, kept: removed)
        monkeypatch.setattr(cleanup, "leftovers", lambda client: left)
        return CliRunner().invoke(main.cli, ["clean"], catch_exceptions=False).output

    assert said([], []) == "nothing to remove: no run left anything on this Docker engine\n"
    assert said([dead], [alive, dead, kept]).splitlines() == [
        "removed 1 thing of run dead",
        "left 2 things of run alive alone: it is still running",
        "left 1 thing of run dead alone: the engine did not remove it",
        "left 3 things of run kept alone: it was kept: --kept removes it",
    ]
    monkeypatch.setattr(journal, "heal_abandoned", Mock(side_effect=ClusterFailure("broker-1: start: no")))
    with pytest.raises(ClusterFailure):
        said([], [])
    engine.docker_client.assert_called()


def test_what_the_engine_refuses_to_remove_is_not_counted_as_removed() -> None:
    labels = {RUN: "dead", OWNER: f"{current_owner().rpartition(':')[0]}:1"}
    refuse = Mock(side_effect=APIError("in use", response=Mock(status_code=403)))
    network = Mock(attrs={"Labels": labels, "Containers": {}}, remove=refuse)
    nothing = Mock(list=Mock(return_value=[]))
    client = Mock(containers=nothing, volumes=nothing, networks=Mock(list=Mock(return_value=[network])))
    assert cleanup.clean(client) == []
    assert "dead" in [left.run_id for left in cleanup.leftovers(client)]


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
    (RequestException("timed out"), 3, "the Docker engine failed: timed out; `kafka-chaos doctor`"),
    (APIError("500", explanation="full"), 3, 'failed: 500 ("full"); `kafka-chaos doctor` says what this machine la'),
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
    assert subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *command], check=False).returncode == 0
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
    assert all(main.cli.get_command(click.Context(main.cli), name) for name in main._OWN_COMMANDS), "each is a command"
