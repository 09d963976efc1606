"""Installing kafka-chaos costs another project next to nothing: neither its imports nor pytest's start."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

HEAVY = (
    "click", "confluent_kafka", "docker", "jinja2", "kafka", "kazoo", "numpy", "pyarrow", "pydantic", "pyspark", "rich",
    "ruamel", "testcontainers",
)  # fmt: skip
(PLUGIN,) = (point.value for point in entry_points(group="pytest11", name="kafka_chaos"))
MOST_MS = 50.0
PAIRS = 3
FROM_OUTSIDE = ("PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")
"""Variables of who runs these tests. Without compiled modules, each process would compile the plugin again."""


def python(*arguments: str, cwd: Path | None = None) -> str:
    """The output of Python without what is `FROM_OUTSIDE`, and with the package that these tests import."""
    import kafka_chaos

    home = str(Path(kafka_chaos.__file__).parents[1])
    env = {name: value for name, value in os.environ.items() if name not in FROM_OUTSIDE} | {"PYTHONPATH": home}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a test that imports only the vocabulary, as it runs, and says which modules it finds imported."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(
        "import sys\n\n\n"
        "def test_that_prints_what_is_imported():\n"
        "    from kafka_chaos import kill, lane, load, partition, pause, stop\n"
        f"    print('imported:', *sorted({{*{HEAVY}, {PLUGIN!r}}} & sys.modules.keys()))\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("module", "may"),
    [
        ("kafka_chaos", ()),
        (PLUGIN, ()),
        ("kafka_chaos.harness.cli.main", ("click",)),
        ("kafka_chaos.harness.cli.known_command", ("click",)),
        ("kafka_chaos.harness.campaign.commands", ("click",)),
        ("kafka_chaos.harness.campaign.replay_commands", ("click",)),
        ("kafka_chaos.verification.cli", ("click",)),
    ],
)
def test_an_import_brings_in_nothing_heavy(module: str, may: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules and name not in {may}])"
    assert python("-c", program).split() == []


def test_a_project_s_tests_run_without_anything_heavy(project: Path) -> None:
    out = python("-m", "pytest", "-s", "-p", "no:cacheprovider", cwd=project)
    (line,) = [line for line in out.splitlines() if "imported:" in line]
    assert line.split("imported:")[1].split() == [PLUGIN]


def test_the_package_is_imported_in_under_50_ms() -> None:
    """As Python itself counts, next to what its start has imported anyway."""
    program = (
        "import sys, time, typing; start = time.process_time(); import kafka_chaos; "
        "print((time.process_time() - start) * 1000)"
    )
    assert min(float(python("-c", program)) for _ in range(PAIRS)) < MOST_MS
