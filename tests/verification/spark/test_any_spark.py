"""Every Spark gives the same verdicts and findings: the oldest and the newest line, classic and Connect.

The other Sparks are installed on demand, each in an environment of its own: below KAFKA_CHAOS_SPARKS if that names a
folder, which keeps them, else in a temporary one.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.verification.spark.judging import judged, write_runs

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
