"""The process of a standing cluster does what commands ask, refuses and is interrupted, with fakes for the cluster."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Client, Listener
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Self
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import Event, FaultHealed, FaultProven, FaultRequested
from kafka_chaos.faults.injector import Injector
from kafka_chaos.faults.process.ended import Pause
from kafka_chaos.harness.cluster.admin import PartitionState
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.cluster.containers import cleanup, engine
from kafka_chaos.harness.cluster.containers.labels import OWNER, run_labels
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.run.observing.fault_events import FaultEvents
from kafka_chaos.harness.standing.command import cluster_command
from kafka_chaos.harness.standing.keeper import Keeper
from kafka_chaos.harness.standing.notes import SOCKET, StandingCluster, find_cluster, standing_clusters
from tests.faults.fakes import FakeCluster

pytestmark = pytest.mark.usefixtures("own_state")


class Running(FakeCluster):
    """A fake cluster with what the supervisor asks of a real one."""

    spec = ClusterLayout()

    bootstrap_servers, bootstrap_servers_in_network, network = "127.0.0.1:1", "broker-1:9095", "kafka-chaos-x"
    client_configs: Mapping[str, str] = MappingProxyType({})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def nodes(self) -> list[Any]:
        return list(self.brokers.values())

    def admin(self) -> Any:
        """Knows one topic."""
        state = PartitionState(1, (1, 2, 3), (1, 2, 3))
        return SimpleNamespace(topics=lambda: ["orders"], partitions=lambda _: {0: state})

    def controller(self, admin: object = None) -> int | None:
        return 1


def noted(name: str, folder: Path, labels: dict[str, str] | None = None) -> StandingCluster:
    cluster = StandingCluster(
        name=name,
        described="3 brokers",
        cluster={},
        mode="zookeeper",
        folder=str(folder),
        client_config="",
        pid=os.getpid(),
        labels=labels or run_labels(f"cluster-{name}", keep=False),
    )
    cluster.journal.begin(asdict(cluster))
    return cluster


@pytest.fixture
def served() -> Iterator[StandingCluster]:
    # The path of a socket is short.
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    cluster, events = Running(leaders={("orders", 0): 1}), EventBus()
    note = noted("test", folder)
    with (
        Injector(cluster, FaultEvents(events, phase="test", lanes=(), brokers=3), seed=0) as injector,  # type: ignore[arg-type]
        Listener(str(folder / SOCKET), "AF_UNIX") as listener,
    ):
        keeper = Keeper(note, cluster, injector, cluster)  # type: ignore[arg-type]
        events.add(keeper.pass_on)
        working = threading.Thread(target=keeper.serve, args=[listener])
        working.start()
        yield note
        with suppress(KeyboardInterrupt):
            keeper.end()
        # Wakes it.
        Client(str(folder / SOCKET), "AF_UNIX").close()
        working.join(10)
        assert not working.is_alive()
    shutil.rmtree(folder)


def test_a_fault_by_hand_is_proven_noted_and_healed(served: StandingCluster) -> None:
    events: list[Event] = []
    assert served.ask("break", events.append, fault="pause", target="leader(orders)", keys={}) is True
    assert [type(event) for event in events] == [FaultRequested, FaultProven]
    assert served.faults() == {"pause-1": ("leader(orders)", ("broker-1",), True)}
    assert served.ask("heal", events.append, faults=("pause-1", "pause-1")) == ["pause-1"]
    assert isinstance(events[-1], FaultHealed)
    assert served.faults() == {}
    assert served.ask("heal", faults=()) == []


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
    served: StandingCluster, fault: str, target: str, keys: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(KafkaChaosError, match=refusal) as raised:
        served.ask("break", fault=fault, target=target, keys=keys)
    assert raised.value.exit_code == ExitCode.USAGE
    assert served.faults() == {}


def test_only_what_is_broken_is_healed(served: StandingCluster) -> None:
    assert served.ask("heal", faults=()) == []
    with pytest.raises(KafkaChaosError, match="pause-2: no such fault; the faults are: none"):
        served.ask("heal", faults=("pause-2",))


def test_a_fault_whose_proof_is_not_awaited_any_more_can_be_healed(
    served: StandingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pause, "proof", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(EnvironmentFailure):
        served.ask("break", fault="pause", target="broker:2", keys={})
    assert served.faults() == {"pause-1": ("broker:2", ("broker-2",), False)}
    assert served.ask("heal", faults=()) == ["pause-1"]


RUN = {"values": {"phases": []}, "root": os.devnull, "accept_known": (), "engine": "spark"}
PROCESS = """
import sys, time
from pathlib import Path
from kafka_chaos.contract.events import FaultHealed
from kafka_chaos.harness.standing import keeper
from tests.harness.standing.test_keeper import Running

