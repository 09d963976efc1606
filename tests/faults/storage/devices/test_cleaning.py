"""Disks of runs whose process is dead: what removes them, in which order, and what is left alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.faults.storage.devices.disk import Disk, make_disks
from kafka_chaos.faults.storage.devices.healing import disk_journals
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.cluster.containers import cleanup
from kafka_chaos.harness.cluster.containers.labels import KEEP, OWNER, RUN, current_owner
from tests.clusters import needs_disks

pytestmark = needs_disks


class NoContainers:
    """A Docker engine on which nothing is left."""

    def __init__(self) -> None:
        self.containers = self.networks = self.volumes = self

    def list(self, **_: object) -> list[object]:
        return []


ENGINE: Any = NoContainers()


@pytest.fixture
def made(tmp_path: Path, own_state: None) -> Iterator[Any]:
    """Makes a run's disks for an owner, frozen."""

    def make(run_id: str, owner: str, **labels: str) -> Disk:
        every = {RUN: run_id, OWNER: owner, **labels}
        disk = make_disks(run_id, every, tmp_path / run_id, names={1: "broker-1"}, mib=256, log_directories=1)[1]
        disk.freeze()
        return disk

    yield make
    for recorded in list(disk_journals()):
        cleanup.remove_run(ENGINE, recorded.run_id)


def dead() -> str:
    """An owner whose process has ended: this one, started at another moment."""
    return current_owner().rpartition(":")[0] + ":1"


def test_clean_thaws_first_and_removes_the_disks_of_dead_runs_only(made: Any, tmp_path: Path) -> None:
    lost = made("lost", dead())
    living = made("living", current_owner())
    kept = made("kept", dead(), **{KEEP: "true"})
    (removed,) = cleanup.clean(ENGINE)
    assert (removed.run_id, removed.things, removed.alive, removed.kept) == ("lost", 1, False, False)
    assert not lost.files.image.exists()
    assert not (tmp_path / "lost").exists()
    assert living.is_frozen()
    assert kept.is_frozen()
    assert [(left.run_id, left.alive, left.kept) for left in cleanup.leftovers(ENGINE)] == [
        ("kept", False, True),
        ("living", True, False),
    ]
    assert [left.run_id for left in cleanup.clean(ENGINE, kept=True)] == ["kept"]


@pytest.mark.usefixtures("no_engine")
def test_clean_thaws_without_a_docker_engine(made: Any) -> None:
    lost, living = made("lost", dead()), made("living", current_owner())
    result = CliRunner().invoke(cli, ["clean"])
    assert result.exit_code != 0
    assert (lost.is_frozen(), living.is_frozen()) == (False, True)


def test_the_next_start_heals_what_a_dead_run_left(made: Any) -> None:
    made("lost", dead())
    living = made("living", current_owner())
    cleanup.remove_dead_runs_with_disks(ENGINE)
    assert [recorded.run_id for recorded in disk_journals()] == ["living"]
    assert living.is_frozen()
