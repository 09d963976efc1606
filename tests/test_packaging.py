"""One import name, wherever the package comes from: checkout, wheel or source archive."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("harness", "faults", "reference_model", "verification")
OURS = {"harness", "faults", "reference_model", "verification", "experiments", "tests", "docker", "benchmarks", "docs"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    return next(folder.glob("kafka_chaos-*.whl"))


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_claims_one_name_and_carries_every_room(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"kafka_chaos"}
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]
    for path in (
        "harness/cli.py", "harness/config_keys.json", "faults/registry.py", "reference_model/predict.py",
        "verification/checker.py", "verification/spark-jars/pom.xml", "verification/log4j2.properties",
        "docker/kafka/Dockerfile", "docker/kafka/pom.xml", "docker/base/make-base", "experiments/demo.yaml", "py.typed",
    ):  # fmt: skip
        assert f"kafka_chaos/{path}" in names


def test_an_installed_wheel_leaves_a_project_its_own_harness_and_experiments(wheel: Path, tmp_path: Path) -> None:
    venv, project = tmp_path / "venv", tmp_path / "project"
    run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    python = str(venv / "bin" / "python")
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Third-party packages come from this environment, whose own .pth files are not followed from there.
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--force-reinstall",
        str(wheel),
    )
    for name in ("harness", "experiments", "tests"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"OWNER = 'project {name}'\n")
    program = (
        "import harness, experiments, tests, kafka_chaos.harness.cli as cli, kafka_chaos.harness.image as image\n"
        "print(harness.OWNER, experiments.OWNER, tests.OWNER)\n"
        "print(cli.__file__)\n"
        "print(image.image_tag())\n"
    )
    owners, where, tag = run(python, "-c", program, cwd=project).splitlines()
    assert owners == "project harness project experiments project tests"
    assert Path(where).is_relative_to(site)
    from kafka_chaos.harness.image import image_tag

    assert tag == image_tag(), "the image of an installed wheel is another one than the checkout's"
    for name in OURS - {"harness", "experiments", "tests"}:
        done = subprocess.run(
            [python, "-c", f"import {name}; print({name}.__file__)"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.stdout.startswith(str(site / name)), f"the wheel claims {name}"
    assert "verify" in run(str(venv / "bin" / "kafka-chaos"), "--help", cwd=project)


def test_a_wheel_built_from_the_source_archive_is_the_same(wheel: Path, tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    archive = next(iter(SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(archive))
    again = next(tmp_path.glob("kafka_chaos-*.whl"))
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("package", PACKAGES)
def test_the_checkout_has_a_link_for_every_room(package: str) -> None:
    link = ROOT / "kafka_chaos" / package
    assert link.is_symlink()
    assert link.readlink() == Path("..") / package


def test_the_command_line_imports_nothing_heavy_before_it_has_to() -> None:
    heavy = ("pyspark", "pyarrow", "docker", "confluent_kafka", "testcontainers", "pydantic")
    program = f"import sys, kafka_chaos.harness.cli; print([name for name in {heavy} if name in sys.modules])"
    assert run(sys.executable, "-c", program).strip() == "[]"
