"""The guide's own fault kind, as a package that is installed beside the wheel of kafka-chaos."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.plugin.installed import ROOT, build_wheel, must, run, venv_with

GUIDE = (ROOT / "docs" / "guides" / "own-fault.md").read_text(encoding="utf-8")
EXPERIMENT = """\
name: slow
lanes:
  - {lane: orders, acks: all, min_insync_replicas: 2}
workload: {rate: 500, duration: 10}
schedule:
  - {fault: slow, target: follower(orders), at: 3, duration: 5, kbit_per_second: 64}
"""


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an environment with kafka-chaos and the guide's package."""
    source, built = tmp_path_factory.mktemp("slow-fault"), tmp_path_factory.mktemp("built")
    (source / "slow_fault.py").write_text(block("python"))
    (source / "pyproject.toml").write_text(block("toml"))
    return venv_with(tmp_path_factory.mktemp("venv") / "venv", wheel, build_wheel(source, built))[0]


def test_an_experiment_takes_the_kind_s_own_keys_and_no_others(python: str, tmp_path: Path) -> None:
    program = """
import sys
from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.harness.experiment.file import dump_experiment, parse_experiment
text = sys.stdin.read()
experiment = parse_experiment(text, "slow.yaml")
(fault,) = experiment.phases[0].faults()
print(type(fault).__name__, fault.kbit_per_second)
print(parse_experiment(dump_experiment(experiment, {}), "again.yaml") == experiment)
for old, new in ((": 64", ": many"), (": 64", ": 0"), ("fault: slow", "fault: kill"), ("kbit_per", "mbit_per")):
    try:
        parse_experiment(text.replace(old, new), "slow.yaml")
    except UsageFailure as refusal:
        print(refusal)
"""
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "slow.yaml").write_text(EXPERIMENT)
    printed = must("sh", "-c", f"{python} program.py < slow.yaml", cwd=tmp_path).splitlines()
    place = "slow.yaml:6: schedule[0]"
    assert printed == [
        "Slow 64",
        "True",
        f"{place}.kbit_per_second: expected a whole number, got 'many'",
        f"{place}.kbit_per_second: 0 is not valid: expected at least 1",
        f"{place}.kbit_per_second: a fault of kind kill has no such key; expected fault, target, at, duration",
        f"{place}.mbit_per_second: a fault of kind slow has no such key; expected fault, target, at, duration, "
        "kbit_per_second",
    ]


def test_tests_and_the_report_know_the_kind(python: str, tmp_path: Path) -> None:
    program = """
from kafka_chaos import load, slow
from kafka_chaos.harness.report.timeline.fault_styles import kind_class, patterns, style_sheet
print(slow("follower(orders)", kbit_per_second=64).at(3).entry(load(seconds=10)))
print(kind_class("slow"), 'id="kind-slow"' in patterns(), "--fault-slow:#4a6785" in style_sheet())
"""
    printed = must(python, "-c", program, cwd=tmp_path).splitlines()
    entry = {"fault": "slow", "target": "follower(orders)", "at": 3.0, "duration": 7.0, "kbit_per_second": 64}
    assert printed == [str(entry), "kind-slow True True"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("slow_fault:Fast", "fault kind slow of slow-fault (slow_fault:Fast) can't be loaded"),
        ("slow_fault:Target", "fault kind slow of slow-fault (slow_fault:Target) lacks kind"),
        ("kafka_chaos.faults.process.kill:Kill", "calls itself 'kill'"),
    ],
)
def test_a_kind_that_can_not_be_used_is_one_line_and_exit_code_3(
    value: str, expected: str, wheel: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "slow_fault.py").write_text(block("python"))
    (source / "pyproject.toml").write_text(block("toml").replace("slow_fault:Slow", value))
    (tmp_path / "slow.yaml").write_text(EXPERIMENT)
    python, _ = venv_with(tmp_path / "venv", wheel, build_wheel(source, tmp_path))
    done = run(python, "-m", "kafka_chaos.harness.cli.main", "run", "slow.yaml", cwd=tmp_path)
    assert done.returncode == 3
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_a_run_injects_proves_and_heals_it(python: str, tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(EXPERIMENT)
    done = run(python, "-m", "kafka_chaos.harness.cli.main", "run", "slow.yaml", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run_dir = tmp_path / "runs" / "latest"
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    seen = {event["type"]: event for event in events if event["type"].startswith("fault_")}
    assert list(seen) == ["fault_requested", "fault_proven", "fault_healed"]
    assert seen["fault_requested"]["kind"] == "slow"
    assert seen["fault_requested"]["parameters"] == {"kbit_per_second": 64}
    assert 'id="kind-slow"' in (run_dir / "report.html").read_text()
