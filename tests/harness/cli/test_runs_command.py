"""`kafka-chaos runs`, as people see it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.cli.runs import read_run, runs_below
from tests.harness.snapshots import assert_same

EXPERIMENT = """\
name: orders
seed: {seed}
cluster: {{brokers: 3}}
phases:
- phase: main
  workload: {{rate: 500}}
recorded:
  run_id: {name}
  versions: {{kafka: {kafka}}}
  started: {{wall_clock: '2026-01-0{day}T03:00:00.123+00:00'}}
"""


def make(root: Path, day: int, *, lost: int = 0, kafka: str = "3.9.1", verified: bool = True) -> Path:
    name = f"2026010{day}-030000-orders-{day:04d}"
    path = root / name
    path.mkdir(parents=True)
    lanes = [{"lane": "safe", "acks": "all"}, {"lane": "fast", "acks": "1"}]
    (path / "lanes.json").write_text(json.dumps({"format_version": 1, "lanes": lanes}))
    (path / "experiment.yaml").write_text(EXPERIMENT.format(seed=day, name=name, kafka=kafka, day=day))
    if verified:
        (path / "verdict.json").write_text(json.dumps(verdict(lost)))
        (path / "report.html").touch()
    return path


def verdict(lost: int) -> dict[str, Any]:
    def lane(name: str, verdict: str, anomalies: dict[str, Any], *reasons: str) -> dict[str, Any]:
        counts = {"produced": 12000, "acknowledged": 11990, "consumed": 11990}
        return {"lane": name, "verdict": verdict, **counts, "anomalies": anomalies, "reasons": list(reasons)}

    found = {"lost_write": {"count": lost, "status": "permitted", "examples": []}} if lost else {}
    broken = {"duplicate": {"count": 2, "status": "forbidden", "examples": []}} if lost > 100 else {}
    safe = lane("safe", "violation", broken, "duplicate is forbidden and was found: 2") if broken else None
    lanes = [safe or lane("safe", "conforms", {}), lane("fast", "conforms", found)]
    return {"format_version": 1, "verdict": "violation" if broken else "conforms", "lanes": lanes}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = Path("runs")
    make(root, 1, lost=7)
    make(root, 2, lost=1234, kafka="3.8.1")
    latest = make(root, 3, verified=False)
    (root / "latest").symlink_to(latest.name)
    (root / "nightly").mkdir()
    return root


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="kafka-chaos", catch_exceptions=False)


def test_list_shows_the_latest_first_and_what_was_never_verified(root: Path) -> None:
    assert_same("runs-list.txt", invoke("runs", "list").output)


def test_list_as_json_is_one_object_per_run(root: Path) -> None:
    runs = [json.loads(line) for line in invoke("runs", "list", "--json").output.splitlines()]
    assert [run["verdict"] for run in runs] == ["not verified", "violation", "conforms"]
    assert runs[1]["lanes"]["fast"] == {"verdict": "conforms", "found": {"lost_write": 1234}}


def test_show_tells_lane_by_lane_and_the_reasons(root: Path) -> None:
    assert_same("runs-show.txt", invoke("runs", "show", "runs/20260102-030000-orders-0002").output)


def test_a_report_that_is_older_than_the_verdict_is_not_shown(root: Path) -> None:
    run = root / "20260102-030000-orders-0002"
    os.utime(run / "report.html", (0, 0))
    assert f"its report is of a former verdict: kafka-chaos report {run}" in invoke("runs", "show", str(run)).output


def test_what_was_never_verified_found_nothing_that_is_known_and_show_says_how_to_verify_it(root: Path) -> None:
    for command in (["list"], ["show"]):
        output = invoke("runs", *command).output
        (line, *_) = [line for line in output.splitlines() if "not verified" in line and ":" not in line[:40]]
        assert "–" in line
        assert "nothing" not in line
    assert "verify it: kafka-chaos verify " in output


def test_latest_is_the_newest_run_where_the_link_names_a_removed_one(root: Path) -> None:
    shutil.rmtree((root / "latest").resolve())
    assert "20260102-030000-orders-0002" in invoke("runs", "show").output


def test_what_is_no_run_directory_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match="it holds runs, such as runs/20260103-030000-orders-0003"):
        read_run(root)
    with pytest.raises(UsageFailure, match="not a run directory, expected one with a"):
        read_run(tmp_path)
    broken = root / "20260102-030000-orders-0002" / "verdict.json"
    broken.write_text("{}")
    with pytest.raises(UsageFailure, match="lanes: expected a list"):
        read_run(broken.parent)
    assert [run.name[-4:] for run in runs_below(root)] == ["0003", "0001"], "a list passes over it"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell: str) -> None:
    assert "_KAFKA_CHAOS_COMPLETE" in invoke("completion", shell).output
