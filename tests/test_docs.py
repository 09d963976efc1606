"""The site builds without a warning (by day in CI's step `docs`), and what the documentation shows can be done.

Experiments are checked as a run would check them, commands and options have to exist, Python has to work. The guide to
the pytest plugin is run on a cluster by tests/plugin/test_from_wheel.py, the tutorial by the last test here.
"""

import importlib
import json
import re
import secrets
import shlex
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
import duckdb
import pytest

from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.attached.compose import nodes_file_text
from kafka_chaos.harness.attached.nodes_file import load_nodes
from kafka_chaos.harness.campaign.atlas import Atlas
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.clients.kinds import ChosenClient, parse_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.experiment.file import load_experiment, parse_experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.runner import run_experiment
from tests.harness.leftovers import left_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "tutorial.md",
    *sorted(DOCS.glob("guides/*.md")),
    *sorted(DOCS.glob("explanations/*.md")),
    *(DOCS / f"{name}.md" for name in ("report", "install", "troubleshooting", "faq", "comparison")),
]
JAVA_CLIENT = "java -cp '/client/classes:/client/jars/*' Client"
ENTRANCES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks(page: Path, language: str) -> list[str]:
    """The page's blocks of a language."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [dedent(block) for _, block in found]


def all_blocks(language: str, pages: list[Path]) -> list[Any]:
    return [
        pytest.param(block, id=f"{page.stem}-{number}")
        for page in pages
        for number, block in enumerate(blocks(page, language), start=1)
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", str(DOCS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_links_only_what_is_there(built: Path) -> None:
    broken = []
    for page in built.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:", "data:", "mailto:")) and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(built)} → {target}")
    assert broken == []


def test_the_tables_of_anomalies_are_what_the_statements_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    page = (DOCS / "anomalies.md").read_text(encoding="utf-8")
    assert importlib.import_module("generate").with_tables(page) == page, "run `make docs`"


@pytest.mark.parametrize("text", all_blocks("yaml", PAGES))
def test_an_experiment_or_a_file_of_nodes_of_the_documentation_is_accepted(text: str, tmp_path: Path) -> None:
    if text.startswith("commands:"):
        (tmp_path / "nodes.yaml").write_text(text)
        load_nodes(tmp_path / "nodes.yaml")
    elif "\nservices:" in text:
        (tmp_path / "compose.yaml").write_text(text)
        assert "\nbrokers:" in nodes_file_text(tmp_path / "compose.yaml", Path("nodes.yaml"))
    elif "families:" in text:
        (tmp_path / "atlas.yaml").write_text(text)
        assert Atlas.from_file(tmp_path / "atlas.yaml").trials
    elif (
        "NetworkPolicy" not in text
        and "chaos@" not in text
        and "chaos.gitlab-ci.yml" not in text
        and not text.startswith("services:")
    ):
        # Files of CI hosts are read by tests/project/test_ci_of_users.py, services of a user's by the last test here.
        parse_experiment(text, "documentation.yaml")


@pytest.mark.parametrize("text", all_blocks("sh", [*PAGES, *ENTRANCES]))
def test_commands_of_the_documentation_exist_with_their_options(text: str) -> None:
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0].endswith("kafka-chaos"):
            check_command(cli, words[1:], line)
        elif words and words[0] == "make":
            makefile = (ROOT / "Makefile").read_text()
            for target in words[1:]:
                assert "=" in target or re.search(rf"^{target}:", makefile, re.MULTILINE), line


def check_command(command: click.Command, words: list[str], line: str) -> None:
    context = click.Context(command)
    while isinstance(command, click.Group):
        assert words, line
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    options = {name for parameter in command.params for name in parameter.opts}
    for word in words:
        assert not word.startswith("-") or word in options, f"{line}: {word}"


@pytest.mark.parametrize("text", all_blocks("python", PAGES))
def test_python_of_the_documentation_is_python(text: str) -> None:
    compile(text, "documentation.py", "exec")


def run_of_the_tutorial(number: int, folder: Path, engine: Engine) -> RunResult:
    path = folder / "tutorial.yaml"
    path.write_text(blocks(DOCS / "tutorial.md", "yaml")[number])
    result = run_experiment(load_experiment(path), root=folder / "runs", engine=engine)
    assert result.verdict.verdict is Verdict.CONFORMS
    return result


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_the_tutorial_s_experiment_shows_what_the_tutorial_says(tmp_path: Path) -> None:
    verdict = run_of_the_tutorial(0, tmp_path, Engine.SPARK).verdict
    assert (verdict.lane("fast").count(Anomaly.LOST_WRITE) or 0) > 1000
    assert verdict.lane("safe").count(Anomaly.LOST_WRITE) == 0


@pytest.mark.cluster
@pytest.mark.slow
def test_the_tutorial_s_share_group_is_given_what_the_tutorial_says(tmp_path: Path) -> None:
    deliveries = f"FROM '{run_of_the_tutorial(1, tmp_path, Engine.DUCKDB).path}/deliveries/*.parquet'"
    seen = duckdb.sql(f"SELECT DISTINCT delivery_count, acknowledgement, outcome {deliveries}").fetchall()
    assert {(1, "accept", "ok"), (1, "release", "ok"), (2, "accept", "ok"), (1, None, None)} <= set(seen)


@pytest.mark.cluster
@pytest.mark.slow
def test_the_guide_s_service_in_a_container_is_the_client_of_a_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service is the harness's own Java client, in a container of the broker image."""
    page, name = DOCS / "guides" / "application-under-test.md", f"shop-{secrets.token_hex(3)}"
    client, (compose, experiment) = parse_client("java"), blocks(page, "yaml")
    assert isinstance(client, ChosenClient)
    keys: dict[str, object] = {
        "image": ensure_image(),
        "command": ["bash", "-c", f"exec {JAVA_CLIENT} < <(sed -u s/127.0.0.1:[0-9.:,]*/$$BOOTSTRAP_SERVERS/)"],
        "volumes": [f"{client.fetch()}:/client:ro"],
    }
    lines = "\n    ".join(f"{key}: {json.dumps(value)}" for key, value in keys.items())
    text = compose.replace("image: shop/orders", lines).replace("cluster-shop", f"cluster-{name}")
    (tmp_path / "compose.yaml").write_text(text)
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
        experiment = experiment.replace("docker, compose", "docker-compose")  # the first one was a program of its own
    (tmp_path / "orders.yaml").write_text(experiment)
    monkeypatch.setenv("KAFKA_CHAOS_STATE", str(tmp_path / "state"))

    def kafka_chaos(line: str) -> subprocess.CompletedProcess[str]:
        words = [name if word == "shop" else word for word in line.split()[1:]]
        command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    up, run, down = blocks(page, "sh")[-1].splitlines()
    try:
        for line in (up, f"{run} --engine duckdb"):
            done = kafka_chaos(line)
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"in containers of the network kafka-chaos-cluster-{name}" in done.stdout
    finally:
        kafka_chaos(down)
    assert left_of(f"cluster-{name}") == []
