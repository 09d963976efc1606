"""`kafka-chaos scenario walk`: what it prints and writes, with runs that need no cluster."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_chaos.conformance.scenario.record import ScenarioRecord
from kafka_chaos.conformance.walks import replay as replaying
from kafka_chaos.conformance.walks.draw import draw
from kafka_chaos.conformance.walks.group import Group
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.harness.cli import main as cli
from tests.conformance.scenario.samples import truncation

Run = Callable[..., tuple[int, str]]
DIFFERENCE = "walk 2, step 3 (…) broker 1, log: observed …, the model allows …"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command, on a cluster that agrees with every group but that of seed 6."""

    def replay(group: Group, pool: object) -> ScenarioRecord:
        record = truncation()
        record.scenario, record.title = f"walk-{group.seed}", str(group)
        disagrees = group.seed == 6
        record.verdict = Verdict.VIOLATION if disagrees else Verdict.CONFORMS
        record.reason = DIFFERENCE if disagrees else None
        return record

    monkeypatch.setattr(replaying, "replay", replay)

    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", "scenario", "walk", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), capsys.readouterr().out

    return call


def test_groups_that_agree_are_counted_and_kept(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "walks.json"
    code, out = run("--walks", "7", "--seed", "3", "--out", str(file))
    assert code == 0
    assert "12 walks, 144 steps without a disagreement" in out
    document = json.loads(file.read_text())
    assert document["verdict"] == "conforms"
    assert [one["title"] for one in document["scenarios"]] == [str(draw(3)), str(draw(4))]
    assert document["scenarios"][0]["acts"] == []


def test_a_disagreement_prints_seed_steps_and_difference_and_is_kept_whole(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "walks.json"
    code, out = run("--walks", "18", "--seed", "5", "--out", str(file))
    assert code == 1
    assert str(draw(6)) in out
    assert DIFFERENCE in out
    assert "kafka-chaos scenario walk --seed 6 --walks 6 --beside 6 --steps 12" in out
    document = json.loads(file.read_text())
    assert "12 walks, 144 steps without a disagreement" in out
    assert document["verdict"] == "violation"
    bad = document["scenarios"][1]
    assert (bad["scenario"], bad["reason"]) == ("walk-6", DIFFERENCE)
    assert bad["acts"][0]["steps"][0]["observed"]["replicas"]


def test_a_dry_run_prints_the_walks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out = run("--dry-run", "--walks", "2", "--beside", "2", "--steps", "3", "--seed", "9")
    assert (code, out) == (0, f"{draw(9, steps=3, walks=2)}\n")


@pytest.mark.parametrize("arguments", [("--walks", "0"), ("--minutes", "0"), ("--seed", "x")])
def test_bad_arguments_are_refused(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 64


def test_walks_in_kraft_mode_say_so(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "walks.json"
    code, out = run("--walks", "6", "--seed", "6", "--kraft", "4.3.1", "--out", str(file))
    assert code == 1
    assert "lag time, Kafka 4.3.1 in KRaft mode" in out
    assert "again: kafka-chaos scenario walk --seed 6 --walks 6 --beside 6 --steps 12 --kraft 4.3.1" in out


def test_a_version_without_kraft_mode_is_refused(run: Run) -> None:
    assert run("--kraft", "2.4.1", "--dry-run")[0] == 64
