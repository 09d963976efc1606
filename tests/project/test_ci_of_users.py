"""GitHub's action and GitLab's job for other projects: their shell steps run here as the hosts run them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from tests.project.test_ci import ROOT, load

load_yaml = YAML(typ="safe").load
ACTION = ROOT / ".github" / "actions" / "chaos" / "action.yml"
JOB = ROOT / ".ci" / "chaos.gitlab-ci.yml"
GUIDE = (ROOT / "docs" / "guides" / "ci.md").read_text(encoding="utf-8")
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
for word in "$@"; do case $word in *exit-*) word=${word##*exit-}; exit "${word%%.*}" ;; esac; done
[ "$1" != images ] || echo kafka-chaos/broker:4.4.0
"""
"""Stands for a program: notes its call, and ends with the exit code that a file's name has, such as exit-2.yaml."""


class Machine:
    """A folder with experiments, and programs that stand for those of a runner."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder / "project", folder / "calls"
        self.folder.mkdir()
        for program in ("kafka-chaos", "python", "python3", "docker"):
            path = folder / "bin" / program
            path.parent.mkdir(exist_ok=True)
            path.write_text(STAND_IN, encoding="utf-8")
            path.chmod(0o755)
        self.home = folder / "home"
        self.home.mkdir()

    def add(self, *names: str) -> None:
        for name in names:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def run(self, script: str, **variables: str) -> int:
        path = f"{self.calls.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "HOME": str(self.home), "CALLS": str(self.calls), **variables}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script], cwd=self.folder, env=env, check=False
        ).returncode

    def called(self) -> list[str]:
        return self.calls.read_text(encoding="utf-8").splitlines() if self.calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def step(name: str) -> Any:
    return next(step for step in load(ACTION)["runs"]["steps"] if step.get("name") == name)


def chaos(machine: Machine, experiments: str = "", suite: str = "", engine: str = "duckdb") -> int:
    return machine.run(step("chaos")["run"], EXPERIMENTS=experiments, SUITE=suite, ENGINE=engine)


def test_each_experiment_is_run_once_with_a_file_of_junit(machine: Machine) -> None:
    machine.add("chaos/kill.yaml", "chaos/pause.yaml", "other.yaml")
    assert chaos(machine, "chaos/*.yaml other.yaml", engine="spark") == 0
    assert machine.called() == [
        f"kafka-chaos run {path} --engine spark --out chaos-results/runs --junit chaos-results/{junit}.xml"
        for path, junit in [
            ("chaos/kill.yaml", "chaos-kill.yaml"),
            ("chaos/pause.yaml", "chaos-pause.yaml"),
            ("other.yaml", "other.yaml"),
        ]
    ]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["exit-0.yaml", "exit-2.yaml"], 2),
        (["exit-3.yaml", "exit-2.yaml"], 3),
        (["exit-2.yaml", "exit-1.yaml", "exit-70.yaml"], 1),
    ],
)
def test_all_run_and_a_violation_is_the_gravest_end(machine: Machine, names: list[str], code: int) -> None:
    machine.add(*names)
    assert chaos(machine, " ".join(names)) == code
    assert len(machine.called()) == len(names)


def test_what_names_no_experiment_fails_the_job(machine: Machine) -> None:
    machine.add("exit-0.yaml")
    assert chaos(machine, "missing/*.yaml exit-0.yaml") == 64
    assert len(machine.called()) == 1
    assert chaos(machine) == 64


def test_a_suite_is_run_by_pytest_with_the_engine_and_its_own_options(machine: Machine) -> None:
    assert chaos(machine, suite="tests/chaos -k kill") == 0
    (call,) = machine.called()
    assert call.startswith("python -m pytest tests/chaos -k kill --kafka-chaos-engine duckdb ")
    assert chaos(machine, suite="tests/exit-1.py") == 1


def test_images_are_loaded_from_the_cache_and_saved_there_once(machine: Machine) -> None:
    images = machine.home / ".cache" / "kafka-chaos" / "images.tar"
    listed = "docker images --filter label=kafka-chaos.image=broker --filter dangling=false "
    listed += "--format {{.Repository}}:{{.Tag}}"
    machine.run(step("images")["run"], VERSIONS="4.4.0 3.9.1")
    machine.run(step("keep images")["run"])
    built = [f"kafka-chaos image --kafka-version {version}" for version in ("4.4.0", "3.9.1")]
    assert machine.called() == [*built, listed, f"docker save --output {images} kafka-chaos/broker:4.4.0"]
    images.touch()
    machine.calls.unlink()
    machine.run(step("images")["run"], VERSIONS="")
    machine.run(step("keep images")["run"])
    assert machine.called() == [f"docker load --quiet --input {images}", listed]


def test_the_action_installs_itself_unless_a_package_is_named(machine: Machine) -> None:
    for package, suite, engine in [("", "tests", "spark"), ("", "", "duckdb"), ("kafka-chaos==1", "", "spark")]:
        variables = {"PACKAGE": package, "SUITE": suite, "ENGINE": engine}
        assert machine.run(step("install")["run"], GITHUB_ACTION_PATH=str(ACTION.parent), **variables) == 0
    installs = [call for call in machine.called() if call.startswith("python")]
    assert installs == [
        f"python -m pip install --quiet {ACTION.parent}/../../..[spark] pytest",
        f"python -m pip install --quiet {ACTION.parent}/../../..",
        "python -m pip install --quiet kafka-chaos==1",
    ]
    assert (ACTION.parent / "../../.." / "pyproject.toml").resolve() == ROOT / "pyproject.toml"


def test_inputs_reach_scripts_as_variables_alone() -> None:
    """Text that a shell would read as commands can't come in by an input."""
    for each in load(ACTION)["runs"]["steps"]:
        assert "${{" not in each.get("run", "")
    assert not re.search(r"\$\[\[", "".join([*job()["script"], *job()["after_script"]]))


