"""A cluster that stays, walked on a terminal as the guide says: up, break, heal, a run with its live view, down.

Nothing is left.
"""

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
SMALL = str(ROOT / "tests/harness/run/small.yaml")
Command = Callable[..., str]
LAYOUTS = {
    ("--kraft", "--brokers", "3"): "3 brokers that are controllers too, of Kafka 4.4.0 (KRaft)",
    ("--kraft", "--controllers", "3", "--secured", "sasl_ssl"): "3 controllers and 3 brokers of Kafka 4.4.0 (KRaft)",
}
"""Combined roles by day, dedicated ones behind a secured listener at night; and how each is described."""


def on_a_terminal(state: str, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and all that it wrote on a terminal of its own. `state`: where clusters are noted."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_chaos.harness.cli.main", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "KAFKA_CHAOS_STATE": state, "TERM": "xterm", "COLUMNS": "180", "LINES": "50"},
    )
    os.close(theirs)
    seen = b""
    # The end of a terminal is an error on Linux.
    with os.fdopen(ours, "rb", 0) as terminal, suppress(OSError):
        while piece := terminal.read(1 << 16):
            seen += piece
    return process.wait(), seen.decode()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Runs a command on a terminal, and returns its text without the terminal's control sequences."""
    folder = str(tmp_path_factory.mktemp("state"))

    def run(*arguments: str, code: int = 0) -> str:
        ended, seen = on_a_terminal(folder, *arguments)
        assert ended == code, (arguments, seen)
        assert seen.count("\x1b[?25l") == seen.count("\x1b[?25h"), "the cursor is shown again"
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen).replace("\r\n", "\n")

    return run


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=[pytest.mark.slow] if "--secured" in one else [], id=one[-1]) for one in LAYOUTS],
)
def cluster(command: Command, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The name of a cluster that stands, and how it is described."""
    name = f"walk-{os.getpid()}"
    shown = command("cluster", "up", name, *request.param)
    try:
        assert f"starting {LAYOUTS[request.param]}" in shown
        yield name, LAYOUTS[request.param]
    finally:
        assert f"removed {name} in " in command("cluster", "down", name)
        assert left_of(f"cluster-{name}") == []
        assert "no cluster is running" in command("cluster", "status")


def state(command: Command) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(command("state", "--json"))
    return found


def test_what_is_broken_by_hand_is_proven_and_healed(command: Command, cluster: tuple[str, str]) -> None:
    name, described = cluster
    shown = command("cluster", "status")
    assert f"{name}: {described}" in shown
    settings = Path(re.findall("settings: (.*)", shown)[0])
    assert settings.stat().st_mode & 0o077 == 0
    assert settings.read_text().startswith("bootstrap.servers=127.0.0.1:")
    broken = command("break", "pause", "broker:2")
    assert "pause broker:2 = broker-2" in broken
    assert "▸ breaking: pause broker:2" in broken
    assert "pause-1 took effect: " in broken
    assert state(command)["nodes"]["broker-2"] == "frozen"
    assert "broken: pause-1 at broker:2 = broker-2, took effect" in command("state")
    refused = command("break", "hold", "broker:1", "api=Fetch", code=64)
    assert "start it with links" in refused or "sasl_ssl encrypts them" in refused
    assert "first: the run's prediction" in command("run", SMALL, "--on", name, code=64)
    assert "pause-1 healed" in command("heal")
    assert set(state(command)["nodes"].values()) == {"running"}
    assert "nothing is broken" in command("heal")
    assert "is running already" in command("cluster", "up", name, code=64)


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_on_it_shows_faults_and_how_far_it_is(command: Command, cluster: tuple[str, str], tmp_path: Path) -> None:
    text = command("run", SMALL, "--on", cluster[0], "--out", str(tmp_path))
    frozen = re.search(r"took effect pause leader\(acks1\) = (broker-\d) \(for ", text)
    assert frozen, text
    assert f"healed      pause leader(acks1) = {frozen[1]} (" in text
    assert re.search(r"loading 2 lanes for 4 s \(\d s, \d s left\)", text)
    assert "longest gap" in text
    assert re.search(r"verifying with Spark [2-5] of 5: ", text)
    assert [path.name for path in tmp_path.glob("*/report.html")] == ["report.html"] * 2, "the run, and latest"
