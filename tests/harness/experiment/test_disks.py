"""Brokers get disks only for faults that break them, and only brokers do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.faults.storage import disks
from kafka_chaos.faults.storage.disks import PowerLoss
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.harness.run.shared_cluster import restore
from tests.faults.fakes import FakeDisk, FakeNode

EXPERIMENT = """
name: disks
cluster: {{{cluster}}}
workload: {{rate: {rate}, record_size: 1000, duration: 60}}
lanes: [{{lane: one, acks: 1}}]
schedule: [{{fault: {fault}, target: "{target}", at: 2}}]
"""


def experiment(
    *, fault: str = "power-loss", target: str = "leader(one)", rate: int = 10, cluster: str = "brokers: 3"
) -> Experiment:
    return parse_experiment(EXPERIMENT.format(fault=fault, target=target, rate=rate, cluster=cluster), "disks.yaml")


@pytest.mark.parametrize("fault", ["power-loss", "freeze-disk", "full-disk", "read-only-disk"])
def test_a_fault_that_breaks_disks_gets_them(fault: str) -> None:
    layout = experiment(fault=fault).layout
    assert layout.disk_mib == 4096
    assert layout.described.endswith("each broker with a disk of its own")


def test_no_other_experiment_pays_for_disks() -> None:
    layout = experiment(fault="kill").layout
    assert layout.disk_mib == 0
    assert "disk" not in layout.described


def test_disks_have_room_for_the_planned_load() -> None:
    # 60 s × 20,000 records/s × 1,000 bytes on each broker.
    assert experiment(rate=20_000).layout.disk_mib << 20 > 60 * 20_000 * 1_000 * 1.5


PHASE = """\
  - phase: {phase}
    lanes: [{{lane: {phase}, acks: all}}]
    schedule: [{{fault: {fault}, target: "leader({phase})", at: 2}}]
"""


def phases(*faults: str) -> str:
    written = (PHASE.format(phase=name, fault=fault) for name, fault in zip("abc", faults, strict=False))
    return "name: phases\nphases:\n" + "".join(written)


def test_power_is_lost_in_the_first_phase_or_in_none() -> None:
    parse_experiment(phases("power-loss", "kill"), "phases.yaml")
    with pytest.raises(UsageFailure, match=r"phases\[1\]\.schedule\[0\]\.fault.*first phase"):
        parse_experiment(phases("kill", "power-loss"), "phases.yaml")


@pytest.mark.parametrize(
    ("target", "cluster"),
    [
        ("zookeeper", "brokers: 3"),
        ("zookeeper:1", "brokers: 3"),
    ],
)
def test_zookeeper_has_none(target: str, cluster: str) -> None:
    with pytest.raises(UsageFailure, match="ZooKeeper has no disk of its own, which power-loss breaks"):
        experiment(target=target, cluster=cluster)


@pytest.mark.parametrize(
    ("target", "cluster"),
    [
        ("controller", "brokers: 3"),
        ("controller", "metadata_mode: kraft"),
        ("controller", "metadata_mode: kraft, controllers: 3"),
        ("controllers:majority", "metadata_mode: kraft, controllers: 3"),
        ("controller:2", "metadata_mode: kraft, controllers: 3"),
    ],
)
def test_controllers_have_one(target: str, cluster: str) -> None:
    assert experiment(target=target, cluster=cluster).layout.disk_mib


def test_a_disk_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageFailure, match="disk_mib: 10 is not valid: expected at least 256, or 0"):
        ClusterLayout(disk_mib=10)


def test_a_cluster_that_runs_without_disks_is_refused_with_the_way_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PowerLoss, "unavailable", staticmethod(lambda: None))
    cluster: Any = SimpleNamespace(spec=ClusterLayout())
    with pytest.raises(UsageFailure, match="start it with disk_mib=4096"):
        run_experiment(experiment(), root=tmp_path, cluster=cluster)
    assert not list(tmp_path.iterdir())


def test_a_machine_that_can_not_do_it_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(disks, "has_capability", lambda _: False)
    with pytest.raises(EnvironmentFailure, match=r"power-loss can't be done on this machine: .* needs root"):
        run_experiment(experiment(), root=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cluster_that_is_shared_has_whole_disks_before_each_run() -> None:
    nodes = [FakeNode("broker-1", 1, disk=FakeDisk(frozen=True, filled=True)), FakeNode("zookeeper-1", 1)]
    restore(SimpleNamespace(nodes=nodes))  # type: ignore[arg-type]
    disk = nodes[0].disk
    assert disk is not None
    assert (disk.frozen, disk.filled) == (False, False)