def run(experiment, *, root, listeners, **_):
    def tell(times):
        for number in range(times):
            listeners[0](FaultHealed(fault_id=str(number)))
            time.sleep(0.01)

    try:
        tell(100_000)
    finally:
        tell(30)
        Path(root).touch()

keeper.Cluster = lambda layout, run_id: Running(leaders={("orders", 0): 1})
read = keeper.experiment_of
keeper.experiment_of = lambda values, source: values if source == "run" else read(values, source)
keeper.restore, keeper.run_experiment = lambda _: None, run
sys.argv = ["keeper", "test", '{"spec": {}, "disks": false, "clocks": false}']
keeper.main()
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """The process that keeps a cluster `test`, which is a fake; a run on it takes a quarter of an hour.

    As a background job of a script, it was started with SIGINT ignored.
    """
    command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", PROCESS]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3]) as process:
        (cluster,) = wait_until(standing_clusters, "the cluster to serve", timeout=30)
        yield process
        process.kill()
    shutil.rmtree(cluster.folder, ignore_errors=True)


def test_one_job_at_a_time_and_a_command_that_is_interrupted_ends_its_own(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    cluster, healed = find_cluster("test"), tmp_path / "healed"

    def hear(event: Event) -> None:
        with pytest.raises(EnvironmentFailure, match="test: busy with another command"):
            cluster.ask("heal", faults=())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.ask("run", hear, **{**RUN, "root": str(healed)})
    assert cluster.ask("heal", faults=()) == []
    assert healed.exists(), "nothing has ended the end of the run"


def test_a_command_that_was_killed_ends_its_job_at_the_next_event(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    cluster, healed = find_cluster("test"), tmp_path / "healed"
    with Client(str(Path(cluster.folder, SOCKET)), "AF_UNIX") as connection:
        connection.send(("run", {**RUN, "root": str(healed)}))
        assert isinstance(connection.recv(), Event)
    assert cluster.ask("heal", faults=()) == []
    assert healed.exists(), "nothing has ended the end of the run"


def test_a_name_that_another_user_s_cluster_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "docker_client", lambda: None)
    monkeypatch.setattr(cleanup, "leftovers", lambda _: [cleanup.Leftover("cluster-kafka", 4, False, True)])
    with pytest.raises(UsageFailure, match="kafka: another user or process has started this cluster"):
        CliRunner().invoke(cluster_command, ["up"], catch_exceptions=False)


@pytest.mark.parametrize("is_busy", [False, True])
def test_sigterm_ends_the_process_and_its_note(process: subprocess.Popen[bytes], is_busy: bool) -> None:
    cluster = find_cluster("test")
    assert cluster.ask("break", fault="pause", target="broker:2", keys={}) is True
    if is_busy:
        assert cluster.ask("heal", faults=()) == ["pause-1"]
        connection = Client(str(Path(cluster.folder, SOCKET)), "AF_UNIX")
        connection.send(("run", RUN))
        assert isinstance(connection.recv(), Event)
    os.kill(cluster.pid, signal.SIGTERM)
    assert process.wait(10) == 0
    assert standing_clusters() == []
    with pytest.raises(EnvironmentFailure, match="the process that keeps the cluster test has ended"):
        cluster.ask("heal", faults=())


def test_a_cluster_whose_process_died_does_not_stand(tmp_path: Path) -> None:
    dead = {**run_labels("cluster-old", keep=False)}
    machine, boot, _, start = dead[OWNER].split(":")
    noted("old", tmp_path, {**dead, OWNER: f"{machine}:{boot}:{os.getpid()}:{int(start) - 1}"})
    assert standing_clusters() == []
    with pytest.raises(UsageFailure, match=r"expected the name of a cluster .*; standing clusters: none: "):
        find_cluster(None)
    here = noted("new", tmp_path)
    assert find_cluster(None).name == find_cluster("new").name == "new"
    with pytest.raises(UsageFailure, match="other: no such cluster; standing clusters: new"):
        find_cluster("other")
    with pytest.raises(EnvironmentFailure, match="the process that keeps the cluster new has ended"):
        here.ask("heal", faults=())
    noted("third", tmp_path)
    with pytest.raises(UsageFailure, match=r"expected the name of a cluster .*; standing clusters: new, third"):
        find_cluster(None)
    here.journal.end()
    assert not here.journal.path.exists()
