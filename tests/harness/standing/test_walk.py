"""A cluster that stays, walked as the guide says: up, break, heal, a run with its live view, down; nothing is left."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.leftovers import left_of

pytestmark = [pytest.mark.cluster]

ROOT = Path(__file__).parents[3]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the clusters of this test are noted."""
    return str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def command(folder: str) -> Command:
    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "kafka_chaos.harness.cli.main", *arguments],
            env={**os.environ, "KAFKA_CHAOS_STATE": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done

    return run


@pytest.fixture(scope="module")
def name(command: Command) -> Iterator[str]:
    name = f"walk-{os.getpid()}"
    command("cluster", "up", name, "--brokers", "3", "--kraft")
    try:
        yield name
    finally:
        command("cluster", "down", name)
        assert left_of(f"cluster-{name}") == []
        assert "no cluster stands" in command("cluster", "status").stdout


def state(command: Command) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(command("state", "--json").stdout)
    return found


def test_what_is_broken_by_hand_is_proven_and_healed(command: Command, name: str) -> None:
    shown = command("cluster", "status").stdout
    assert f"{name}: 3 brokers that are controllers too, of Kafka 3.9.1 (KRaft)" in shown
    settings = Path(re.findall("settings: (.*)", shown)[0])
    assert settings.stat().st_mode & 0o077 == 0
    assert settings.read_text().startswith("bootstrap.servers=127.0.0.1:")
    broken = command("break", "pause", "broker:2").stdout
    assert re.search(r"pause broker:2 = broker-2\n.*pause-1 took effect: ", broken)
    assert state(command)["nodes"]["broker-2"] == "frozen"
    assert "start it with links" in command("break", "hold", "broker:1", "api=Fetch", code=64).stderr
    assert "heal it first" in command("run", str(ROOT / "tests/harness/run/small.yaml"), "--on", name, code=64).stderr
    assert "pause-1 healed" in command("heal").stdout
    assert set(state(command)["nodes"].values()) == {"running"}
    assert "stands already" in command("cluster", "up", name, code=64).stderr


def on_a_terminal(state: str, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and all that it wrote on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_chaos.harness.cli.main", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "KAFKA_CHAOS_STATE": state, "TERM": "xterm", "COLUMNS": "150", "LINES": "50"},
    )
    os.close(theirs)
    seen = b""
    # The end of a terminal is an error on Linux.
    with os.fdopen(ours, "rb", 0) as terminal, suppress(OSError):
        while piece := terminal.read(1 << 16):
            seen += piece
    return process.wait(), seen.decode()


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_on_it_shows_faults_and_how_far_it_is_on_a_terminal(folder: str, name: str, tmp_path: Path) -> None:
    small = str(ROOT / "tests/harness/run/small.yaml")
    code, seen = on_a_terminal(folder, "run", small, "--on", name, "--out", str(tmp_path))
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)
    assert code == 0, text
    assert "took effect pause leader(acks1) = broker-1 (for " in text
    assert "healed      pause leader(acks1) = broker-1 (" in text
    assert re.search(r"loading 2 lanes for 4 s \(\d s, \d s left\)", text)
    assert "longest gap" in text
    assert re.search(r"verifying with Spark [2-6] of 6: ", text)
    assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h"), "the cursor is shown again"
    assert [path.name for path in tmp_path.glob("*/report.html")] == ["report.html"] * 2, "the run, and latest"
