"""`kafka-chaos scenario`: exit codes, output and files, with scenarios that need no cluster."""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.conformance.scenario import registry
from kafka_chaos.conformance.scenario.clusters import QUICK
from kafka_chaos.conformance.scenario.lockstep import ScenarioViolation
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import Scenario
from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure
from kafka_chaos.harness.cli import main as cli
from kafka_chaos.harness.cluster.containers import labels
from tests.conformance.scenario.samples import SOURCE, truncation

Played = list[str]


def conforms(play: Play) -> None:
    """All is well."""
    (played,) = truncation().acts
    play.record.acts.append(played)
    play.notify("act", played)
    for step in played.steps:
        play.notify("step", (played, step))


def that_ends_with(error: Exception) -> Callable[[Play], None]:
    def crashes(play: Play) -> None:
        raise error

    return crashes


PLAYS = {
    "good": conforms,
    "fine": conforms,
    "bad": that_ends_with(ScenarioViolation("broker 3, log: …")),
    "ill": that_ends_with(ClusterFailure("broker-1 did not start")),
    "broken": that_ends_with(KeyError("nobody")),
    "lacking": that_ends_with(EnvironmentFailure("no Docker engine answers")),
}
BOUND = "it follows a ZooKeeper session to its end"


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Scenarios of the tests instead of the real ones; records which of them run."""
    done: Played = []

    def noted(name: str, play: Callable[[Play], None]) -> Scenario:
        def run(stage: Play) -> None:
            done.append(name)
            play(stage)

        story = play.__doc__ or ""
        return Scenario(name, SOURCE, f"What {name} shows", story, "a.yaml", run, BOUND if name == "fine" else None)

    scenarios = {name: noted(name, play) for name, play in PLAYS.items()}
    monkeypatch.setattr(registry, "all_scenarios", lambda: scenarios)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    return done


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", "scenario", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("ids", "code", "verdict"),
    [
        (["good"], 0, "conforms"), (["good", "fine"], 0, "conforms"), (["good", "bad"], 1, "violation"),
        (["good", "ill"], 2, "unknown"), (["broken", "good"], 2, "unknown"), (["ill", "bad", "good"], 1, "violation"),
    ],
)  # fmt: skip
def test_the_gravest_verdict_is_the_exit_code(run: Any, ids: list[str], code: int, verdict: str) -> None:
    ended, out, _ = run("run", *ids, "--json")
    document = json.loads(out)
    assert (ended, document["verdict"]) == (code, verdict)
    assert [one["scenario"] for one in document["scenarios"]] == ids
    assert document["format_version"] == 1
    assert document["seconds"] >= 0


def test_in_kraft_mode_every_cluster_is_one_with_a_controller_of_its_own(run: Any) -> None:
    assert run("run", "good", "--kraft", "4.3.1", "--quiet")[0] == 0
    layout = QUICK.in_kraft("4.3.1").layout
    assert (layout.metadata_mode, layout.controllers, layout.kafka_version) == ("kraft", 1, "4.3.1")
    assert layout.broker_configs == QUICK.layout.broker_configs
    assert QUICK.in_kraft("4.3.1").name != QUICK.name


def test_a_later_version_replaces_that_of_a_kraft_profile_only() -> None:
    sharing = replace(QUICK, metadata_mode="kraft", kafka_version="4.2.2")
    assert [sharing.in_kraft(version).kafka_version for version in ("4.1.1", "4.4.0")] == ["4.2.2", "4.4.0"]
    assert replace(QUICK, kafka_version="3.6.2").in_kraft("4.4.0").kafka_version == "3.6.2"


def test_a_crash_names_its_place_and_the_others_still_run(run: Any, played: Played) -> None:
    _, out, _ = run("run", "broken", "good", "--json")
    reason = json.loads(out)["scenarios"][0]["reason"]
    assert reason.startswith("crashed with KeyError: 'nobody' (at test_cli.py:")
    assert "crashes" in reason
    assert played == ["broken", "good"]


def test_an_environment_that_lacks_something_ends_all_with_3(run: Any, played: Played, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    code, _, errors = run("run", "good", "lacking", "fine", "--quiet", "--out", str(file))
    assert (code, played) == (3, ["good", "lacking"])
    assert "no Docker engine answers" in errors
    document = json.loads(file.read_text())
    assert document["verdict"] == "unknown"
    assert [one["scenario"] for one in document["scenarios"]] == ["good"]
    assert document["not_run"] == ["lacking", "fine"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["god"], "'god' is not a scenario: expected ids that `kafka-chaos scenario list` prints; did you mean good?"),
        (["good", "nix", "good", "nada"], "'nix', 'nada' are not scenarios"),
        ([], "expected either ids (see `kafka-chaos scenario list`) and files, or --all"),
        (["good", "--out", "/proc/nowhere/results.json"], "/proc/nowhere/results.json: can't be written"),
        # What can't be run in KRaft mode.
        (["good", "fine", "--kraft", "4.3.1"], f"fine: {BOUND}"),
        (["good", "--kraft", "2.8.2"], "can't be run in KRaft mode by kafka-chaos: expected one of 4.4.0, 4.3.1"),
        (["good", "--kraft", "9.9"], "version '9.9' of Kafka is not known"),
    ],
)
def test_bad_arguments_end_with_64_before_anything_runs(
    run: Any, played: Played, arguments: list[str], expected: str
) -> None:
    code, out, errors = run("run", *arguments)
    assert (code, out, played) == (64, "", [])
    assert expected in errors


def test_repeated_runs_are_counted(run: Any, played: Played) -> None:
    code, out, _ = run("run", "good", "bad", "--repeat", "3", "--json")
    assert (code, played) == (1, ["good"] * 3 + ["bad"] * 3)
    good, bad = json.loads(out)["counts"]
    assert (good["scenario"], good["runs"], good["conforms"], good["violation"]) == ("good", 3, 3, 0)
    assert (bad["scenario"], bad["runs"], bad["conforms"], bad["violation"]) == ("bad", 3, 0, 3)
    assert list(good["seconds"]) == ["min", "median", "max"]


def test_the_story_is_printed_and_the_file_is_written_too(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.json"
    code, out, _ = run("run", "good", "--repeat", "2", "--out", str(file))
    assert code == 0
    for expected in (
        "What good shows", "All is well.", "X is killed; a producer sends M3.", "good, run 2 of 2: conforms", "2/2",
    ):  # fmt: skip
        assert expected in out
    assert len(json.loads(file.read_text())["scenarios"]) == 2
    assert [one.name for one in file.parent.iterdir()] == ["results.json"]


def test_ctrl_c_removes_the_clusters_and_keeps_what_there_is(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed = []

    class Running:
        def close(self) -> None:
            closed.append(self)

    def interrupted(play: Play) -> None:
        play.pool._running["one"] = Running()  # type: ignore[assignment]
        labels.STARTED_RUNS.add("scenario-one")
        raise KeyboardInterrupt

    monkeypatch.setattr(labels, "STARTED_RUNS", set())
    monkeypatch.setitem(
        registry.all_scenarios(), "fine", Scenario("fine", SOURCE, "Interrupted", "", "a.yaml", interrupted)
    )
    file = tmp_path / "results.json"
    code, _, errors = run("run", "good", "fine", "--quiet", "--out", str(file))
    assert code == 130
    assert len(closed) == 1
    assert "everything that was started is removed" in errors
    assert json.loads(file.read_text())["not_run"] == ["fine"]


def test_list_as_lines_and_as_json(run: Any) -> None:
    _, out, _ = run("list")
    assert out.splitlines()[0] == "good     What good shows     Replica Recovery"
    _, out, _ = run("list", "--json")
    assert json.loads(out)["scenarios"][2] == {
        "id": "bad", "document": "Replica Recovery", "section": "acks=1", "title": "What bad shows", "source": "a.yaml",
    }  # fmt: skip
