"""When a test's cluster stays, and what a test's topics are, with a cluster that starts nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.events import RunStarted
from kafka_chaos.harness.cluster.cluster import ClusterLayout
from kafka_chaos.harness.pytest_plugin import clusters
from kafka_chaos.harness.pytest_plugin.clusters import TopicMaker
from kafka_chaos.harness.pytest_plugin.runs import Runs
from kafka_chaos.harness.run.directory import RunDirectoryWriter
from kafka_chaos.harness.run.shared_cluster import restore
from tests.faults.fakes import FakeDisk


class FakeCluster:
    """As `Cluster`: kept when its block ends with an error and it was asked to keep."""

    bootstrap_servers, bootstrap_servers_in_network, network = "127.0.0.1:1", "broker-1:9095", "kafka-chaos-x"
    client_config_file = None

    def __init__(self, spec: ClusterLayout, *, run_id: str, keep: bool) -> None:
        self.spec, self.run_id, self.keep = spec, run_id, keep
        self.kept = self.ended = False
        self.nodes = [SimpleNamespace(container_name=f"kafka-chaos-{run_id}-broker-1", exists=lambda: True)]

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.ended = True
        self.kept = self.keep and kind is not None and issubclass(kind, Exception)


@pytest.mark.parametrize(
    ("keep", "failed", "kept"), [(True, True, True), (True, False, False), (False, True, False), (False, False, False)]
)
def test_a_cluster_is_kept_only_when_asked_for_and_a_test_failed(
    monkeypatch: pytest.MonkeyPatch, keep: bool, failed: bool, kept: bool
) -> None:
    monkeypatch.setattr(clusters, "Cluster", FakeCluster)
    notes: list[str] = []
    wanted = {"brokers": 1, "broker_configs": (("log.roll.ms", 1000),)}
    generator = clusters.running_cluster(wanted, keep=keep, failed=lambda: failed, note=notes.append)
    cluster: Any = next(generator)
    assert cluster.spec.broker_configs == {"log.roll.ms": 1000}
    assert not cluster.ended
    assert next(generator, "over") == "over"
    assert cluster.ended
    assert cluster.kept is kept
    assert bool(notes) is kept, "with advice: tests/harness/report/listeners/test_terminal.py"


def test_whatever_a_test_did_by_hand_is_undone_before_the_next_run() -> None:
    nodes = [Mock(is_running=lambda up=up: up, disk=FakeDisk(frozen=True)) for up in (True, False)]
    started: list[Any] = []
    restore(SimpleNamespace(nodes=nodes, start_again=started.extend))  # type: ignore[arg-type]
    assert all(node.unpause.called for node in nodes)
    assert not any(node.disk.frozen for node in nodes)
    assert started == [nodes[1]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "a/b"}, "name: 'a/b' is not valid: expected letters"),
        ({"replication_factor": 4}, "replication_factor: 4 is not valid: expected 1 to the number of brokers, 3"),
        ({"partitions": 0}, "partitions: 0 is not valid: expected at least 1"),
    ],
)
def test_a_topic_that_can_not_be_is_refused(arguments: dict[str, Any], expected: str) -> None:
    make = TopicMaker(SimpleNamespace(spec=ClusterLayout(), admin=lambda: None))  # type: ignore[arg-type]
    with pytest.raises(ValueError) as refusal:
        make(**arguments)
    assert expected in str(refusal.value)


CLUSTER = SimpleNamespace(spec=ClusterLayout(), nodes=[], bootstrap_servers="127.0.0.1:1")


def runs_of(out: Path) -> Runs:
    return Runs(CLUSTER, out=out, seed=7, nodeid="test_x.py::test_x")  # type: ignore[arg-type]


def make(out: Path, name: str) -> Path:
    directory = RunDirectoryWriter(out, name)
    directory.write_lanes([])
    return directory.path


def test_latest_points_to_the_newest_run_that_is_left(tmp_path: Path) -> None:
    make(tmp_path, "1-failed")
    runs = runs_of(tmp_path)
    runs._run_dirs = [make(tmp_path, "2-passed")]
    assert runs.finish(keep=False) == []
    assert (tmp_path / "latest").resolve().name == "1-failed"


def test_a_test_removes_its_own_runs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = runs_of(tmp_path)

    def run(experiment: Any, *, listeners: Any, **_: Any) -> None:
        make(tmp_path, "1-other")
        make(tmp_path, "2-own")
        for listener in listeners:
            listener(RunStarted(run_id="2-own", experiment="x", lanes=("orders",), collects=()))
        raise UsageFailure("ended")

    monkeypatch.setattr("kafka_chaos.harness.pytest_plugin.runs.run_experiment", run)
    monkeypatch.setattr("kafka_chaos.harness.pytest_plugin.runs.delete_topics", lambda *_: None)
    with pytest.raises(UsageFailure, match="ended"):
        runs(lanes=["orders"])
    runs.finish(keep=False)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()] == ["1-other"]


def test_a_place_that_can_not_be_written_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageFailure, match=r"--kafka-chaos-out .*file is not a folder"):
        runs_of(tmp_path / "file")(lanes=["orders"])
