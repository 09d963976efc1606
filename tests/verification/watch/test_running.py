"""A watch follows a run by its events alone."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.verification.watch.follow import find_run


def write(run_dir: Path, *events: dict[str, Any], mtime: float | None = None) -> Path:
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "events.jsonl"
    with path.open("a") as file:
        for event in events:
            file.write(json.dumps({"ts_ns": 1, **event}) + "\n")
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return run_dir


STARTED = {"type": "run_started", "run_id": "r", "experiment": "e", "lanes": ["a", "b"]}


def test_a_run_from_its_start_to_its_end(tmp_path: Path) -> None:
    run = find_run(write(tmp_path / "run", STARTED))
    assert (run.goes_on, run.bootstrap_servers, run.is_loaded, run.is_settled) == (True, None, False, False)
    write(run.path, {"type": "cluster_ready", "seconds": 1.0, "bootstrap_servers": "127.0.0.1:9"})
    write(run.path, {"type": "phase_started", "phase": "one", "lanes": ["a"]})
    write(run.path, {"type": "progress", "counts": {"a": [5, 4, 3]}})
    run.look()
    assert (run.bootstrap_servers, run.is_loaded, run.counts) == ("127.0.0.1:9", True, {"a": (5, 4, 3)})
    write(run.path, {"type": "phase_ended", "phase": "one"}, {"type": "phase_started", "phase": "two", "lanes": ["b"]})
    assert not run.look().is_settled
    write(run.path, {"type": "phase_ended", "phase": "two"})
    assert run.look().is_settled
    assert run.goes_on
    write(run.path, {"type": "run_ended", "verdict": "conforms", "seconds": 9.0})
    assert not run.look().goes_on


def test_a_line_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    run = find_run(write(tmp_path / "run", STARTED))
    line = json.dumps({"ts_ns": 1, "type": "run_ended", "verdict": "conforms", "seconds": 9.0}) + "\n"
    with (run.path / "events.jsonl").open("a") as file:
        file.write(line[:20])
        file.flush()
        assert not run.look().has_ended
        file.write(line[20:])
        file.flush()
        assert run.look().has_ended


def test_the_newest_run_that_goes_on_is_found_in_a_folder_of_runs(tmp_path: Path) -> None:
    write(tmp_path / "older", STARTED, mtime=1)
    write(tmp_path / "newer", STARTED, mtime=2)
    write(tmp_path / "over", STARTED, {"type": "run_ended", "verdict": "conforms", "seconds": 9.0}, mtime=3)
    (tmp_path / "latest").symlink_to("older")
    assert find_run(tmp_path).path == tmp_path / "newer"
    assert find_run(tmp_path / "latest").path == tmp_path / "older", "one path per run, whoever watches it next"


def test_a_folder_in_which_no_run_goes_on_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "over", STARTED, {"type": "run_ended", "verdict": "conforms", "seconds": 9.0})
    with pytest.raises(UsageFailure, match="no unfinished run is in it"):
        find_run(tmp_path)


def test_a_line_that_is_no_event_is_refused(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("{}\n")
    with pytest.raises(UsageFailure, match="not an event"):
        find_run(tmp_path)
