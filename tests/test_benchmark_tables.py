"""The results of benchmarks that run experiments one by one."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tables as benchmark


def run(version: str, verdict: str, root: Path) -> dict[str, Any]:
    assert root.is_dir()
    return {"version": version, "mode": "kraft", "verdict": verdict}


def test_a_new_result_takes_the_place_of_the_old_one_and_the_others_stay(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text(
        json.dumps(
            [
                {"version": "1", "mode": "kraft", "verdict": "violation"},
                {"version": "1", "mode": "zookeeper", "verdict": "violation"},
            ]
        )
    )
    written: list[list[dict[str, Any]]] = []

    def write(rows: list[dict[str, Any]]) -> None:
        benchmark.write_rows(rows, results)
        written.append(rows)

    runs = [partial(run, "1", "conforms"), partial(run, "2", "conforms")]
    benchmark.measure(runs, results=results, identified_by=("version", "mode"), write=write)
    old = {"version": "1", "mode": "zookeeper", "verdict": "violation"}
    one, two = ({"version": version, "mode": "kraft", "verdict": "conforms"} for version in ("1", "2"))
    assert written == [[old, one], [old, one, two]]


def test_it_fails_if_any_run_does_not_conform(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    write = partial(benchmark.write_rows, results=results)
    runs = [partial(run, "1", "unknown"), partial(run, "2", "conforms")]
    with pytest.raises(SystemExit) as exit_:
        benchmark.measure(runs, results=results, identified_by=("version", "mode"), write=write)
    assert exit_.value.code == 1
    assert len(benchmark.read_rows(results)) == 2, "the others are run all the same"
