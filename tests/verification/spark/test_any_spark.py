"""Every Spark gives the same verdicts and findings: the oldest and the newest line, classic and Connect.

The other Sparks are installed on demand, each in an environment of its own: below KAFKA_CHAOS_SPARKS if that names a
folder, which keeps them, else in a temporary one.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import EnvironmentFailure
from kafka_chaos.verification import verify
from kafka_chaos.verification.inputs.file_systems.arrow_files import ArrowFiles
from kafka_chaos.verification.inputs.file_systems.java_files import JavaFiles
from tests.verification.samples.mutations import conforming, duplicate, hide, truncate
from tests.verification.spark.judging import judged, judged_as_uri, opened_as_uri, write_runs

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
NEWEST = "pyspark[connect]>=4.1,<5"
SPARKS = {"oldest": ("pyspark==3.5.*", False), "newest": (NEWEST, False), "newest-by-connect": (NEWEST, True)}
"""By name: what is installed, and whether it is used by Spark Connect."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_runs(tmp_path_factory.mktemp("any-spark") / "runs")


@pytest.fixture(scope="module")
def expected(runs: list[Path], spark: Any) -> dict[str, Any]:
    """The outcomes of this interpreter's Spark."""
    return {run_dir.name: judged(run_dir, spark) for run_dir in runs}


def python_with(requirement: str, scratch: Path) -> Path:
    """An interpreter with that PySpark, and all else from this environment."""
    kept = os.environ.get("KAFKA_CHAOS_SPARKS")
    name = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in requirement)
    venv = (Path(kept) if kept else scratch) / name
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", venv], check=True)
        site = sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)})
        Path(site, "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--ignore-installed"]
        subprocess.run([*pip, requirement], check=True)
        (venv / "complete").touch()
    return python


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("requirement", "connect"), SPARKS.values(), ids=SPARKS)
def test_the_outcomes_are_the_same(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[Path],
    expected: dict[str, Any],
    requirement: str,
    connect: bool,
) -> None:
    python = python_with(requirement, tmp_path_factory.getbasetemp())
    folder, into = tmp_path / "runs", tmp_path / "outcomes.json"
    shutil.copytree(runs[0].parent, folder, ignore=shutil.ignore_patterns("findings", "verdict.json"))
    program = [python, Path(__file__).with_name("judging.py"), folder, into, *(["--connect"] * connect)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert into.exists(), done.stderr[-4000:]
    found = json.loads(into.read_text())
    assert ("connect" in found["class"]) == connect
    assert found["spark"].split(".")[:2] != sys.modules["pyspark"].__version__.split(".")[:2]
    assert found["outcomes"] == expected


@pytest.mark.slow
def test_a_session_without_java_objects_judges_the_same(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    def forbidden(self: object) -> None:
        raise AssertionError("a session on Spark Connect has no sparkContext")

    runs = {name: mutated(tmp_path / name, mutation) for name, mutation in MUTATIONS_SEEN.items()}
    opened = {name: opened_as_uri(run_dir, spark) for name, run_dir in runs.items()}
    expected = judged_as_uri(runs["nothing"], spark)
    assert expected["verdict"] == "conforms"
    monkeypatch.setattr(SparkSession, "sparkContext", property(forbidden))
    monkeypatch.setattr(JavaFiles, "are_shown_by", lambda spark: False)
    assert {name: opened_as_uri(run_dir, spark) for name, run_dir in runs.items()} == opened
    assert len({str(outcome) for outcome in opened.values()}) == len(runs)
    assert judged_as_uri(runs["nothing"], spark) == expected
    verify(runs["nothing"].as_uri(), spark=spark)
    assert json.loads((runs["nothing"] / "verdict.json").read_text())["verdict"] == "conforms"
    with pytest.raises(EnvironmentFailure, match="PyArrow can't reach it"):
        verify("unheard-of://host/run", spark=spark)


def nested(table: Path) -> None:
    (table / "more").mkdir()
    (table / "part-00001.parquet").rename(table / "more" / "part-00001.parquet")


MUTATIONS_SEEN: dict[str, Callable[[Path], object]] = {
    "nothing": lambda table: (table / "_SUCCESS").touch(),
    "hidden": lambda table: hide(table / "part-00001.parquet"),
    "dotted": lambda table: (table / "part-00001.parquet").rename(table / ".part-00001.parquet"),
    "nested": nested,
    "doubled": lambda table: duplicate(table / "part-00001.parquet"),
    "emptied": lambda table: (table / "part-00001.parquet").write_bytes(b""),
    "no-events": lambda table: (table.parent / "events.jsonl").write_bytes(b""),
    "truncated": lambda table: truncate(table / "part-00001.parquet"),
    "no-log": lambda table: [file.unlink() for file in sorted(table.iterdir())],
}


def mutated(run_dir: Path, mutation: Callable[[Path], object]) -> Path:
    """A conforming run whose log/ is changed."""
    mutation(conforming().write(run_dir, files=2) / "log")
    return run_dir


def test_a_digest_is_that_of_the_first_bytes(tmp_path: Path, spark: Any) -> None:
    content = {"one part.parquet": os.urandom(3_000_000), "two.parquet": b"few", "none.parquet": b""}
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    for files, (name, data) in product((JavaFiles(spark), ArrowFiles()), content.items()):
        for size in (len(data), len(data) // 2):
            assert files.sha256(f"file:{tmp_path / name}", size) == hashlib.sha256(data[:size]).hexdigest()
