"""The guide's own fault kind, as a package that is installed beside kafka-chaos."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from subprocess import run as run_process

import pytest

from kafka_chaos.contract.command.errors import ExitCode
from kafka_chaos.faults import registry
from tests.plugin.installed import ROOT, build_wheel, run, venv_with

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


def install(folder: Path, value: str = "slow_fault:Slow") -> None:
    """The guide's package as an installer leaves it, with an entry point of this value."""
    entry_points = tomllib.loads(block("toml"))["project"]["entry-points"]
    assert entry_points == {registry.GROUP: {"slow": "slow_fault:Slow"}}
    (folder / "slow_fault.py").write_text(block("python"))
    metadata = folder / "slow_fault-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-fault\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{registry.GROUP}]\nslow = {value}\n")


PROGRAM = """
import sys
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.file import dump_experiment, parse_experiment
text = sys.stdin.read()
experiment = parse_experiment(text, "slow.yaml")
(fault,) = experiment.phases[0].faults
print(type(fault).__name__, fault.kbit_per_second)
print(parse_experiment(dump_experiment(experiment, {}), "again.yaml") == experiment)
for old, new in ((": 64", ": many"), (": 64", ": 0"), ("fault: slow", "fault: kill"), ("kbit_per", "mbit_per")):
    try:
        parse_experiment(text.replace(old, new), "slow.yaml")
    except UsageFailure as refusal:
        print(refusal)

from kafka_chaos import load, slow
from kafka_chaos.harness.report.timeline.frame import kind_class, patterns, style_sheet
print(slow("follower(orders)", kbit_per_second=64).at(3).entry(load(seconds=10)))
print(kind_class("slow"), 'id="kind-slow"' in patterns(), "--fault-slow:#4a6785" in style_sheet())
"""


def test_experiments_tests_and_the_report_know_the_kind_and_its_own_keys(tmp_path: Path) -> None:
    install(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-c", PROGRAM]
    done = run_process(command, input=EXPERIMENT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    entry = {"fault": "slow", "target": "follower(orders)", "at": 3.0, "duration": 7.0, "kbit_per_second": 64}
    printed = done.stdout.splitlines()
    place = "slow.yaml:6: schedule[0]"
    assert printed == [
        "Slow 64",
        "True",
        f"{place}.kbit_per_second: expected a whole number, got 'many'",
        f"{place}.kbit_per_second: expected at least 1, got 0",
        f"{place}.kbit_per_second: a fault of kind kill has no such key; expected fault, target, at, duration",
        f"{place}.mbit_per_second: a fault of kind slow has no such key; expected fault, target, at, duration, "
        "kbit_per_second",
        str(entry),
        "kind-slow True True",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("slow_fault:Fast", "fault kind slow of slow-fault (slow_fault:Fast) can't be loaded"),
        ("slow_fault:Proof", "slow of slow-fault (slow_fault:Proof) must subclass kafka_chaos.faults.fault.Fault"),
        ("slow_fault:Fault", "fault kind slow of slow-fault (slow_fault:Fault) lacks kind"),
        ("kafka_chaos.faults.process.ended:Kill", "calls itself 'kill'"),
    ],
)
def test_a_kind_that_can_not_be_used_is_one_line_and_exit_code_3(
    value: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, value)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_fault", raising=False)
    with pytest.raises(registry.FaultKindError, match=re.escape(expected)) as refusal:
        registry.fault_kinds.__wrapped__()
    monkeypatch.delitem(sys.modules, "slow_fault", raising=False)
    assert refusal.value.exit_code == ExitCode.ENVIRONMENT
    assert "\n" not in str(refusal.value)


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.slow
def test_a_run_of_its_wheel_injects_proves_and_heals_it(wheel: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "slow_fault.py").write_text(block("python"))
    (source / "pyproject.toml").write_text(block("toml"))
    python, _ = venv_with(tmp_path / "venv", wheel, build_wheel(source, tmp_path))
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
