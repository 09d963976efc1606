"""A run of ours names its files in a manifest: one that is missing, added or changed since then is a doubt."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.harness.workload.history.writer import write_manifest
from kafka_chaos.verification.closure.resolve import resolved
from kafka_chaos.verification.inputs.manifest import not_as_written
from kafka_chaos.verification.inputs.run_directory import open_run
from tests.verification.samples.run_dirs import Rows

OURS = "recorded: {run_id: r, manifest: manifest.json}\n"
SINCE = "since the run wrote manifest.json"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that ended in order, with the events of its verification."""
    rows = Rows().all(0, 0).all(1, 1)
    rows.event("run_started", run_id="r")
    folder = rows.write(tmp_path / "run")
    (folder / "experiment.yaml").write_text(OURS)
    write_manifest(folder)
    append(folder, {"ts_ns": 90, "type": "step", "text": "verifying", "seconds": None})
    append(folder, {"ts_ns": 91, "type": "run_ended", "verdict": "conforms", "seconds": 1.0})
    return folder


def append(folder: Path, event: object) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n")


def part(folder: Path, table: str = "log") -> Path:
    (file,) = (folder / table).glob("*.parquet")
    return file


def copied(folder: Path) -> None:
    shutil.copy(part(folder), folder / "log" / "part-9.parquet")


def rewritten(folder: Path) -> None:
    text = (folder / "lanes.json").read_text()
    (folder / "lanes.json").write_text(text.replace('"a"', '"b"'))


def earlier(folder: Path) -> None:
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(lines[1:]))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "table": (lambda folder: shutil.rmtree(folder / "log"), f"missing {SINCE}: log/PART (2 rows)"),
    "document": (lambda folder: (folder / "experiment.yaml").unlink(), f"missing {SINCE}: experiment.yaml"),
    "one more": (copied, f"added {SINCE}: log/part-9.parquet"),
    "another document": (lambda folder: (folder / "timings.json").write_text("{}"), f"added {SINCE}: timings.json"),
    "rows": (lambda folder: shutil.copy(part(folder, "produced"), part(folder)), f"changed {SINCE}: log/PART"),
    "same size": (rewritten, f"changed {SINCE}: lanes.json"),
    "first event": (earlier, f"changed {SINCE}: events.jsonl"),
    "later evidence": (
        lambda folder: append(folder, {"ts_ns": 1, "type": "fault_proven", "fault_id": "x", "evidence": {}}),
        f"changed {SINCE}: events.jsonl",
    ),
    "half a line": (
        lambda folder: (folder / "events.jsonl").write_text((folder / "events.jsonl").read_text() + '{"type'),
        f"changed {SINCE}: events.jsonl",
    ),
    "no manifest": (
        lambda folder: (folder / "manifest.json").unlink(),
        "manifest.json is missing: the run was not written to its end, or somebody removed the file",
    ),
    "an empty manifest": (
        lambda folder: (folder / "manifest.json").write_text('{"format_version": 1, "files": {}}'),
        f"added {SINCE}: consumed/PART, events.jsonl, experiment.yaml, lanes.json, log/PART, …",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_not_as_the_run_wrote_it_is_named(run: Path, name: str) -> None:
    names = {folder: part(run, folder).name for folder in ("consumed", "log")}
    change, expected = CHANGES[name]
    change(run)
    for folder, file in names.items():
        expected = expected.replace(f"{folder}/PART", f"{folder}/{file}")
    assert not_as_written(run) == [expected]


def test_a_whole_run_has_no_doubt_and_one_that_changed_has_it_for_every_lane(run: Path) -> None:
    before = resolved(open_run(run), ()).doubts.get("a", [])
    (run / "prediction.json").write_text('{"format_version": 1, "lanes": {}}')
    after = resolved(open_run(run), ()).doubts["a"]
    assert [doubt.text for doubt in after if doubt not in before] == [f"changed {SINCE}: prediction.json"]


def test_a_directory_of_another_tool_or_an_older_version_needs_no_manifest(run: Path) -> None:
    (run / "manifest.json").unlink()
    (run / "experiment.yaml").write_text("recorded: {run_id: r}\n")
    assert not_as_written(run) == []
    (run / "experiment.yaml").unlink()
    assert not_as_written(run) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not valid JSON"),
        ("[]", "expected an object"),
        ('{"format_version": 9, "files": {}}', "format_version: is 9"),
        ('{"format_version": 1}', "files: "),
        ('{"format_version": 1, "files": {"lanes.json": {"bytes": "4", "sha256": ""}}}', "files.lanes.json: "),
        (
            '{"format_version": 1, "files": {"log/a.parquet": {"bytes": 4, "sha256": ""}}}',
            "expected rows, bytes and sha256",
        ),
    ],
)
def test_a_manifest_that_is_none_is_refused(run: Path, content: str, problem: str) -> None:
    (run / "manifest.json").write_text(content)
    with pytest.raises(RunDirectoryError) as refused:
        not_as_written(run)
    assert str(refused.value).startswith(f"{run / 'manifest.json'}: ")
    assert problem in str(refused.value)


@pytest.mark.parametrize("text", ["phases: [", "3"])
def test_an_experiment_that_is_none_is_refused_where_no_manifest_is_there(run: Path, text: str) -> None:
    (run / "manifest.json").unlink()
    (run / "experiment.yaml").write_text(text)
    with pytest.raises(RunDirectoryError, match=r"experiment\.yaml"):
        not_as_written(run)


def test_a_run_with_an_experiment_has_events(run: Path) -> None:
    (run / "events.jsonl").unlink()
    texts = [doubt.text for doubt in resolved(open_run(run), ()).doubts["a"]]
    assert "events.jsonl is missing, though experiment.yaml is there" in texts