def job() -> Any:
    _, job = YAML(typ="safe").load_all(JOB.read_text(encoding="utf-8"))
    return job["kafka-chaos"]


def test_the_job_for_gitlab_runs_the_same_shell_and_keeps_the_same_files(machine: Machine) -> None:
    *_, images, chaos = job()["script"]
    assert [images, chaos, job()["after_script"][-1]] == [
        step(name)["run"] for name in ("images", "chaos", "keep images")
    ]
    uploaded = load(ACTION)["runs"]["steps"][-1]["with"]["path"].splitlines()
    assert job()["artifacts"]["paths"] == [path for path in uploaded if not path.startswith("!")]
    assert job()["artifacts"]["reports"]["junit"] in uploaded
    machine.add("a/exit-2.yaml", "a/exit-1.yaml")
    given = {"EXPERIMENTS": "a/*.yaml", "SUITE": "tests", "ENGINE": "duckdb", "PACKAGE": "kafka-chaos", "VERSIONS": ""}
    assert machine.run("\n".join(job()["script"]), **given) == 1
    programs = [" ".join(call.split()[:3]) for call in machine.called()]
    assert programs[:3] == ["python3 -m venv", "python -m pip", "kafka-chaos doctor"]
    assert programs[3:] == ["kafka-chaos run a/exit-1.yaml", "kafka-chaos run a/exit-2.yaml", "python -m pytest"]


def test_a_user_needs_at_most_eight_lines() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    github = next(text for text in examples if "/.github/actions/chaos@" in text)
    gitlab = next(text for text in examples if f"/{JOB.relative_to(ROOT)}" in text)
    for text in (github, gitlab):
        assert len(text.splitlines()) <= 8
    (used,) = (each for each in load_yaml(github)["jobs"]["chaos"]["steps"] if "with" in each)
    assert used["with"].keys() <= load(ACTION)["inputs"].keys()
    header, _ = YAML(typ="safe").load_all(JOB.read_text(encoding="utf-8"))
    assert load_yaml(gitlab)["include"][0]["inputs"].keys() <= header["spec"]["inputs"].keys()


SUITE = """from kafka_chaos import lane, load
def test_it(kafka_chaos_run):
    kafka_chaos_run(lanes=[lane("of-the-suite")], load=load(seconds=2)).assert_conforms()
"""


@pytest.mark.slow
@pytest.mark.cluster
def test_the_action_runs_an_experiment_and_a_suite_on_brokers(tmp_path: Path) -> None:
    (tmp_path / "chaos").mkdir()
    shutil.copy(ROOT / "experiments" / "demo.yaml", tmp_path / "chaos" / "demo.yaml")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    suite, summary = tmp_path / "suite.py", tmp_path / "summary.md"
    suite.write_text(SUITE)
    variables = {"EXPERIMENTS": "chaos/*.yaml", "SUITE": "suite.py", "ENGINE": "duckdb"}
    environment = {**os.environ, **variables, "PATH": path, "GITHUB_STEP_SUMMARY": str(summary)}
    script = ["bash", "-eo", "pipefail", "-c", step("chaos")["run"]]
    ended = subprocess.run(script, cwd=tmp_path, env=environment, check=False)
    assert ended.returncode == 0
    results = tmp_path / "chaos-results"
    assert ElementTree.parse(results / "chaos-demo.yaml.xml").getroot().tag == "testsuites"
    verdict = results / "runs" / "latest" / "verdict.json"
    assert (verdict.parent / "report.html").is_file()
    lanes = [lane["lane"] for lane in json.loads(verdict.read_text(encoding="utf-8"))["lanes"]]
    assert lanes
    assert all(lane in summary.read_text(encoding="utf-8") for lane in [*lanes, "of-the-suite"])
    assert ElementTree.parse(results / "suite.xml").getroot()[0].attrib["tests"] == "1"
