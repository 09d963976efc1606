"""The process of a standing cluster answers jobs, refusals and hang-ups, with fakes for the cluster."""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.journal import JournalFile
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.injector import Injector
from kafka_chaos.harness.cluster.admin import PartitionState
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.containers.labels import OWNER, run_labels
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.run.observing.fault_events import FaultEvents
from kafka_chaos.harness.standing import supervisor as module
from kafka_chaos.harness.standing.place import SOCKET, Standing, find, standing
from kafka_chaos.harness.standing.supervisor import Supervisor, layout
from tests.faults.fakes import FakeCluster


class Admin:
    """Knows one topic."""

    def topics(self) -> list[str]:
        return ["orders"]

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        return {0: PartitionState(1, (1, 2, 3), (1, 2, 3))}


class Running(FakeCluster):
    """A fake cluster with what the supervisor asks of a real one."""

    spec = ClusterLayout()

    @property
    def nodes(self) -> list[Any]:
        return list(self.brokers.values())

    def admin(self) -> Admin:
        return Admin()

    def controller(self, admin: object = None) -> int | None:
        return 1


def noted(name: str, folder: Path, labels: dict[str, str] | None = None) -> Standing:
    one = Standing(
        name=name,
        described="3 brokers",
        cluster={},
        folder=str(folder),
        bootstrap_servers="127.0.0.1:1",
        client_config="",
        ports={},
        labels=labels or run_labels(f"cluster-{name}", keep=False),
    )
    one.note()
    return one


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_STATE", str(tmp_path / "state"))


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    signals: list[int] = []
    monkeypatch.setattr(module.os, "kill", lambda pid, number: signals.append(number))
    return signals


@pytest.fixture
def served(killed: list[int]) -> Iterator[Standing]:
    # The path of a socket is short.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    cluster, events = Running(leaders={("orders", 0): 1}), EventBus()
    with (
        Injector(cluster, FaultEvents(events, phase="test", lanes=()), seed=0) as injector,  # type: ignore[arg-type]
        Listener(str(folder / SOCKET), "AF_UNIX") as listener,
    ):
        supervisor = Supervisor("test", {}, cluster, injector, cluster)  # type: ignore[arg-type]
        events.add(supervisor.see)
        threading.Thread(target=supervisor.accept, args=[listener], daemon=True).start()
        working = threading.Thread(target=supervisor.work)
        working.start()
        one = noted("test", folder)
        yield one
        before = [*killed]
        one.ask("down")
        with pytest.raises(KafkaChaosError, match="busy"):
            one.ask("heal", faults=("no more",))
        working.join(10)
        assert not working.is_alive()
        assert killed == before, "nothing is interrupted where there is no job"
    shutil.rmtree(folder)


def test_it_takes_connections_until_the_listener_is_closed(tmp_path: Path) -> None:
    with Listener(str(tmp_path / SOCKET), "AF_UNIX") as listener:
        pass
    supervisor = Supervisor("test", {}, Running(), None, None)  # type: ignore[arg-type]
    accepting = threading.Thread(target=supervisor.accept, args=[listener], daemon=True)
    accepting.start()
    accepting.join(10)
    assert not accepting.is_alive()


