"""The plugin as a user has it: installed from the wheel, in a repository of their own, on a real cluster.

That repository has its own tests/, harness/ and experiments/. The quick way takes third-party packages from this
environment; the slow one installs everything as pip resolves it.
"""

import re
from pathlib import Path

import pytest

from kafka_chaos.harness.cluster.containers.image import ensure_image
from tests.plugin.installed import ROOT, empty_venv, must, run, venv_with

MORE_TESTS = """
import experiments
import harness
from confluent_kafka import Producer


def test_a_record_from_nowhere_is_found(kafka_chaos_run, kafka_chaos_cluster):
    def smuggle(app):
        place_orders(app)
        unrecorded = Producer({"bootstrap.servers": kafka_chaos_cluster.bootstrap_servers})
        unrecorded.produce(app.topic, value=b"nobody wrote this down")
        unrecorded.flush(30)

    kafka_chaos_run(lanes=["orders"], load=load(seconds=2), producer=smuggle).assert_conforms()


def test_the_repository_s_own_packages_are_its_own():
    assert harness.OWNER == experiments.OWNER == "the user"
"""

SPARK = ("--kafka-chaos-engine", "spark")  # which writes the report
PRINTS_ORDERS = """exec java -cp '/opt/kafka/jars/*' org.apache.kafka.tools.consumer.ConsoleConsumer \\
  --bootstrap-server $BOOTSTRAP_SERVERS --topic $TOPIC --from-beginning"""


def guide_as_a_file() -> str:
    """The guide's Python, as a user would put it into one file; its service is a command of the broker image's."""
    text = (ROOT / "docs" / "guides" / "application-under-test.md").read_text(encoding="utf-8")
    text = text.replace('"shop/billing")', f"{ensure_image()!r}).with_command({['sh', '-c', PRINTS_ORDERS]})")
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)) + MORE_TESTS


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("harness", "experiments", "tests"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("OWNER = 'the user'\n")
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--strict-markers'\n")
    (folder / "conftest.py").touch()
    (folder / "tests" / "test_orders.py").write_text(guide_as_a_file())
    return folder


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("dependencies", ["of this environment", "installed by pip"])
def test_the_wheel_s_plugin_tests_a_user_s_service(
    wheel: Path, project: Path, tmp_path: Path, dependencies: str
) -> None:
    """All tests of the project pass but the one that has to fail, and that one tells all there is to tell."""
    if dependencies == "installed by pip":
        python, site = empty_venv(tmp_path / "venv"), tmp_path / "venv"
        must(python, "-m", "pip", "install", "--quiet", f"{wheel}[spark]", "pytest")
    else:
        python, site = venv_with(tmp_path / "venv", wheel)
    where = must(python, "-c", "import kafka_chaos; print(kafka_chaos.__file__)", cwd=project).strip()
    assert Path(where).is_relative_to(site)
    # A project that turns warnings into errors gets none of ours.
    command = ("-W", "error", "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "--kafka-chaos-seed=7", *SPARK)
    done = run(python, *command, cwd=project)
    text = done.stdout
    assert "1 failed, 7 passed" in text, f"{text}\n{done.stderr}"
    assert done.returncode == 1
    reason = "phantom is forbidden and was found: 1"
    for line in (
        "E       AssertionError: the run's verdict is violation",
        f"E         {reason}",
        "E           phantom: partition 0, offset ",
        "E       replay: pytest tests/test_orders.py::test_a_record_from_nowhere_is_found --kafka-chaos-seed 7",
    ):
        assert line in text, text
    assert "Traceback" not in text
    # The evidence of the failed test is kept, that of the others is not.
    runs = [path for path in (project / "kafka-chaos-runs").iterdir() if not path.is_symlink()]
    assert [path.name.split("-", 2)[2][:-5] for path in runs] == ["test-a-record-from-nowhere-is-found"]
    report = runs[0] / "report.html"
    assert report.is_file()
    assert f"report: {report}" in text
    assert "test_a_record_from_nowhere_is_found --kafka-chaos-seed 7</code>" in report.read_text()
