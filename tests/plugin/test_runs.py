"""Which run directories of a test stay, and where `latest` points then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.cluster.cluster import ClusterLayout
from kafka_chaos.harness.pytest_plugin.runs import Runs
from kafka_chaos.harness.run.directory import RunDirectoryWriter

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
    runs._made = [make(tmp_path, "2-passed")]
    assert runs.finish(keep=False) == []
    assert (tmp_path / "latest").resolve().name == "1-failed"


def test_nothing_is_left_where_all_runs_are_removed(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    runs = runs_of(out)
    runs._made = [make(out, "1-passed")]
    runs.finish(keep=False)
    assert not out.exists()


def test_a_place_that_can_not_be_written_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageFailure, match=r"--kafka-chaos-out .*file is not a folder"):
        runs_of(tmp_path / "file" / "runs")(lanes=["orders"])
