"""Commands break and heal a node, once each, and what is broken stands in a journal until it is healed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure, UsageFailure
from kafka_chaos.contract.command.journal import JournalFile, journaled_runs
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.attached.journal import ShellCommand, heal_abandoned
from kafka_chaos.harness.attached.node import AttachedNode
from tests.harness.attached.shell_cluster import cluster_of
from tests.processes import runs

pytestmark = pytest.mark.usefixtures("own_state")


def ran(folder: Path) -> int:
    return len((folder / "ran").read_text().splitlines())


@pytest.mark.parametrize(
    ("breaks", "heals", "state"), [("kill", "start", "down"), ("stop", "start", "down"), ("pause", "unpause", "frozen")]
)
def test_a_node_is_broken_and_healed_once(tmp_path: Path, breaks: str, heals: str, state: str) -> None:
    node = cluster_of(tmp_path).brokers[1]
    for _ in range(2):
        getattr(node, breaks)()
    assert node.state() == {"state": state, "answers": False}
    assert ran(tmp_path) == 1
    assert list(journaled_runs("attached")) == [f"test-{tmp_path.name}"]
    for _ in range(2):
        getattr(node, heals)()
    assert node.state()["state"] == "running"
    assert ran(tmp_path) == 2
    assert list(journaled_runs("attached")) == []


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    node = cluster_of(tmp_path).brokers[3]
    with pytest.raises(ClusterFailure, match=r"third: kill: the command did not end within 0\.2 s"):
        node.kill()
    # It may have done something before it was ended.
    assert list(journaled_runs("attached")) == [f"test-{tmp_path.name}"]
    node.start()
    assert list(journaled_runs("attached")) == []
    note = tmp_path / "pid"
    with pytest.raises(ClusterFailure):
        ShellCommand("x", f"sleep 60 & echo $! > {note}; wait", 2, {}).run()
    process = int(note.read_text())
    wait_until(lambda: not runs(process), "the command's own child to end", timeout=5)


def test_a_command_that_fails_is_named_and_its_text_is_not_shown() -> None:
    with pytest.raises(ClusterFailure) as failure:
        ShellCommand("broker-1: kill", "true secret; echo one; echo no such host >&2; exit 3", 5, {}).run()
    assert str(failure.value) == "broker-1: kill: the command ended with exit code 3: no such host"


@pytest.mark.parametrize("said", ["", "up", "running\nbut odd"])
def test_a_state_that_is_none_is_refused(tmp_path: Path, said: str) -> None:
    node = cluster_of(tmp_path).brokers[1]
    (tmp_path / "broker-1").write_text(said)
    with pytest.raises(ClusterFailure, match="broker-1: state: expected running, frozen, down as the last line"):
        node.is_running()


def test_a_cluster_has_to_be_whole_and_the_one_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(tmp_path, allowed=("broker-1", "broker-2"))
    (tmp_path / "third").write_text("down")
    with pytest.raises(EnvironmentFailure, match="broker-1 is running, and does not answer clients"):
        cluster.require_all_nodes()
    monkeypatch.setattr(AttachedNode, "_answers", lambda _: True)
    cluster.require_all_nodes()
    (tmp_path / "broker-2").write_text("frozen")
    with pytest.raises(EnvironmentFailure, match="broker-2 is frozen before anything was broken"):
        cluster.require_all_nodes()
    with pytest.raises(UsageFailure, match="the cluster's brokers are 0, 1, and the file of nodes names 1, 2, 3"):
        cluster_of(tmp_path, addresses={0: "x:1", 1: "x:2"}).require_all_nodes()


KILLED = """
import os, sys, time
from pathlib import Path
from tests.harness.attached.shell_cluster import cluster_of
cluster = cluster_of(Path(sys.argv[1]))
cluster.brokers[1].kill()
cluster.brokers[2].pause()
cluster.brokers[2].break_by("cut", peers=["10.0.0.1"])
cluster.zookeepers[1].pause()
cluster.zookeepers[1].unpause()
print("broken", flush=True)
time.sleep(600)
"""


def test_what_a_killed_run_left_broken_is_healed_from_its_journal(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"broken\n"
    assert heal_abandoned() == [], "it lives, and heals by itself"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert [(tmp_path / name).read_text() for name in ("broker-1", "broker-2")] == ["down\n", "frozen\n"]
    assert heal_abandoned() == ["broker-2: mend", "broker-2: thaw", "broker-1: start"]
    assert [(tmp_path / name).read_text() for name in ("broker-1", "broker-2")] == ["running\n", "running\n"]
    assert heal_abandoned() == []


def test_a_journal_stays_until_everything_in_it_is_healed(tmp_path: Path) -> None:
    node = cluster_of(tmp_path).brokers[1]
    node.kill()
    file = JournalFile("attached", f"test-{tmp_path.name}")
    begin, broken = file.lines()
    file.end()
    machine, boot, *_ = begin["labels"]["kafka-chaos.owner"].split(":")
    elsewhere = {**begin["labels"], "kafka-chaos.owner": f"{machine}:{boot}:1:1"}
    file.begin({**begin, "labels": elsewhere})
    file.note({**broken, "number": 1, "text": "false"})
    file.note(broken)
    with pytest.raises(ClusterFailure, match=f"broker-1: start: the command ended with exit code 1.*{file.path}"):
        heal_abandoned()
    assert (tmp_path / "broker-1").read_text() == "running\n", "the other one was tried"
    assert list(journaled_runs("attached")) == [f"test-{tmp_path.name}"]
    file.end()
