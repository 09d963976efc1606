"""CI systems get JUnit XML and a job's summary of runs that conform, violate, stay unknown or fail."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kafka_chaos.contract.events import Event, LaneJudged, RunEnded, RunStarted, Step
from kafka_chaos.harness.report.listeners.by_options import RunSummary, chosen_listeners

STARTED = RunStarted(run_id="r", experiment="demo", lanes=("good", "bad", "open"))


def judged(lane: str, verdict: str, *reasons: str) -> LaneJudged:
    found = {"lost_write": 1234} if verdict == "violation" else {}
    return LaneJudged(lane=lane, verdict=verdict, reasons=reasons, produced=5000, acknowledged=4999, found=found)


FINISHED = [
    STARTED,
    Step(text="loading"),
    judged("good", "conforms"),
    judged("bad", "violation", "lost_write is forbidden & was found: 1234", "second <reason>"),
    judged("open", "unknown", "no proof that fault a|b took effect"),
    RunEnded(verdict="violation", seconds=12.5),
]
FAILED = [STARTED, RunEnded(verdict="none", seconds=3.0)]


def junit(tmp_path: Path, events: list[Event]) -> ElementTree.Element:
    (listener,) = chosen_listeners(junit=tmp_path / "junit.xml")
    for event in events:
        listener(event)
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    return suite


def test_a_lane_is_a_test_case_and_a_violation_a_failure(tmp_path: Path) -> None:
    suite = junit(tmp_path, FINISHED)
    counts = {"tests": "3", "failures": "1", "errors": "1", "skipped": "0"}
    assert suite.attrib == {"name": "demo", "time": "12.500", **counts}
    good, bad, undecided = suite.findall("testcase")
    assert good.find("failure") is None
    assert good.find("error") is None
    failure = bad.find("failure")
    assert failure is not None
    assert failure.text == "lost_write is forbidden & was found: 1234\nsecond <reason>"
    assert "5,000 records produced, 4,999 acknowledged; found: lost write 1,234" in (bad.findtext("system-out") or "")
    error = undecided.find("error")
    assert error is not None
    assert error.get("message") == "unknown: no proof that fault a|b took effect"


def test_a_violation_that_was_accepted_is_skipped_and_says_so(tmp_path: Path) -> None:
    reasons = ("duplicate is forbidden and was found: 3 (known defect: x-1)", "accepted as known: x-1")
    accepted = replace(judged("bad", "violation", *reasons), known_defects=("x-1",), accepted_defects=("x-1",))
    events = [STARTED, judged("good", "conforms"), accepted, RunEnded(verdict="violation", seconds=1.0)]
    suite = junit(tmp_path, events)
    assert [suite.get(key) for key in ("failures", "skipped")] == ["0", "1"]
    (skipped,) = suite.iter("skipped")
    assert skipped.get("message") == f"violation: {'; '.join(reasons)}"
    summary = RunSummary("job-summary.md.j2", (tmp_path / "summary.md").write_text)
    for event in events:
        summary(event)
    assert "| bad | ⚠️ violation | " in (tmp_path / "summary.md").read_text()
    assert "accepted as known: x-1" in (tmp_path / "summary.md").read_text()


def test_a_run_that_failed_has_an_error_for_every_lane(tmp_path: Path) -> None:
    suite = junit(tmp_path, FAILED)
    assert suite.get("errors") == "3"
    assert [case.get("name") for case in suite.findall("testcase")] == ["good", "bad", "open"]


def test_the_job_s_summary_is_a_table_of_the_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    (listener,) = chosen_listeners()
    for event in FINISHED:
        listener(event)
    lines = path.read_text().splitlines()
    assert lines[:2] == ["before", "### demo: violation after 12.5 s"]
    assert "| good | ✅ conforms | 5,000 | 4,999 | no anomaly |  |" in lines
    assert lines[-2].endswith("| no proof that fault a/b took effect |"), "a bar would end the cell"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no folder" / "summary.md"))
    listener(FINISHED[-1])


def test_options_choose_listeners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert chosen_listeners() == []
    events = tmp_path / "events.jsonl"
    events.write_text("of another run\n")
    (listener,) = chosen_listeners(events=events)
    listener(STARTED)
    (line,) = events.read_text().splitlines()
    assert json.loads(line)["type"] == "run_started"
