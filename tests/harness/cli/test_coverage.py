import json
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kafka_chaos.harness.cli import coverage
from kafka_chaos.harness.cli.coverage import coverage_below, coverage_page
from kafka_chaos.harness.cli.main import cli
from kafka_chaos.harness.report.inputs.actions import ACTIONS
from tests.harness.cli.test_runs_command import make

SAFE, FAST = "acks=all · min ISR ? · ? replicas", "acks=1 · min ISR ? · ? replicas"


def fault(number: int, kind: str, target: str, lanes: list[str] | None, *, proven: bool = True) -> list[dict[str, Any]]:
    requested = {"ts_ns": 1, "type": "fault_requested", "fault_id": str(number), "kind": kind, "target": target}
    outcome = {"ts_ns": 2, "type": "fault_proven" if proven else "fault_not_proven", "fault_id": str(number)}
    return [{**requested, "lanes": lanes}, outcome]


def write(run: Path, *faults: list[dict[str, Any]]) -> None:
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for one in faults for event in one))


def test_faults_count_with_their_proof_and_for_the_lanes_that_they_concern(tmp_path: Path) -> None:
    write(make(tmp_path, 1, lost=9), fault(1, "kill", "leader(fast)", None), fault(2, "pause", "broker:1", ["fast"]))
    write(make(tmp_path, 2), fault(1, "kill", "leader(safe)", None), fault(2, "stop", "random", None, proven=False))
    make(tmp_path, 3, verified=False)
    tried = coverage_below(tmp_path)
    safe, fast = tried.configurations[SAFE], tried.configurations[FAST]
    assert (tried.runs, len(safe.lanes), len(fast.lanes)) == (2, 2, 2)
    assert (safe.faults, safe.found) == ({("kill", "leader"): 2}, {})
    assert (fast.faults, fast.found) == ({("kill", "leader"): 2, ("pause", "broker"): 1}, {"lost_write": 1})


def test_the_table_shows_what_no_run_has_tried(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    write(make(tmp_path, 1, lost=9), fault(1, "kill", "leader(fast)", None), fault(2, "pause", "broker:1", ["fast"]))
    lines = CliRunner().invoke(cli, ["runs", "coverage", str(tmp_path)]).output.splitlines()
    assert [" ".join(line.split()) for line in lines[:6]] == [
        "1 run",
        "configuration lanes kill pause showed",
        f"{FAST} 1 1 1 lost_write in 1",
        f"{SAFE} 1 1 – nothing",
        "Actions of the model without a trace",
        "configuration actions",
    ]
    unseen = " ".join(" ".join(lines[6:]).split())
    assert unseen.startswith(f"{FAST} {', '.join([*ACTIONS][:8])}")
    assert f"{SAFE} {', '.join([*ACTIONS][:8])}" in unseen


def test_actions_of_the_model_count_once_per_lane_with_a_trace(tmp_path: Path, monkeypatch: Any) -> None:
    make(tmp_path, 1)
    make(tmp_path, 2)
    shows = iter([{"fast": Counter(elect=5), "safe": Counter(elect=1, kill=1)}, {"fast": Counter(elect=1)}])
    monkeypatch.setattr(coverage, "actions_of", lambda path: next(shows))
    found = coverage_below(tmp_path)
    assert found.configurations[FAST].actions == {"elect": 2}
    assert found.configurations[SAFE].actions == {"elect": 1, "kill": 1}
    assert found.to_json()["configurations"][1]["actions"] == {**dict.fromkeys(ACTIONS, 0), "elect": 1, "kill": 1}


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    assert "no runs with a verdict" in CliRunner().invoke(cli, ["runs", "coverage", str(tmp_path)]).output
    document = json.loads(CliRunner().invoke(cli, ["runs", "coverage", str(tmp_path), "--json"]).output)
    assert document == {"runs": 0, "configurations": [], "permitted": []}
    assert "no run with a verdict" in coverage_page(tmp_path)


def predicting(run: Path, **statuses: str) -> Path:
    """A run whose lane `fast` has these predictions, and lived through a kill."""
    verdict = json.loads((run / "verdict.json").read_text())
    verdict["lanes"][1]["predicted"] = statuses
    (run / "verdict.json").write_text(json.dumps(verdict))
    lanes = json.loads((run / "lanes.json").read_text())
    lanes["lanes"][1]["faults"] = ["kill"]
    (run / "lanes.json").write_text(json.dumps(lanes))
    return run


def test_what_is_permitted_and_never_shown_comes_first_and_only_if_it_was_judged(tmp_path: Path) -> None:
    for day, lost in ((1, 9), (2, 0), (3, 4)):
        predicting(make(tmp_path, day, lost=lost), lost_write="permitted", duplicate="permitted", phantom="forbidden")
    unjudged = predicting(make(tmp_path, 4), lost_write="permitted", duplicate="permitted")
    verdict = json.loads((unjudged / "verdict.json").read_text())
    verdict["lanes"][1]["not_judged"] = {"lost_write": "no log"}
    (unjudged / "verdict.json").write_text(json.dumps(verdict))
    claims = coverage_below(tmp_path).claims
    assert [(*claim, share.runs, share.hits) for claim, share in claims.items()] == [
        (FAST, "kill", "duplicate", 4, 0),
        (FAST, "kill", "lost_write", 3, 2),
    ]


def test_the_page_has_what_the_command_prints(tmp_path: Path) -> None:
    root = tmp_path / "runs & <more>"
    write(
        predicting(make(root, 1, lost=9), lost_write="permitted", duplicate="permitted"), fault(1, "kill", "all", None)
    )
    page = tmp_path / "page.html"
    result = CliRunner().invoke(cli, ["runs", "coverage", str(root), "--html", str(page)])
    assert result.exit_code == 0
    assert "never" in result.output
    written = page.read_text()
    assert "runs &amp; &lt;more&gt;" in written
    assert '<th scope="col">all</th>' in written
    assert "never" in written
    assert "lost_write in 1" in written
