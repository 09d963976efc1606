"""Shared by the benchmarks that run experiments one by one, and write tables of their results into pages."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kafka_chaos.contract.anomalies import Verdict

COMMAND = (sys.executable, "-m", "kafka_chaos.harness.cli.main")
"""The command `kafka-chaos` of this installation."""
MODES = {"zookeeper": "ZooKeeper", "kraft": "KRaft"}

Row = dict[str, Any]
"""The result of one run, as JSON has it."""


def measure(
    runs: Iterable[Callable[[Path], Row]],
    *,
    results: Path,
    identified_by: tuple[str, ...],
    write: Callable[[list[Row]], None],
) -> None:
    """Call each with a folder for its run, and `write` all results as soon as one more is there.

    A row takes the place of the one in `results` that has the same values in the fields `identified_by`; the others
    stay. Exits with 1 if a run does not conform.
    """
    good = True
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-benchmark-") as scratch:
        for run in runs:
            row = run(Path(scratch))
            print(json.dumps(row), flush=True)
            good &= row["verdict"] == Verdict.CONFORMS
            write([one for one in read_rows(results) if any(one[name] != row[name] for name in identified_by)] + [row])
    if not good:
        raise SystemExit(1)


def add_runs(
    meaning: str,
    results: Path,
    run: Callable[[Path], Row],
    done: Callable[[list[Row]], int],
    write: Callable[[list[Row]], None],
) -> list[Row]:
    """The results, with those of further runs until as many are `done` as the command line asks for.

    Each `run` is given a folder, and all results are written after it. `meaning`: for --help.
    """
    arguments = argparse.ArgumentParser(description=meaning.splitlines()[0])
    arguments.add_argument("runs", nargs="?", type=int, default=20)
    arguments.add_argument("--minutes", type=float, default=60.0)
    asked = arguments.parse_args()
    rows, started = read_rows(results), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-planted-") as scratch:
        while done(rows) < asked.runs and time.monotonic() - started < 60 * asked.minutes:
            begun = time.monotonic()
            row = run(Path(scratch))
            rows.append({"seconds": round(time.monotonic() - begun, 1), **row})
            print(json.dumps(rows[-1]), flush=True)
            write(rows)
    return rows


def commit() -> str:
    """The commit of this checkout, in short."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True, text=True).stdout.strip()


def read_rows(results: Path) -> list[Row]:
    """The results that are there; none before the first run."""
    return json.loads(results.read_text()) if results.exists() else []


def write_rows(rows: list[Row], results: Path) -> None:
    """Keep the results, a line for each."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    results.write_text(f"[\n{lines}\n]\n")


def write_table(page: Path, begin: str, table: str, end: str) -> None:
    """Replace what the page has between two lines."""
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}")