@pytest.mark.parametrize(
    ("fault", "target", "keys", "refusal"),
    [
        ("bomb", "broker:1", {}, "'bomb' is not a fault kind"),
        ("pause", "leader(bills)", {}, "there is no lane bills; the lanes are orders"),
        ("pause", "broker:7", {}, "the cluster's brokers are numbered 1 to 3"),
        ("pause", "broker:1", {"colour": "red"}, "a fault of kind pause has no such key"),
        ("hold", "broker:1", {"api": "Fetch"}, "the cluster has no links: start it with links"),
        ("clock-step", "broker:1", {"seconds": 60.0}, "start it with clocks"),
        ("client-kill", "member(orders)", {}, "the lane orders has no group and no loop"),
    ],
)
def test_what_the_cluster_cannot_have_is_refused_by_name(
    served: Standing, fault: str, target: str, keys: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(KafkaChaosError, match=refusal) as raised:
        served.ask("break", fault=fault, target=target, keys=keys)
    assert raised.value.exit_code == ExitCode.USAGE
    assert served.ask("state")["faults"] == {}


def test_only_what_is_broken_is_healed(served: Standing) -> None:
    assert served.ask("heal", faults=()) == []
    with pytest.raises(KafkaChaosError, match="pause-2: no such fault; there are: none"):
        served.ask("heal", faults=("pause-2",))


def test_one_job_at_a_time_and_a_command_that_hangs_up_ends_its_own(
    served: Standing, killed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(self: Supervisor, **_: Any) -> str:
        begun.set()
        may_end.wait(10)
        return "ended"

    monkeypatch.setitem(module._JOBS, "run", slow)  # type: ignore[arg-type]
    connection = Client(str(Path(served.folder, SOCKET)), "AF_UNIX")
    connection.send(("run", {}))
    assert begun.wait(5)
    assert served.ask("state")["busy"] == "run"
    with pytest.raises(KafkaChaosError, match="test: busy with another command"):
        served.ask("heal", faults=())
    connection.close()
    wait_until(lambda: killed, "the job to be interrupted", timeout=5)
    assert killed == [signal.SIGTERM]
    may_end.set()
    wait_until(lambda: not served.ask("state")["busy"], "the job to end", timeout=5)


def test_down_interrupts_the_job_that_there_is(killed: list[int]) -> None:
    ours, theirs = Pipe()
    supervisor = Supervisor("test", {}, Running(), None, None)  # type: ignore[arg-type]
    supervisor._now = job = module.Job(ours, "heal", {})
    theirs.send(("down", {}))
    supervisor._serve(ours)
    assert (theirs.recv()[0], killed) == ("done", [signal.SIGTERM])
    assert not supervisor._takes(job)
    job.over.set()
    supervisor._interrupt(job)
    assert killed == [signal.SIGTERM]


def test_a_command_that_ends_once_it_is_answered_does_not_hang_up(
    served: Standing, killed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()

    def slow(self: module.Job, kind: str, value: object) -> None:
        self.connection.send((kind, value))
        time.sleep(3 * module._HANG_UP_INTERVAL)
        told.set()

    with monkeypatch.context() as patched:
        patched.setattr(module.Job, "tell", slow)
        assert served.ask("heal", faults=()) == []
        assert told.wait(10)
    assert killed == []
    assert served.ask("heal", faults=()) == []


def test_a_job_that_ends_as_its_command_does_is_not_interrupted(killed: list[int]) -> None:
    class Late(threading.Event):
        """Is set just after the first wait for it timed out."""

        def wait(self, timeout: float | None = None) -> bool:
            before = self.is_set()
            self.set()
            return before

    ours, theirs = Pipe()
    theirs.close()
    supervisor = Supervisor("test", {}, Running(), None, None)  # type: ignore[arg-type]
    supervisor._await(module.Job(ours, "heal", {}, over=Late()))
    assert killed == []


def test_an_error_of_ours_is_told_and_the_cluster_stays(served: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module._JOBS, "run", lambda _: 1 / 0)  # type: ignore[arg-type]
    with pytest.raises(KafkaChaosError, match="internal error: ZeroDivisionError") as raised:
        served.ask("run")
    assert raised.value.exit_code == ExitCode.BUG
    assert served.ask("state")["busy"] == ""


def test_a_cluster_whose_process_died_does_not_stand(tmp_path: Path) -> None:
    dead = {**run_labels("cluster-old", keep=False)}
    machine, boot, _, start = dead[OWNER].split(":")
    noted("old", tmp_path, {**dead, OWNER: f"{machine}:{boot}:{os.getpid()}:{int(start) - 1}"})
    assert standing() == []
    with pytest.raises(UsageFailure, match="--on: expected the name of a cluster; those that stand: none: "):
        find(None)
    here = noted("new", tmp_path)
    assert find(None).name == find("new").name == "new"
    with pytest.raises(UsageFailure, match="other: no such cluster; those that stand: new"):
        find("other")
    with pytest.raises(EnvironmentFailure, match="the process that keeps the cluster new has ended"):
        here.ask("state")
    noted("third", tmp_path)
    with pytest.raises(UsageFailure, match="--on: expected the name of a cluster; those that stand: new, third"):
        find(None)
    here.forget()
    assert not JournalFile("clusters", "new").path.exists()


def test_layouts_are_those_of_experiments() -> None:
    wanted = layout({"metadata_mode": "kraft", "kafka_version": "4.3.1", "brokers": 1}, disks=True, clocks=True)
    assert (wanted.metadata_mode, wanted.brokers, wanted.clocks) == ("kraft", 1, True)
    assert wanted.disk_mib > 0
    with pytest.raises(UsageFailure, match="brokers: expected at most 9, got 12"):
        layout({"brokers": 12}, disks=False, clocks=False)
    with pytest.raises(UsageFailure, match="controllers: 2 is not valid: expected 0, 1 or 3"):
        layout({"controllers": 2, "metadata_mode": "kraft"}, disks=False, clocks=False)


def test_lanes_without_a_topic_get_one_of_their_own() -> None:
    values = {"phases": [{"lanes": [{"lane": "a", "topic": None}, {"lane": "b", "topic": "mine"}]}], "name": "x"}
    first, second = module._with_new_topics(values), module._with_new_topics(values)
    names = [[lane["topic"] for lane in one["phases"][0]["lanes"]] for one in (first, second)]
    assert names[0][0] != names[1][0]
    assert names[0][0].startswith("a-")
    assert [one[1] for one in names] == ["mine", "mine"]
