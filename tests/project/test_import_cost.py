"""Installing kafka-chaos costs another project next to nothing: neither its imports nor pytest's start."""

import os
import resource
import statistics
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
MOST_PAIRS = 30
FROM_OUTSIDE = ("PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")
"""Variables of who runs these tests. Without compiled modules, each process would compile the plugin again."""


def environment() -> dict[str, str]:
    """Without what is `FROM_OUTSIDE`, and with the package that these tests import."""
    import kafka_chaos

    home = str(Path(kafka_chaos.__file__).parents[1])
    return {name: value for name, value in os.environ.items() if name not in FROM_OUTSIDE} | {"PYTHONPATH": home}


def python(*arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
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


@pytest.mark.parametrize("module", ["kafka_chaos", PLUGIN])
def test_an_import_brings_in_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules])"
    assert python("-c", program).split() == []


def test_a_project_s_tests_run_without_anything_heavy(project: Path) -> None:
    out = python("-m", "pytest", "-s", "-p", "no:cacheprovider", cwd=project)
    (line,) = [line for line in out.splitlines() if "imported:" in line]
    assert line.split("imported:")[1].split() == [PLUGIN]


def processor_seconds() -> float:
    """The processor time of the processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_package_is_imported_in_under_50_ms() -> None:
    """As Python itself counts, next to what its start has imported anyway."""
    program = (
        "import sys, time, typing; start = time.process_time(); import kafka_chaos; "
        "print((time.process_time() - start) * 1000)"
    )
    assert min(float(python("-c", program)) for _ in range(PAIRS)) < MOST_MS


@pytest.mark.slow
def test_collection_takes_less_than_50_ms_more_with_the_plugin(project: Path) -> None:
    """In processor time, with and without it in turn: a busy machine then hardly counts.

    The quickest run of each is what the machine takes when nothing interferes.
    """

    def milliseconds(*options: str) -> float:
        start = processor_seconds()
        python("-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", *options, cwd=project)
        return (processor_seconds() - start) * 1000

    milliseconds()
    times: list[tuple[float, float]] = []
    more = MOST_MS
    # What else runs on the machine only adds to a time: the more pairs, the closer their minima are to the truth.
    while more >= MOST_MS and len(times) < MOST_PAIRS:
        times += [(milliseconds(), milliseconds("-p", "no:kafka_chaos")) for _ in range(PAIRS)]
        more = min(first for first, _ in times) - min(second for _, second in times)
    print(f"{more:.1f} ms more, median of pairs {statistics.median(a - b for a, b in times):.1f} ms")
    assert more < MOST_MS
