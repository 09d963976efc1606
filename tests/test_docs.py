"""The site builds without a warning, and what the documentation shows can be done.

Experiments are checked as a run would check them, commands and options have to exist, Python has to work. The guide to
the pytest plugin is run on a cluster by tests/plugin/test_from_wheel.py, the tutorial by the last test here.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from kafka_chaos.harness.cli import cli
from kafka_chaos.harness.experiment_file import load_experiment, parse_experiment
from tests.faults.fakes import FakeCluster

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "tutorial.md",
    *sorted(DOCS.glob("guides/*.md")),
    *sorted(DOCS.glob("explanations/*.md")),
    DOCS / "report.md",
]
ENTRANCES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks(page: Path, language: str) -> list[str]:
    """The page's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


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


def test_the_site_builds_without_a_warning_and_links_only_what_is_there(built: Path) -> None:
    broken = []
    for page in built.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:", "data:", "mailto:")) and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(built)} → {target}")
    assert broken == []


def test_the_reference_names_every_command_key_fault_anomaly_and_event(built: Path) -> None:
    from kafka_chaos.faults.registry import FAULTS
    from kafka_chaos.harness.experiment import LaneModel
    from kafka_chaos.reference_model.anomalies import Anomaly

    def text(name: str) -> str:
        return (built / "reference" / f"{name}.html").read_text(encoding="utf-8")

    for command in cli.list_commands(click.Context(cli)):
        assert f"kafka-chaos {command}" in text("cli")
    assert all(f">{key}<" in text("experiment") for key in LaneModel.model_fields)
    assert all(f">{kind}<" in text("faults") for kind in FAULTS)
    assert all(f">{anomaly}<" in text("anomalies") for anomaly in Anomaly)
    assert "lane_judged" in text("run-directory")
    assert "kafka_chaos_run" in text("pytest")


@pytest.mark.parametrize("text", all_blocks("yaml", PAGES))
def test_an_experiment_of_the_documentation_is_accepted(text: str) -> None:
    parse_experiment(text, "documentation.yaml")


@pytest.mark.parametrize("text", all_blocks("sh", [*PAGES, *ENTRANCES]))
def test_commands_of_the_documentation_exist_with_their_options(text: str) -> None:
    for line in text.splitlines():
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


def test_the_guide_s_own_fault_breaks_proves_and_heals() -> None:
    module = type(sys)("slow_fault")
    sys.modules["slow_fault"] = module
    try:
        exec(blocks(DOCS / "guides" / "own-fault.md", "python")[0], module.__dict__)
    finally:
        del sys.modules["slow_fault"]
    slow = module.Slow(target=module.Target.parse("broker:2"), kbit_per_second=64)
    cluster = FakeCluster()
    node = cluster.brokers[2]
    show = "tc -s qdisc show dev eth0"

    slow.inject(cluster, (node,))
    assert node.commands[-1][7:9] == ("rate", "64kbit")
    node.answers[show] = (0, "qdisc tbf 8001: root\n Sent 1 bytes (dropped 0, overlimits 0 requeues 0)")
    assert not slow.proof(cluster, (node,)).bit
    node.answers[show] = (0, "qdisc tbf 8001: root\n Sent 1 bytes (dropped 0, overlimits 7 requeues 0)")
    assert slow.proof(cluster, (node,)).bit
    node.answers[show] = (0, "qdisc noqueue 0: root\n Sent 1 bytes (dropped 0, overlimits 7 requeues 0)")
    assert not slow.proof(cluster, (node,)).bit, "without a filter nothing bit"
    slow.heal(cluster, (node,))
    assert node.commands[-1] == ("tc", "qdisc", "del", "dev", "eth0", "root")


def test_workflows_run_the_night_keep_its_summaries_and_fail_on_a_violation() -> None:
    github = YAML(typ="safe").load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    steps = github["jobs"]["nightly"]["steps"]
    (night,) = [number for number, step in enumerate(steps) if step.get("run") == "make nightly"]
    assert not any("continue-on-error" in step for step in steps)
    assert all(step.get("if") == "always()" for step in steps[night + 1 :]), "a violation is published too"
    gitlab = YAML(typ="safe").load((ROOT / ".gitlab-ci.yml").read_text())["nightly"]
    assert gitlab["script"][-1] == "make nightly"
    assert gitlab["artifacts"]["when"] == gitlab["cache"]["when"] == "always"
    for text in (steps[night + 1]["run"], gitlab["after_script"][0]):
        assert "nightly-history" in text


def test_the_shell_of_the_workflows_keeps_summaries_as_the_trend_reads_them(tmp_path: Path) -> None:
    gitlab = YAML(typ="safe").load((ROOT / ".gitlab-ci.yml").read_text())["nightly"]
    night = tmp_path / "runs" / "nightly" / "20260101-020000"
    night.mkdir(parents=True)
    (night / "summary.json").write_text("{}")
    (tmp_path / "nightly-history").mkdir()
    subprocess.run(["bash", "-euc", gitlab["after_script"][0]], cwd=tmp_path, check=True)
    assert [path.name for path in (tmp_path / "nightly-history").iterdir()] == ["20260101-020000.json"]


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_the_tutorial_s_experiment_shows_what_the_tutorial_says(tmp_path: Path) -> None:
    from kafka_chaos.harness.runner import run_experiment
    from kafka_chaos.reference_model.anomalies import Anomaly, Verdict

    path = tmp_path / "first.yaml"
    path.write_text(blocks(DOCS / "tutorial.md", "yaml")[0])
    result = run_experiment(load_experiment(path), root=tmp_path / "runs")
    assert result.verdict.verdict is Verdict.CONFORMS
    assert (result.verdict.lane("fast").count(Anomaly.LOST_WRITE) or 0) > 1000
    assert result.verdict.lane("safe").count(Anomaly.LOST_WRITE) == 0
